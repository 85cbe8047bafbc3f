"""CSV: types from the first rows hold to the end; a growing file can be followed."""

import os
import threading
from functools import partial

import numpy as np
import pytest

from evidentia.data.batches import joined
from evidentia.data.sources import csv, read_csv
from evidentia.errors import ConfigurationError, DataError

read_in_blocks = partial(read_csv, block_size=64)  # which split a small file into many


def text(folder, content, name="table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(source, skip=0):
    return joined([*source.batches(skip)])


def test_blocks_and_files_are_one_stream(tmp_path):
    lines = [f"{i}.5,{i}" for i in range(100)]
    text(tmp_path, "a,b\n" + "\n".join(lines[:60]), "0.csv")
    text(tmp_path, "\n\nb,a\r\n\r\n" + "\r\n".join(f"{i},{i}.5" for i in range(60, 100)) + "\r\n", "1.csv")
    source = read_in_blocks(str(tmp_path / "*.csv"), ["a", "b"])
    arrays = read(source).arrays
    np.testing.assert_array_equal(arrays["a"], np.arange(100) + 0.5)
    np.testing.assert_array_equal(arrays["b"], np.arange(100))
    assert arrays["b"].dtype == np.int32 and len(list(source.batches())) > 10
    for skip in (0, 1, 59, 60, 61, 99):
        np.testing.assert_array_equal(read(source, skip).arrays["b"], np.arange(skip, 100))


def test_what_the_first_rows_say_holds_to_the_end(tmp_path):
    path = text(tmp_path, "a,b,c\n" + "1,2,true\n" * 50 + "1,2.5,false\n")
    assert read(read_in_blocks(path, ["a", "c"])).arrays["c"].tolist() == [1] * 50 + [0]
    batches = read_in_blocks(path, {"y": "b"}).batches()
    assert next(batches).arrays["y"].dtype == np.int32
    with pytest.raises(
        DataError, match=r"'b' holds integers.*; data row 51 has 2\.5\. .*types=\{'b': float\}"
    ):
        list(batches)
    assert read(read_in_blocks(path, {"y": "b"}, types={"b": float})).arrays["y"][-1] == 2.5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,oops", r"table\.csv: column 'b' holds 'oops' in data row 51, .* not a number\. Encode text"),
        ("1,2,3", r"cannot be read as CSV text: Expected 2 columns, got 3: 1,2,3 \(in data row 51\)"),
        ("1,", r"has missing values in 1 of the \d+ rows .*\(the first is data row 51\), in 'b'"),
        ("1," + "2" * 200, "has a line of more than 64 bytes; is it CSV text"),
    ],
)
def test_lines_that_cannot_be_used_are_named(tmp_path, line, message):
    source = read_in_blocks(text(tmp_path, "a,b\n" + "1,2\n" * 50 + line + "\n1,2\n"))
    with pytest.raises(DataError, match=message):
        list(source.batches())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; a table with a header line"),
        ("5,1.5\n1,2\n", "The first line looks like data: add a header line"),
        ("y;b\n1;2\n", r"separated by semicolons: pass sep=';' \(--sep ';'\)"),
        ("y,y\n1,2\n", "has 2 columns named 'y'"),
        ("y\n?\n", r"'y' holds text, for example '\?'"),
        ("y\n1,2\n", "Expected 1 columns, got 2"),
        (b"PAR1\x15\x04", "is a Parquet file, not CSV text"),
    ],
)
def test_files_that_are_none(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_csv(text(tmp_path, content), ["y"])


def test_a_later_file_without_the_column_is_named_at_once(tmp_path):
    text(tmp_path, "y\n1\n", "0.csv")
    text(tmp_path, "z\n1\n", "1.csv")
    with pytest.raises(DataError, match=r"1\.csv has no column 'y'"):
        read_csv(str(tmp_path / "*.csv"))
    with pytest.raises(ConfigurationError, match="only one file can be followed; got 2 paths"):
        read_csv(str(tmp_path / "*.csv"), follow=True)
    with pytest.raises(ConfigurationError, match="stop needs follow=True"):
        read_csv(tmp_path / "0.csv", stop=lambda: True)
    with pytest.raises(ConfigurationError, match="block_size must be an integer of at least 1; got 0"):
        read_csv(tmp_path / "0.csv", block_size=0)


@pytest.fixture
def grows(monkeypatch):
    """Replace each wait for a file to grow with the next step of the test."""
    steps = []
    monkeypatch.setattr(csv.time, "sleep", lambda seconds: steps.pop(0)())
    return steps


def test_lines_are_read_as_they_are_written(tmp_path, grows):
    path, stop = text(tmp_path, "y\n1\n2\n3"), threading.Event()

    def append(characters):
        with path.open("a") as file:
            file.write(characters)

    grows += [lambda: append("3"), lambda: append("3\n4\n"), lambda: append("5"), stop.set]
    source = read_csv(path, follow=True, stop=stop.is_set)
    assert [batch.arrays["y"].tolist() for batch in source.batches()] == [[1, 2], [333, 4]]
    # The next read continues after four rows, with the line that was incomplete.
    append("6\n")
    stop.clear()
    grows += [stop.set]
    assert read(source, skip=4).arrays["y"].tolist() == [56]


def test_a_reading_may_be_stopped_before_its_first_row_is_there(tmp_path, grows):
    stop = threading.Event()
    grows += [stop.set]
    assert list(read_csv(text(tmp_path, "y\n1\n"), follow=True, stop=stop.is_set).batches(skip=3)) == []


def test_a_followed_file_may_have_no_rows_yet(tmp_path, grows):
    path, stop = text(tmp_path, "y,label\n"), threading.Event()
    grows += [lambda: path.write_text("y,label\n1.5,1\n"), stop.set]
    source = read_csv(path, follow=True, stop=stop.is_set, types={"label": int})
    (batch,) = source.batches()
    assert (batch.arrays["y"].tolist(), batch.arrays["label"].tolist()) == ([1.5], [1])
    assert batch.arrays["label"].dtype == np.int32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("y\n"), "became shorter while it was followed"),
        (lambda path: path.unlink(), "was removed or replaced while it was followed"),
        (lambda path: text(path.parent, "y\n1\n2\n", "new").replace(path), "was removed or replaced"),
        (
            lambda path: path.write_text("y\n3\n2\n4\n"),
            "was rewritten while it was followed: lines that were",
        ),
        (lambda path: path.write_text("y\n1\n3\n"), "was rewritten while it was followed"),
        (lambda path: path.write_text("z\n1\n2\n4\n"), "was rewritten while it was followed"),
    ],
)
def test_a_followed_file_that_changes_behind_the_reader(tmp_path, grows, change, message):
    path = text(tmp_path, "y\n1\n2\n")
    grows.append(lambda: change(path))
    batches = read_csv(path, follow=True).batches()
    next(batches)
    with pytest.raises(DataError, match=message):
        next(batches)


