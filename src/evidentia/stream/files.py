"""Columns of numbers from a CSV or Parquet file, checked, with errors that name the file and the column."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet

from evidentia.errors import DataError

_PARQUET_MAGIC = b"PAR1"


def column_names(path: str | Path) -> list[str]:
    """The names of the columns of a CSV file (its first line) or a Parquet file.

    Raises:
        DataError: no such file, or it is not what its name says.

    Example:
        >>> column_names("measurements.parquet")  # doctest: +SKIP
        ['f1', 'f2', 'label']
    """
    return _schema(checked(path)).names


def read_columns(path: str | Path, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read columns of numbers from a CSV file (with a header line) or a Parquet file.

    Args:
        path: the file; its suffix, .csv or .parquet, says what it is.
        columns: the names of the columns to read, in this order; all columns if not given.

    Returns:
        For each name an array (rows,) of finite numbers: integers, booleans, or real numbers. A column of a CSV file
        is integer if all its values are; blank lines of a CSV file are skipped.

    Raises:
        DataError: no such file, not what its name says, a column that does not exist, columns that hold text or
            missing or infinite values, no rows. The message names all the columns that cannot be used.

    Example:
        >>> read_columns("measurements.csv", ["f1", "label"])  # doctest: +SKIP
        {'f1': array([0.5, 1.5]), 'label': array([0, 1])}
    """
    path = checked(path)
    schema = _schema(path)
    names = schema.names if columns is None else list(columns)
    check_names(path, names, schema.names)
    table = _read(path, schema, names)
    if table.num_rows == 0:
        raise DataError(f"{path} has columns but no rows; at least two observations are needed.")
    if problems := [problem for name in names if (problem := _problem(name, table[name]))]:
        raise DataError(
            f"{path} has columns that cannot be used: {'; '.join(problems)}. Encode text as numbers, drop the rows "
            "with missing or infinite values or fill them in, or leave these columns out."
        )
    return {name: _to_numpy(table[name], whole=path.suffix == ".csv") for name in names}


def near(name: str, known: Sequence[str]) -> str:
    """What to say of a name that is not known: the nearest ones, or all if they are few."""
    if close := difflib.get_close_matches(name, known, n=3):
        return "Did you mean " + " or ".join(repr(each) for each in close) + "?"
    shown = ", ".join(known[:12])
    return f"There are: {shown}{', ...' if len(known) > 12 else ''}."


def near_columns(name: str, known: Sequence[str]) -> str:
    """The same for a column, with a guess of what is wrong with the whole header."""
    return near(name, known) + _header_hint(known)


def checked(path: str | Path) -> Path:
    """The path of a file whose first bytes agree with its suffix."""
    path = Path(path).expanduser()
    if path.suffix not in (".csv", ".parquet"):
        raise DataError(f"{path}: the name of a data file must end in .csv or .parquet, to say what it is.")
    check_content(path, path.suffix)
    return path


def check_content(path: Path, kind: str) -> None:
    """Raise DataError unless the first bytes of a file are those of its kind, ".csv" or ".parquet"."""
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; one CSV or Parquet file is needed.")
        with path.open("rb") as file:
            start = file.read(4096)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path.") from None
    except OSError as error:
        raise unreadable(path, kind, error) from error
    if not start.strip():
        raise DataError(f"{path} is empty; a table with a header line and rows is needed.")
    if kind == ".parquet" and not start.startswith(_PARQUET_MAGIC):
        raise DataError(f"{path} is not a Parquet file, whatever its name says. If it is text, name it .csv.")
    if kind == ".csv" and start.startswith(_PARQUET_MAGIC):
        raise DataError(f"{path} is a Parquet file, not CSV text. Name it .parquet.")
    if kind == ".csv" and b"\0" in start:
        raise DataError(f"{path} is not CSV text: it holds binary data (or UTF-16). Save it as UTF-8 CSV.")


def _schema(path: Path) -> pa.Schema:
    """Names and types; the types of a CSV file are those of its first rows."""
    try:
        if path.suffix == ".parquet":
            return arrow_parquet.read_schema(path)
        with arrow_csv.open_csv(path) as reader:
            return reader.schema
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise unreadable(path, path.suffix, error) from error


