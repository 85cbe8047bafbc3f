"""Sources of observations: arrays, iterables, files and streams."""

from evidentia.data.source import Missing, Source
from evidentia.data.sources.csv import CsvSource, read_csv
from evidentia.data.sources.ipc import IpcSource, read_ipc
from evidentia.data.sources.memory import ArraySource, IterableSource
from evidentia.data.sources.opening import open_source
from evidentia.data.sources.parquet import ParquetSource, read_parquet
from evidentia.data.sources.table import TableSource

__all__ = [
    "ArraySource",
    "CsvSource",
    "IpcSource",
    "IterableSource",
    "Missing",
    "ParquetSource",
    "Source",
    "TableSource",
    "open_source",
    "read_csv",
    "read_ipc",
    "read_parquet",
]
