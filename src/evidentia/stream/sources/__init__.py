"""Sources of observations: in memory, in files, from another program."""

from evidentia.stream.sources.csv import CsvSource, read_csv
from evidentia.stream.sources.ipc import IpcSource, read_ipc
from evidentia.stream.sources.memory import ArraySource, IterableSource
from evidentia.stream.sources.opening import open_source
from evidentia.stream.sources.parquet import ParquetSource, read_parquet
from evidentia.stream.sources.source import Missing, Source

__all__ = [
    "ArraySource",
    "CsvSource",
    "IpcSource",
    "IterableSource",
    "Missing",
    "ParquetSource",
    "Source",
    "open_source",
    "read_csv",
    "read_ipc",
    "read_parquet",
]
