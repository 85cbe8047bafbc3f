"""Checks of CSV and Parquet files and their columns, with errors that name both."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from evidentia.data.numbers_as_text import comma_advice, is_a_number
from evidentia.errors import DataError, near
from evidentia.system import storage

_PARQUET_MAGIC = b"PAR1"
_COMPRESSED = {  # by the first bytes
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"BZh91AY&SY": "bzip2",
    b"PK\x03\x04": "zip, as spreadsheets are",
}


def near_columns(name: str, known: Sequence[str]) -> str:
    """Suggest the closest column names, with a guess at what is wrong with the header."""
    return near(name, known) + _header_hint(known)


def check_content(path: Path, kind: str) -> None:
    """Raise DataError unless a file starts like its kind, ".csv" or ".parquet"."""
    try:
        if storage.is_folder(path):
            raise DataError(f"{path} is a folder; one CSV or Parquet file is needed.")
        with storage.opened(path) as file:
            start = file.read(4096)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path.") from None
    except OSError as error:
        raise unreadable(path, kind, error) from error
    if not start.strip():
        raise DataError(f"{path} is empty; a table with a header line and rows is needed.")
    if found := next((name for magic, name in _COMPRESSED.items() if start.startswith(magic)), None):
        raise DataError(
            f"{path} is compressed ({found}). Let its name say so, as .csv.gz, .csv.bz2, .csv.zst, .csv.xz or .xlsx; or "
            "decompress it."
        )
    if kind == ".parquet" and not start.startswith(_PARQUET_MAGIC):
        raise DataError(f"{path} is not a Parquet file, despite its name. If it is text, name it .csv.")
    if kind == ".csv" and start.startswith(_PARQUET_MAGIC):
        raise DataError(f"{path} is a Parquet file, not CSV text. Name it .parquet.")
    if kind == ".csv" and b"\0" in start:
        raise DataError(f"{path} is not CSV text: it holds binary data (or UTF-16). Save it as UTF-8 CSV.")
    if kind == ".csv":
        _check_separator(path, [line for line in start.splitlines() if line.strip()][:2])


def _check_separator(path: Path, lines: list[bytes]) -> None:
    """Raise DataError if the header has another separator, as has the first row, and no comma."""
    for separator, called in ((b";", "semicolons"), (b"\t", "tabs"), (b"|", "vertical bars")):
        if len(lines) == 2 and all(separator in line for line in lines) and b"," not in lines[0]:
            option = "tab" if separator == b"\t" else separator.decode()
            raise DataError(
                f"{path} is separated by {called}: pass sep={option!r} (--sep {option!r}), and decimal=',' "
                "(--decimal ,) if its numbers have decimal commas."
            )


def unreadable(path: Path, kind: str, error: Exception) -> DataError:
    """Return the error for a file that cannot be read as its kind, ".csv" or ".parquet"."""
    if isinstance(error, storage.StoreError):
        return DataError(f"{path} cannot be read: {error}.")
    if isinstance(error, OSError) and error.errno:  # a system error; Arrow's have no errno
        return DataError(f"{path} cannot be read: {os.strerror(error.errno)}.")
    called = "a Parquet file (it may be damaged or cut short)" if kind == ".parquet" else "CSV text"
    said = str(error).splitlines()[0].removeprefix("CSV parse error: ").rstrip(".")
    return DataError(f"{path} cannot be read as {called}: {said}.")


def is_folder(path: Path) -> bool:
    """Whether it is a folder; raises DataError if its store cannot be reached."""
    with reading(path, ".parquet"):
        return storage.is_folder(path)


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn the system's and Arrow's errors of reading a file into DataError."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, kind, error) from error


def check_names(path: Path | str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise DataError unless each name belongs to exactly one column."""
    for name in names:
        if name not in known:
            raise DataError(f"{path} has no column {name!r}. {near_columns(name, known)}")
        if known.count(name) > 1:
            raise DataError(f"{path} has {known.count(name)} columns named {name!r}; give each its own name.")


def _header_hint(known: Sequence[str]) -> str:
    if all(re.fullmatch(r"[-+.\deE?]*", name) for name in known):
        return " The first line looks like data: add a header line with the column names."
    return ""


def is_number(kind: pa.DataType) -> bool:
    """Whether it is a type of numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def type_problem(name: str, kind: pa.DataType, values: pa.Table | None) -> str:
    """Describe why a column is not numeric, with examples from `values` for text; else ""."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        given = (
            [] if values is None else [one for one in values[name].unique().to_pylist() if one is not None]
        )
        if advice := comma_advice(given):
            return f"{name!r} holds {advice.rstrip('.')}"
        return f"{name!r} holds text{'' if values is None else _examples(values[name])}"
    if not (is_number(kind) or types.is_boolean(kind) or types.is_null(kind)):
        return f"{name!r} holds values of type {kind}, not numbers"
    return ""


def _examples(column: pa.ChunkedArray) -> str:
    """Up to three values that are not numbers, with the row of the first."""
    shown = [value for value in column.unique().to_pylist() if value is not None and not is_a_number(value)][
        :3
    ]
    if not shown:
        return ""
    row = column.to_pylist().index(shown[0]) + 1
    return f", for example {', '.join(map(repr, shown))} (the first in data row {row:,})"