def test_only_the_last_line_of_the_last_file_may_grow(tmp_path):
    text(tmp_path, "y\n" + "1\n" * 50 + "2", "0.csv")
    for content, may_grow in (("y\n3\n4\n5", True), ("y\n3\n4\n5\n", False), ("y\n3", True)):
        text(tmp_path, content, "1.csv")
        batches = list(read_in_blocks(str(tmp_path / "*.csv")).batches())
        assert [batch.may_grow for batch in batches] == [False] * (len(batches) - 1) + [may_grow]
        assert batches[-1].num_read == 1 or not may_grow


def test_a_followed_file_needs_its_whole_header(tmp_path):
    with pytest.raises(DataError, match=r"header line of .*table\.csv has no line end yet"):
        read_csv(text(tmp_path, "y,lab"), follow=True)


def test_a_line_of_spaces_is_a_header_and_empty_lines_are_none(tmp_path):
    columns = read(read_csv(text(tmp_path, "\r\n\n \n0\n\n1\n")))
    np.testing.assert_array_equal(columns.arrays[" "], [0, 1])


LATIN = "größe,y\n1,2\n3,4\n".encode("latin-1")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ISO8859-1"])
def test_text_in_another_encoding(tmp_path, encoding):
    lines = "".join(f"{i},{2 * i},é{i}\n" for i in range(100))
    source = read_in_blocks(
        text(tmp_path, f"größe,y,ähnlich\n{lines}".encode("latin-1")), ["größe", "y"], encoding=encoding
    )
    arrays = read(source).arrays
    assert arrays["größe"].tolist() == list(range(100)) and arrays["y"][-1] == 198


