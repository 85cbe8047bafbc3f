"""The source that a user means by the names of files."""

import sys
from collections.abc import Callable, Sequence
from typing import IO

from evidentia.data.source import Missing
from evidentia.data.sources.columns import Columns, Types
from evidentia.data.sources.csv import CsvSource, read_csv
from evidentia.data.sources.ipc import IpcSource, read_ipc
from evidentia.data.sources.parquet import ParquetSource, read_parquet
from evidentia.data.sources.paths import Paths, expanded
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
) -> ParquetSource | CsvSource | IpcSource:
    """The source that paths name: `.parquet` files and folders of them, `.csv` files, or `-` for
    standard input.

    Args:
        paths: a file, a pattern, a folder, or a list of these, all Parquet or all CSV; or `-`, for
            an Arrow IPC stream on standard input.
        columns: as for `read_parquet`; a function of the list of all names can choose all but
            some.
        missing: as for `read_parquet`.
        types: as for `read_parquet`.
        follow: as for `read_csv`, of one CSV file.
        stop: as for `read_csv`.
        stdin: what `-` means; standard input if not given.

    Raises:
        DataError, ConfigurationError: as the readers do; files of several kinds, `-` beside
            others, to follow what cannot grow.

    Example:
        >>> open_source("parts/*.parquet", lambda names: {"y": names}).num_rows  # doctest: +SKIP
        100000000
    """
    given = [paths] if not isinstance(paths, Sequence) or isinstance(paths, str) else list(paths)
    if "-" in map(str, given):
        if len(given) > 1:
            raise ConfigurationError("- (standard input) must be the only file.")
        if follow:
            raise ConfigurationError(
                "standard input cannot be followed, and need not: it is read as it comes."
            )
        stream = sys.stdin.buffer if stdin is None else stdin
        if stream.isatty():
            raise DataError("standard input is a terminal; pipe an Arrow IPC stream into it.")
        return read_ipc(stream, columns, missing=missing, types=types, name="standard input")
    found = expanded(given)
    kinds = {".parquet" if path.is_dir() else path.suffix for path in found}
    if not kinds <= {".csv", ".parquet"} or len(kinds) > 1:
        names = ", ".join(map(str, found[:5]))
        raise DataError(f"the names of data files must all end in .csv, or all in .parquet; got {names}.")
    if kinds == {".csv"}:
        return read_csv(found, columns, missing=missing, types=types, follow=follow, stop=stop)
    if follow:
        raise ConfigurationError("only a CSV file can be followed; Parquet files do not grow.")
    return read_parquet(found, columns, missing=missing, types=types)
