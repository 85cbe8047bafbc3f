"""Choice of a source by file names."""

import sys
from collections.abc import Callable, Sequence
from typing import IO

from evidentia.data.files import is_folder
from evidentia.data.form import PLAIN, UTF_8, Form
from evidentia.data.formats import is_whole
from evidentia.data.source import Missing
from evidentia.data.sources.csv import CsvSource, read_csv
from evidentia.data.sources.ipc import IpcSource, read_ipc
from evidentia.data.sources.named import Columns, Types
from evidentia.data.sources.parquet import ParquetSource, read_parquet
from evidentia.data.sources.paths import Paths, expanded
from evidentia.data.sources.table import TableSource, read_tables
from evidentia.errors import ConfigurationError, DataError


def open_source(
    paths: Paths,
    columns: Columns = None,
    *,
    missing: Missing = "error",
    types: Types = None,
    follow: bool = False,
    stop: Callable[[], bool] | None = None,
    stdin: IO[bytes] | None = None,
    form: Form = PLAIN,
) -> ParquetSource | CsvSource | IpcSource | TableSource:
    """Open files of tables, Parquet folders, or standard input (`-`) as a source.

    Args:
        paths: a file, a pattern, a folder, their URLs, or a list of these, all Parquet, all CSV,
            or all of forms that are read into memory (`data.formats`); or `-`, for an Arrow IPC
            stream on standard input.
        columns: as for `read_parquet`; a function of the list of all names can exclude some.
        missing: as for `read_parquet`.
        types: as for `read_parquet`.
        follow: as for `read_csv`, for one CSV file.
        stop: as for `read_csv`.
        stdin: the stream that `-` reads; standard input if not given.
        form: of text, and the table that is meant.

    Raises:
        DataError, ConfigurationError: as the readers do; also for mixed kinds of files, `-` with
            other paths, or `follow` or another encoding for anything but a CSV file.

    Example:
        >>> open_source("parts/*.parquet", lambda names: {"y": names}).num_rows  # doctest: +SKIP
        100000000
    """
    given = [paths] if not isinstance(paths, Sequence) or isinstance(paths, str) else list(paths)
    recodes = form.codec != UTF_8
    if "-" in map(str, given):
        if len(given) > 1:
            raise ConfigurationError("- (standard input) must be the only file.")
        if follow:
            raise ConfigurationError("standard input cannot be followed: it is always read as it arrives.")
        if recodes:
            raise ConfigurationError(
                f"encoding={form.encoding!r} (--encoding) is for CSV files; standard input is an Arrow IPC stream, whose text is UTF-8."
            )
        stream = sys.stdin.buffer if stdin is None else stdin
        if stream.isatty():
            raise DataError("standard input is a terminal; pipe an Arrow IPC stream into it.")
        return read_ipc(stream, columns, missing=missing, types=types, name="standard input")
    found = expanded(given)
    if any(is_whole(path, form) for path in found):
        if follow:
            raise ConfigurationError("only a CSV file with commas can be followed.")
        whole = read_tables(found, columns, form=form, missing=missing, types=types)
        whole.selection.check()
        return whole
    kinds = {".parquet" if is_folder(path) else path.suffix for path in found}
    if not kinds <= {".csv", ".parquet"} or len(kinds) > 1:
        names = ", ".join(map(str, found[:5]))
        raise DataError(f"the names of data files must all end in .csv, or all in .parquet; got {names}.")
    if kinds == {".csv"}:
        source = read_csv(
            found, columns, missing=missing, types=types, follow=follow, stop=stop, encoding=form.encoding
        )
        source.selection.check()
        return source
    if follow:
        raise ConfigurationError("only a CSV file can be followed; Parquet files do not grow.")
    if recodes:
        raise ConfigurationError(
            f"encoding={form.encoding!r} (--encoding) is for CSV files; the text in Parquet files is UTF-8."
        )
    source = read_parquet(found, columns, missing=missing, types=types)
    source.selection.check()
    return source