def _read(path: Path, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    names = list(dict.fromkeys(names))
    try:
        if path.suffix == ".parquet":
            with arrow_parquet.ParquetFile(path) as file:
                return file.read(columns=names)
        # Arrow decides from the first megabyte, where a real column can look like integers or be empty so far.
        types = {name: pa.float64() for name in names if is_number(schema.field(name).type)}
        options = arrow_csv.ConvertOptions(include_columns=names, column_types=types)
        return arrow_csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        if match := re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", str(error)):
            problem = f"column {schema.names[int(match[1])]!r} holds text, for example {match[2]!r}"
            raise DataError(
                f"{path}: {problem}. Encode text as numbers, or leave this column out."
            ) from error
        raise unreadable(path, path.suffix, error) from error


def unreadable(path: Path, kind: str, error: Exception) -> DataError:
    """The error of a file that cannot be read, or not as its kind, ".csv" or ".parquet"."""
    if (
        isinstance(error, OSError) and error.errno
    ):  # of the system, not of Arrow, which has more to say around it
        return DataError(f"{path} cannot be read: {os.strerror(error.errno)}.")
    called = "a Parquet file (it may be damaged or cut short)" if kind == ".parquet" else "CSV text"
    return DataError(f"{path} cannot be read as {called}: {str(error).splitlines()[0].rstrip('.')}.")


def check_names(path: Path | str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise DataError unless each name is that of one column."""
    for name in names:
        if name not in known:
            raise DataError(f"{path} has no column {name!r}. {near_columns(name, known)}")
        if known.count(name) > 1:
            raise DataError(f"{path} has {known.count(name)} columns named {name!r}; give each its own name.")


def _header_hint(known: Sequence[str]) -> str:
    if all(re.fullmatch(r"[-+.\deE?]*", name) for name in known):
        return " The first line looks like data: add a header line with the names of the columns."
    for separator, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(known) == 1 and separator in known[0]:
            return f" The file is separated by {called}: write it with commas."
    return ""


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers, or nothing yet."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


def _problem(name: str, column: pa.ChunkedArray) -> str:
    """What is wrong with a column, or an empty string."""
    if problem := type_problem(name, column.type, {name: column}):
        return problem
    missing = column.is_null(nan_is_null=True).to_numpy()
    if missing.any():
        return f"{name!r} has missing values in {_rows(missing)}"
    if pa.types.is_floating(_value_type(column.type)) and (infinite := np.isinf(column.to_numpy())).any():
        return f"{name!r} has infinite values in {_rows(infinite)}"
    return ""


def type_problem(
    name: str, kind: pa.DataType, values: pa.Table | Mapping[str, pa.ChunkedArray] | None = None
) -> str:
    """What is wrong with a column of this type, with examples from `values` if it is text, or an empty string."""
    kind = _value_type(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return f"{name!r} holds text{'' if values is None else _examples(values[name])}"
    if not (is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)):
        return f"{name!r} holds values of type {kind}, not numbers"
    return ""


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _rows(mask: np.ndarray) -> str:
    """How many rows, and the first of them counted from 1 without the header."""
    return f"{mask.sum():,} of {len(mask):,} rows (the first is data row {mask.argmax() + 1:,})"


def _examples(column: pa.ChunkedArray) -> str:
    """Up to three values that are no numbers."""
    shown = []
    for value in column.unique().to_pylist():
        try:
            float(value or 0)
        except ValueError:
            shown.append(repr(value))
        if len(shown) == 3:
            break
    return f", for example {', '.join(shown)}" if shown else ""


def _to_numpy(column: pa.ChunkedArray, whole: bool) -> np.ndarray:
    """Numbers; with `whole`, real numbers without a fraction become integers."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values = column.to_numpy()
    if (
        whole
        and values.dtype.kind == "f"
        and np.all(np.abs(values) < 2**53)
        and np.all(values == np.floor(values))
    ):
        return values.astype(np.int64)
    return values
