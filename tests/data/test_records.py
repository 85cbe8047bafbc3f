"""CSV records: quoted line ends belong to values; errors name the line of a stray quote."""

import csv as python_csv
import io
import threading

import numpy as np
import pytest
from hypothesis import strategies as st

from evidentia.data.batches import joined
from evidentia.data.records import Records, _quoted_one_by_one, quoted
from evidentia.data.sources import csv, read_csv
from evidentia.data.tables import read_columns
from evidentia.errors import DataError
from tests.properties.examples import examples, for_all

WORDS = st.text(st.sampled_from('a,"\n\r é'), max_size=12)
ROWS = st.lists(
    st.tuples(st.integers(-999, 999), WORDS, st.sampled_from([0.5, 2.25])), min_size=1, max_size=30
)


def test_a_line_end_inside_quotes_does_not_end_a_record(tmp_path):
    records = Records(tmp_path, limit=100)
    assert records.header(io.BytesIO(b'\xef\xbb\xbf"a\nb",c\n1,"')) == b'\xef\xbb\xbf"a\nb",c\n'
    assert records.take(b'x\n""y') == b""
    assert records.take(b'"\n2,5" z\n3') == b'1,"x\n""y"\n2,5" z\n'
    assert records.last() == b"3"


@examples(many=4000, few=200)
def test_quoted_values_are_found_together_as_one_by_one(count):
    @for_all(st.lists(st.sampled_from(list(b'a",\n\r')), max_size=14).map(bytes), count)
    def holds(text):
        fast, slow = quoted(text), _quoted_one_by_one(text)
        assert [list(part) for part in fast[:2]] == [list(part) for part in slow[:2]]
        assert fast.is_open == slow.is_open


@examples(many=2000, few=60)
def test_rows_are_the_same_whatever_the_size_of_blocks(count, tmp_path):
    path = tmp_path / "rows.csv"

    @for_all(
        st.tuples(ROWS, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.integers(1, 200)), count
    )
    def holds(given):
        rows, end, has_last_end, size = given
        text = io.StringIO()
        writer = python_csv.writer(text, lineterminator=end, quoting=python_csv.QUOTE_NONNUMERIC)
        writer.writerows([("a", 'the\n"note"', "b"), *rows])
        content = text.getvalue() if has_last_end else text.getvalue().removesuffix(end)
        path.write_bytes(content.encode())
        longest = max(len(str(row)) for row in rows) + 60
        source = read_csv(path, ["a", "b"], types={"a": float, "b": float}, block_size=longest + size)
        arrays = joined([*source.batches()]).arrays
        np.testing.assert_array_equal(arrays["a"], [row[0] for row in rows])
        np.testing.assert_array_equal(arrays["b"], [row[2] for row in rows])
        table = read_columns(path, ["a", 'the\n"note"'])
        assert table["a"].to_pylist() == [row[0] for row in rows]


STRAY = {
    "to the end": (['1,"oops', "2,b", "3,c"], "unbalanced quote: the one in line 3 is never closed"),
    "to another": (['1,"oops', "2,b", '3,"c'], "unbalanced quote in line 3: .* closed in line 5, before 'c'"),
    "to a quoted value": (
        ['1,"oops', '2,"b"'],
        "unbalanced quote in line 3: .* closed in line 4, before 'b\"'",
    ),
    "behind a doubled one": (['1,"oops""', "2,b"], "unbalanced quote: the one in line 3 is never closed"),
    "in front of text": (['1,"a" b', "2,b"], "unbalanced quote in line 3: .* closed in line 3, before ' b'"),
    "behind quoted line ends": (
        ['1,"x\ny"', '2,"oops', "3,c"],
        "unbalanced quote: the one in line 5 is never",
    ),
}


@pytest.mark.parametrize(("lines", "message"), STRAY.values(), ids=STRAY)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_unbalanced_quote_is_an_error_with_its_line(tmp_path, lines, message, end):
    path = tmp_path / "rows.csv"
    path.write_bytes(end.join(["y,note", "0,a", *lines, "4,d" + end]).encode())
    for read in (lambda: list(read_csv(path, ["y"]).batches()), lambda: read_columns(path, ["y", "note"])):
        with pytest.raises(DataError, match=f"rows.csv has an {message}"):
            read()


def test_an_unbalanced_quote_far_below_the_first_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y,note\n" + "1,a\n" * 50 + '1,"b\n' + "1,a\n" * 50)
    batches = read_csv(path, ["y"], block_size=64).batches()
    assert next(batches).num_rows
    with pytest.raises(DataError, match="the one in line 52 is not closed within 64 bytes"):
        list(batches)


def test_a_quote_inside_a_value_is_a_character(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('y,note\n1,5" pipe\n2,"6"" pipe"\n3,"a\nb"\n4, "c"\n')
    assert joined([*read_csv(path, ["y"]).batches()]).arrays["y"].tolist() == [1, 2, 3, 4]
    assert read_columns(path, ["note"])["note"].to_pylist() == ['5" pipe', '6" pipe', "a\nb", ' "c"']


def test_a_followed_value_waits_for_its_closing_quote(tmp_path, monkeypatch):
    path, stop = tmp_path / "rows.csv", threading.Event()
    path.write_text('y,note\n1,"a\n')

    def append():
        with path.open("a") as file:
            file.write('b"\n2,c\n')

    steps = [append, stop.set]
    monkeypatch.setattr(csv.time, "sleep", lambda seconds: steps.pop(0)())
    source = read_csv(path, ["y"], follow=True, stop=stop.is_set)
    assert [batch.arrays["y"].tolist() for batch in source.batches()] == [[1, 2]]


def test_the_last_row_without_line_end_says_its_type_too(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y\n1\n2.5")
    assert joined([*read_csv(path).batches()]).arrays["y"].tolist() == [1.0, 2.5]
