"""Whole columns of files, of text as well as of numbers."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from evidentia.data.files import check_content, check_names, is_folder, reading
from evidentia.data.form import PLAIN, Form
from evidentia.data.formats import is_whole, whole_table
from evidentia.data.records import BLOCK_SIZE, Records, checked_text
from evidentia.data.sources.columns import NOT_UTF_8, check_unique
from evidentia.data.sources.csv import CsvSource, read_csv
from evidentia.data.sources.parquet import ParquetSource, read_parquet
from evidentia.data.sources.paths import Paths, expanded
from evidentia.errors import DataError
from evidentia.system.storage import for_arrow, opened

MOST_BYTES = 2**30  # of a file that is read as a whole


def read_columns(paths: Paths, names: Sequence[str], form: Form = PLAIN) -> pa.Table:
    """Read columns of files into memory, with the types that the files suggest.

    Args:
        paths: a file, a pattern, a folder, or a list of these; "-" is CSV on standard input.
        names: the columns.
        form: of text, and the table that is meant.

    Raises:
        DataError, ConfigurationError: files that cannot be read, or lack a column.

    Example:
        >>> read_columns("diamonds.parquet", ["price", "cut"]).num_rows  # doctest: +SKIP
        53940
    """
    if isinstance(paths, str) and paths == "-":
        return _standard_input(names, form)
    read = [_read(path, names, form) for path in expanded(paths)]
    try:
        return pa.concat_tables(read, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"the files have columns of different types: {error}") from error


def in_pieces(paths: Paths, form: Form = PLAIN) -> ParquetSource | CsvSource | None:
    """Several files, a folder or a large file as a source; None for what is read as a whole.

    Raises:
        DataError, ConfigurationError: as the readers do.
    """
    if isinstance(paths, str) and paths == "-":
        return None
    found = expanded(paths)
    kinds = {is_folder(path) or _is_parquet(path) for path in found}
    if len(kinds) > 1 or any(is_whole(path, form) for path in found):
        return None
    if len(found) == 1 and found[0].is_file() and found[0].stat().st_size <= MOST_BYTES:
        return None
    if kinds == {True}:
        return read_parquet(found)
    source = read_csv(found, encoding=form.encoding)
    return source if isinstance(source, CsvSource) else None


def _standard_input(names: Sequence[str], form: Form) -> pa.Table:
    """The columns of CSV on standard input, by a copy in a file that is gone afterwards."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "input.csv"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            return _read(path, names, form)
        except DataError as error:
            raise DataError(str(error).replace(str(path), "standard input")) from None


def _read(path: Path, names: Sequence[str], form: Form) -> pa.Table:
    if is_whole(path, form):
        table = whole_table(path, form)
        check_unique(path, names, table.column_names)
        check_names(path, names, table.column_names)
        return table.select(list(names))
    if is_folder(path):
        return pa.Table.from_batches([piece.table for piece in read_parquet(path).pieces_of(names)])
    return _parquet(path, names) if _is_parquet(path) else _csv(path, names, form)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _parquet(path: Path, names: Sequence[str]) -> pa.Table:
    check_content(path, ".parquet")
    with reading(path, ".parquet"):
        known = pq.read_schema(for_arrow(path)).names
        check_unique(path, names, known)
        check_names(path, names, known)
        return pq.read_table(for_arrow(path), columns=list(names))


def _csv(path: Path, names: Sequence[str], form: Form) -> pa.Table:
    check_content(path, ".csv")
    # In blocks that hold the longest record, which may have line ends inside quotes.
    options = arrow_csv.ReadOptions(encoding=form.codec, block_size=2 * BLOCK_SIZE)
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(strings_can_be_null=True, timestamp_parsers=[])
    with reading(path, ".csv"), opened(path) as file:
        try:
            text = pa.BufferReader(checked_text(file, Records(path)))
            table = arrow_csv.read_csv(
                text, read_options=options, parse_options=parse, convert_options=convert
            )
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