def test_a_followed_file_in_another_encoding(tmp_path, grows):
    path, stop = text(tmp_path, LATIN), threading.Event()
    grows += [lambda: path.write_bytes(LATIN + b"5,6\n"), stop.set]
    source = read_csv(path, follow=True, stop=stop.is_set, encoding="latin-1")
    assert read(source).arrays["größe"].tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (LATIN, None, r"header has the byte 0xf6.*pass encoding=\"latin-1\" \(--encoding latin-1\)"),
        (b"y,z\n1,caf\xe9\n", None, r"'z' holds text that is not UTF-8\. .*--encoding latin-1"),
        (b"y,z\n1\xa0000,1\n", None, r"'y' holds text that is not UTF-8\. .*--encoding latin-1"),
    ],
)
def test_text_that_is_not_utf_8(tmp_path, content, columns, message):
    with pytest.raises(DataError, match=message):
        read_csv(text(tmp_path, content), columns).batches()


def test_bytes_that_are_not_utf_8_after_the_first_rows(tmp_path):
    path = text(tmp_path, b"y,z\n" + b"1,2\n" * 50 + b"1\xa0000,2\n")
    with pytest.raises(DataError, match=r"'y' holds .* in data row 51, .*encoding 'utf-8'.*--encoding latin"):
        read(read_in_blocks(path))
    with pytest.raises(DataError, match=r"'y' holds .* in data row 51, which is not a number\. Encode text"):
        read(read_in_blocks(path, encoding="latin-1"))


def test_columns_that_are_not_used_may_hold_any_bytes(tmp_path):
    path = text(tmp_path, b"y,z\n1,caf\xe9\n2,\x81\n")
    assert read(read_csv(path, ["y"])).arrays["y"].tolist() == [1, 2]
    assert read(read_csv(path, ["y"], encoding="cp1252")).arrays["y"].tolist() == [1, 2]


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path):
    path = text(tmp_path, "\ufeffy,z\n1,2\n")
    for encoding in ("utf-8", "UTF8", "utf-8-sig"):
        assert read(read_csv(path, encoding=encoding)).arrays["y"].tolist() == [1]
    with pytest.raises(DataError, match=r"begins with the byte order mark of UTF-8, but encoding='cp1252'"):
        read_csv(path, encoding="cp1252")


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("latin-99", "encoding must be the name of a text encoding, such as utf-8.*; got 'latin-99'"),
        ("rot13", "encoding must be the name of a text encoding"),
        (None, "encoding must be the name of a text encoding, .*; got None"),
        ("utf-16", "encoding must be one in which ASCII characters are single bytes.*; got 'utf-16'"),
    ],
)
def test_encodings_that_cannot_be_read(tmp_path, encoding, message):
    with pytest.raises(ConfigurationError, match=message):
        read_csv(text(tmp_path, "y\n1\n"), encoding=encoding)


def test_a_header_that_is_not_in_the_given_encoding(tmp_path):
    with pytest.raises(
        DataError, match=r"header has the byte 0xf6, which is not text in the encoding 'ascii'"
    ):
        read_csv(text(tmp_path, LATIN), encoding="ascii")


def test_columns_with_the_same_name(tmp_path):
    path = text(tmp_path, "a,b,y,b,a,a\n1,2,3,4,5,6\n")
    with pytest.raises(DataError, match="has 3 columns named 'a', 2 columns named 'b'; give each its own"):
        read_csv(path)
    assert read(read_csv(path, ["y"])).arrays["y"].tolist() == [3]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for paths in (tmp_path / "pipe.csv", str(tmp_path / "*.csv")):
        with pytest.raises(DataError, match=r"pipe\.csv is a named pipe, .*evidentia stream -\)"):
            read_csv(paths)


@pytest.mark.parametrize("types", [float, "int", ["a"]])
def test_types_must_be_by_column(tmp_path, types):
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    with pytest.raises(ConfigurationError, match="types must map names of columns to int or float"):
        read_csv(path, types=types)
