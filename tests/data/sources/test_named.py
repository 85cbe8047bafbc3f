"""Arguments of the readers that are of a wrong type: one message each, never a traceback."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import strategies as st

from evidentia.data.sources import IterableSource, open_source, read_csv, read_ipc, read_parquet
from evidentia.data.tables import read_columns
from evidentia.errors import ConfigurationError, DataError, EvidentiaError
from tests.properties.examples import ODD, examples, for_all

TABLE = {"x": [1.0, 2.0], "y": [3.0, 4.5]}


class Unlike:
    """It cannot be compared with anything, or hashed."""

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError


@pytest.fixture(params=["csv", "parquet", "ipc"])
def read(request, tmp_path):
    """A reader of a file or a stream with the table."""

    def read(columns=None, **options):
        if request.param == "ipc":
            stream = io.BytesIO()
            with pa.ipc.new_stream(stream, pa.table(TABLE).schema) as writer:
                writer.write_table(pa.table(TABLE))
            stream.seek(0)
            return read_ipc(stream, columns, **options)
        path = tmp_path / f"rows.{request.param}"
        if request.param == "csv":
            pd.DataFrame(TABLE).to_csv(path, index=False)
            return read_csv(path, columns, **options)
        pa.parquet.write_table(pa.table(TABLE), path)
        return read_parquet(path, columns, **options)

    return read


WRONG_COLUMNS = [3, b"x", True, {"x"}, [], {}, [3], [None], [["x"]], float, Unlike(), {"x": "a"}.items()]
WRONG_NAMES = [3, None, b"x", [3], ["x", 3], [], {"b": "x"}, {"x", "y"}, Unlike(), float]


@pytest.mark.parametrize("columns", WRONG_COLUMNS)
def test_columns_of_a_wrong_type(read, columns):
    with pytest.raises(
        ConfigurationError, match=f"columns must be column names.*; got {re.escape(repr(columns))}"
    ):
        read(columns)
    with pytest.raises(ConfigurationError, match="columns must be column names, or a mapping"):
        read(lambda names: columns)


@pytest.mark.parametrize("wanted", WRONG_NAMES)
def test_names_of_a_wrong_type(read, wanted):
    message = rf"columns\['a'\] must be one or more column names; got {re.escape(repr(wanted))}"
    with pytest.raises(ConfigurationError, match=message):
        read({"a": wanted})


def test_names_in_any_container_that_has_an_order(read):
    for names in (
        ["x", "y"],
        ("x", "y"),
        np.array(["x", "y"]),
        pd.Index(["x", "y"]),
        {"x": 1, "y": 2}.keys(),
    ):
        if isinstance(names, type({}.keys())):  # a set, for Python, but in order
            continue
        (batch,) = read({"a": names}).batches()
        assert batch.arrays["a"].tolist() == [[1.0, 3.0], [2.0, 4.5]]
    with pytest.raises(ConfigurationError, match=r"columns\[3\] must be one or more column names"):
        read({3: "x"})


@pytest.mark.parametrize(
    "types", [3, "x", ["x"], int, {"x": "int"}, {"x": np.float64}, {"x": None}, {"x": Unlike()}, {"q": int}]
)
def test_types_of_a_wrong_type(read, types):
    for given in (types, lambda names: types):
        with pytest.raises(
            ConfigurationError, match=r"types must map|types\['x'\] must be int or float|a column 'q'"
        ):
            read(types=given)


def test_functions_that_fail(read):
    def fails(names):
        return 1 / 0

    with pytest.raises(
        ConfigurationError, match="columns failed as a function of .* all columns: ZeroDivisionError"
    ):
        read(fails)

    def takes_nothing():
        return {}

    with pytest.raises(ConfigurationError, match="types failed as a function of .*: TypeError"):
        read(types=takes_nothing)


@pytest.mark.parametrize("missing", [3, None, [], {}, True, np.array([1, 2]), Unlike()])
def test_missing_of_a_wrong_type(read, missing):
    for source in (lambda: read(missing=missing), lambda: IterableSource([], missing)):
        with pytest.raises(ConfigurationError, match="missing must be 'error' or 'drop'; got "):
            source()


@pytest.mark.parametrize("name", ["a\0b.csv", "\0", "\ud800.parquet", Path("a\0"), "file://a\0b"])
def test_names_that_no_file_can_have(name):
    for paths in (name, [name]):
        for reader in (read_csv, read_parquet, open_source, lambda given: read_columns(given, ["x"])):
            with pytest.raises(
                ConfigurationError, match="cannot be named .*: it has a character that no name may"
            ):
                reader(paths)


@pytest.mark.parametrize(
    "paths", [3, None, [], b"rows.csv", {"a": 1}, {"rows.csv"}, [3], [["a"]], Unlike(), True]
)
def test_paths_of_a_wrong_type(paths):
    for reader in (read_csv, read_parquet, open_source, lambda given: read_columns(given, ["x"])):
        with pytest.raises(
            ConfigurationError, match="paths must be a path, a pattern, or a list of these; got "
        ):
            reader(paths)


@pytest.mark.parametrize("stream", [3, None, "rows.arrow", b"abc", [], io.StringIO("x,y\n"), Unlike()])
def test_streams_of_a_wrong_type(stream):
    with pytest.raises(ConfigurationError, match="stream must be a binary file, such as sys.stdin.buffer"):
        read_ipc(stream)
    (closed := io.BytesIO()).close()
    with pytest.raises(DataError, match="the stream is closed; open it again"):
        read_ipc(closed)


def test_other_arguments_of_a_wrong_type(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y\n1\n")
    for follow in ("yes", 3, None, np.array([1, 2])):
        with pytest.raises(ConfigurationError, match="follow must be True or False; got"):
            read_csv(path, follow=follow)
    for encoding in (3, b"utf-8", "", "idna", "hex", "\0", Unlike()):
        with pytest.raises(ConfigurationError, match="encoding must be"):
            read_csv(path, encoding=encoding)


@examples(many=3000, few=100)
def test_arguments_of_any_kind_give_rows_or_one_message(count, tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame(TABLE).to_csv(path, index=False)
    names = st.sampled_from(["columns", "types", "missing", "follow", "stop", "encoding", "paths"])
    values = st.one_of(
        ODD, st.dictionaries(st.sampled_from(["x", "a", ""]), ODD, max_size=2), st.lists(ODD, max_size=2)
    )

    @for_all(st.dictionaries(names, values, min_size=1, max_size=2), count)
    def holds(options):
        try:
            source = read_csv(**{"paths": path, **options})
            if not source.follow:
                list(source.batches())
        except EvidentiaError:
            pass
