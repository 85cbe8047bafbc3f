"""Each form of a table's file against the same table from memory."""

import bz2
import gzip
import json
import lzma
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc as arrow_ipc
import pytest

import evidentia as ev
from evidentia.data.form import Form
from evidentia.data.formats import whole_table
from evidentia.data.sources.table import TableSource
from evidentia.data.tables import read_columns

TABLE = pd.DataFrame({"y": [0.5, 1.25, -2.0], "n": [1, 2, 3], "g": ["é", "b", "b"]})
TEXT = TABLE.to_csv(index=False).encode()


def _stream(path):
    table = pa.Table.from_pandas(TABLE)
    with arrow_ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def _sqlite(path):
    connection = sqlite3.connect(path)
    TABLE.to_sql("rows", connection, index=False)
    connection.close()


SEMICOLONS = Form(sep=";", decimal=",")
FORMS = {
    "a.tsv": (lambda path: TABLE.to_csv(path, sep="\t", index=False), Form()),
    "a.csv": (lambda path: TABLE.to_csv(path, sep=";", decimal=",", index=False), SEMICOLONS),
    "a.txt": (lambda path: TABLE.to_csv(path, sep="|", index=False), Form(sep="|")),
    "b.csv": (lambda path: path.write_bytes(b"# by hand\n" + TEXT), Form(comment="#")),
    "a.csv.gz": (lambda path: path.write_bytes(gzip.compress(TEXT)), Form()),
    "a.csv.bz2": (lambda path: path.write_bytes(bz2.compress(TEXT)), Form()),
    "a.csv.xz": (lambda path: path.write_bytes(lzma.compress(TEXT)), Form()),
    "a.csv.zst": (lambda path: path.write_bytes(pa.compress(TEXT, codec="zstd", asbytes=True)), Form()),
    "a.feather": (TABLE.to_feather, Form()),
    "a.arrow": (_stream, Form()),
    "a.jsonl": (lambda path: TABLE.to_json(path, orient="records", lines=True), Form()),
    "a.json": (lambda path: TABLE.to_json(path, orient="records"), Form()),
    "a.sqlite": (_sqlite, Form()),
    "a.dta": (lambda path: TABLE.to_stata(path, write_index=False, version=118), Form()),
    "a.npz": (lambda path: np.savez(path, y=TABLE.y, n=TABLE.n, g=TABLE.g.to_numpy(str)), Form()),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_as_it_was_written(tmp_path, name):
    write, form = FORMS[name]
    write(tmp_path / name)
    found = read_columns(tmp_path / name, ["g", "y", "n"], form=form).to_pandas()
    assert found["g"].tolist() == TABLE["g"].tolist()
    assert np.array_equal(found[["y", "n"]].to_numpy(float), TABLE[["y", "n"]].to_numpy(float))


@pytest.mark.parametrize(
    "name", ["a.tsv", "a.txt", "b.csv", "a.csv.gz", "a.csv.bz2", "a.csv.xz", "a.csv.zst"]
)
def test_an_unbalanced_quote_is_refused_in_every_form_of_text(tmp_path, name, monkeypatch):
    note = pd.Series(["ok"] * 20)
    note[8] = '"open'
    table = pd.DataFrame({"y": np.arange(20.0), "note": note})
    text = table.to_csv(index=False, quoting=3, quotechar="'")
    monkeypatch.setitem(globals(), "TEXT", text.encode())
    write, form = FORMS[name]
    write(tmp_path / name)
    if name in ("a.tsv", "a.txt"):
        (tmp_path / name).write_text(text.replace(",", form.sep or "\t"))
    line = 11 if name == "b.csv" else 10  # after a comment
    for read in (
        lambda: read_columns(tmp_path / name, ["y"], form=form),
        lambda: next(ev.read_csv(tmp_path / name, ["y"], sep=form.sep, comment=form.comment).batches()),
    ):
        with pytest.raises(ev.DataError, match=f"unbalanced quote: the one in line {line} is never closed"):
            read()


BIG = [10**17 + one for one in range(8)]


def _sqlite_with_gaps(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE rows (y INTEGER)")
    connection.executemany("INSERT INTO rows VALUES (?)", [(one,) for one in [None, *BIG]])
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "name, write",
    [
        ("a.json", lambda path: path.write_text(json.dumps([{"y": one} for one in [None, *BIG]]))),
        ("a.jsonl", lambda path: path.write_text("".join(f'{{"y": {one}}}\n' for one in ["null", *BIG]))),
        ("a.sqlite", _sqlite_with_gaps),
        (
            "a.csv.gz",
            lambda path: path.write_bytes(gzip.compress("\n".join(map(str, ["y", "NA", *BIG])).encode())),
        ),
        ("a.feather", pd.DataFrame({"y": pd.array([None, *BIG], "Int64")}).to_feather),
    ],
)
def test_integers_beside_missing_values_keep_their_digits(tmp_path, name, write):
    write(tmp_path / name)
    assert whole_table(tmp_path / name)["y"].to_pylist() == [None, *BIG]
    with pytest.raises(ev.DataError, match="vary by only 7"):
        next(ev.read_csv(tmp_path / name, ["y"], missing="drop").batches())


def test_excel(tmp_path):
    pytest.importorskip("openpyxl")
    TABLE.to_excel(tmp_path / "a.xlsx", index=False)
    assert whole_table(tmp_path / "a.xlsx").to_pydict() == TABLE.to_dict("list")


def test_excel_without_its_package(tmp_path, monkeypatch):
    import pandas

    def missing(*args):
        raise ImportError("no openpyxl")

    (tmp_path / "a.xlsx").write_bytes(b"PK")
    monkeypatch.setattr(pandas, "ExcelFile", missing)
    with pytest.raises(ev.ConfigurationError, match=r"pip install 'evidentia\[excel\]'"):
        whole_table(tmp_path / "a.xlsx")


def test_missing_values_by_other_words(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,g\n-,a\n2.5,?\n,NA\n")
    assert whole_table(path, Form(na=("-", "?"))).to_pydict() == {
        "y": [None, 2.5, None],
        "g": ["a", None, None],
    }


def test_a_readers_arguments_are_the_same(tmp_path):
    path = tmp_path / "a.csv"
    TABLE.to_csv(path, sep=";", decimal=",", index=False)
    source = ev.read_csv(path, {"x": ["y"], "y": "n"}, sep=";", decimal=",")
    assert isinstance(source, TableSource) and source.num_rows == 3
    batch = next(source.batches(skip=1))
    assert batch.arrays["x"].tolist() == [[1.25], [-2.0]] and batch.arrays["y"].dtype == np.int32
    found = ev.estimate(ev.Regression("y ~ n"), ev.read_csv(path, sep=";", decimal=","))
    assert found.log_evidence == ev.estimate(ev.Regression("y ~ n"), TABLE).log_evidence


def test_tables_of_sqlite_are_named(tmp_path):
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    for name in "first", "second":
        TABLE.to_sql(name, connection, index=False)
    connection.close()
    assert whole_table(path, Form(table="second")).num_rows == 3
    with pytest.raises(ev.ConfigurationError, match="has 2 tables: first, second. Name one with --table"):
        whole_table(path)
    with pytest.raises(ev.DataError, match="has no table 'secnd'. Did you mean 'second'"):
        whole_table(path, Form(table="secnd"))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.doc", b"a", "must end in .parquet, .csv, .tsv"),
        ("a.csv.gz", TEXT, "cannot be read as text"),
        ("a.feather", TEXT, "cannot be read as Feather"),
        ("a.jsonl", b"{", "cannot be read as JSON lines"),
        ("a.json", b'[{"y": 1, "y": 2}]', "a row has several values of 'y'"),
        ("a.json", b"[" * 100_000, "cannot be read as JSON"),
        ("a.json", b'[{"y": %d}]' % 10**30, "cannot be read as JSON"),
        ("a.dta", TEXT, "cannot be read as Stata"),
        ("a.db", TEXT, "cannot be read as SQLite"),
        ("a.tsv", b"a\tb\n", "is empty"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ev.DataError, match=message):
        whole_table(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path):
    for name in "a.tsv", "a.db", "a.csv.gz":
        with pytest.raises(ev.DataError, match="does not exist"):
            whole_table(tmp_path / name)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"sep": ";;"}, "sep must be one character"),
        ({"decimal": "x"}, "decimal must be"),
        ({"decimal": ","}, "needs another separator"),
        ({"comment": ""}, "comment must be"),
        ({"encoding": "latin-99"}, "encoding must be the name of a text encoding"),
        ({"encoding": "utf-16"}, "encoding must be one in which ASCII characters are single bytes"),
    ],
)
def test_invalid_forms(given, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        Form(**given)


def test_a_slip_among_numbers_is_shown_with_its_row(tmp_path):
    table = pd.DataFrame({"y": np.arange(20.0), "x": [*map(str, range(12)), "?", *map(str, range(13, 20))]})
    message = (
        r"column 'x' holds '\?' in row 12 \(the first is 0\), while other values are numbers; no other row"
    )
    with pytest.raises(ev.DataError, match=message):
        ev.estimate(ev.Regression("y ~ x"), table)
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ev.DataError, match=r"holds '\?' in data row 13 of .*a.csv"):
        ev.estimate(ev.Regression("y ~ x"), ev.read_csv(tmp_path / "a.csv", ["y"]))
