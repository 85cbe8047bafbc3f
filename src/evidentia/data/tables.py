"""Whole columns of files, of text as well as of numbers."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from evidentia.data.files import check_content, check_names, reading
from evidentia.data.sources.columns import NOT_UTF_8, check_unique
from evidentia.data.sources.csv import UTF_8, checked_encoding
from evidentia.data.sources.paths import Paths, expanded
from evidentia.errors import ConfigurationError, DataError
from evidentia.storage import for_arrow


def read_columns(paths: Paths, names: Sequence[str], encoding: str = UTF_8) -> pa.Table:
    """Read columns of CSV or Parquet files into memory, with the types that the files suggest.

    Args:
        paths: a file, a pattern, a folder, or a list of these.
        names: the columns.
        encoding: of CSV files.

    Raises:
        DataError, ConfigurationError: files that cannot be read, or lack a column.

    Example:
        >>> read_columns("diamonds.parquet", ["price", "cut"]).num_rows  # doctest: +SKIP
        53940
    """
    if paths == "-":
        raise ConfigurationError(
            "a table is read as a whole; for rows on standard input use evidentia stream -."
        )
    read = [
        _parquet(path, names) if _is_parquet(path) else _csv(path, names, encoding)
        for path in expanded(paths)
    ]
    try:
        return pa.concat_tables(read, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"the files have columns of different types: {error}") from error


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _parquet(path: Path, names: Sequence[str]) -> pa.Table:
    check_content(path, ".parquet")
    with reading(path, ".parquet"):
        known = pq.read_schema(for_arrow(path)).names
        check_unique(path, names, known)
        check_names(path, names, known)
        return pq.read_table(for_arrow(path), columns=list(names))


def _csv(path: Path, names: Sequence[str], encoding: str) -> pa.Table:
    check_content(path, ".csv")
    options = arrow_csv.ReadOptions(encoding=checked_encoding(encoding))
    convert = arrow_csv.ConvertOptions(strings_can_be_null=True, timestamp_parsers=[])
    with reading(path, ".csv"):
        try:
            table = arrow_csv.read_csv(for_arrow(path), read_options=options, convert_options=convert)
            known = table.column_names
        except (UnicodeDecodeError, pa.ArrowInvalid) as error:
            if "UTF8" not in str(error).upper().replace("-", ""):
                raise
            raise DataError(f"{path} is not UTF-8 text. {NOT_UTF_8}.") from error
        check_unique(path, names, known)
        check_names(path, names, known)
        chosen = table.select(list(names))
        if binary := [field.name for field in chosen.schema if pa.types.is_binary(field.type)]:
            raise DataError(f"{path} is not UTF-8 text in column {binary[0]!r}. {NOT_UTF_8}.")
        return chosen
