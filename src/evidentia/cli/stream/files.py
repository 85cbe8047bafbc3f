"""Records of a source's files for checkpoints, because a resumed run must find the same rows."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as arrow_parquet

from evidentia.brokers.place import Place
from evidentia.brokers.source import BrokerSource
from evidentia.cli.columns import listed
from evidentia.data.files import reading
from evidentia.data.sources import CsvSource, IpcSource, ParquetSource, TableSource
from evidentia.data.sources.parquet import BUFFER_SIZE
from evidentia.errors import CheckpointError, DataError
from evidentia.system.storage import for_arrow, opened

FileSource = CsvSource | IpcSource | ParquetSource | TableSource
AnySource = FileSource | BrokerSource
BYTES, ROWS, COLUMNS = 65_536, 16, 8  # upper limits of the content that identifies a file


class KnownFile(NamedTuple):
    """The state of a file at a checkpoint.

    Attributes:
        name: its name (see `file_names`), independent of where its folder is.
        size: rows of a Parquet file; bytes of a CSV file, whose rows are unknown until read; rows
            counted of a broker's stream.
        content: SHA-256 of its first rows; of the first and the last bytes of a CSV file; the
            `Place` in a broker's stream after the rows counted.
    """

    name: str
    size: int
    content: str


def file_names(source: AnySource) -> list[str]:
    """Names that identify the files of a resumed run, even if their folder has moved."""
    if isinstance(source, IpcSource | BrokerSource):
        return [source.name]
    return [
        "/".join([*(folder for folder in path.parts[:-1] if "=" in folder), path.name])
        for path in _paths(source)
    ]


def known_files(source: AnySource) -> list[KnownFile]:
    """Record the files, or the name of standard input; DataError if a file is unreadable."""
    if isinstance(source, BrokerSource):
        return []  # `with_place` records it
    if isinstance(source, IpcSource):
        return [KnownFile(source.name, 0, "")]
    return [
        KnownFile(name, size := _size(source, index), _content(source, index, size))
        for index, name in enumerate(file_names(source))
    ]


def with_additions(files: list[KnownFile], source: AnySource) -> list[KnownFile]:
    """Update the record of a followed file, which may have had no rows when it was opened."""
    if isinstance(source, CsvSource) and source.follow:
        (file,) = files
        with suppress(DataError):  # the reader reports a removed file
            size = _size(source, 0)
            if size > file.size and _content(source, 0, file.size) == file.content:
                return [KnownFile(file.name, size, _content(source, 0, size))]
    return files


def with_place(files: list[KnownFile], source: AnySource, rows: int) -> list[KnownFile]:
    """Update the record of a broker's stream, of which `rows` are counted."""
    if not isinstance(source, BrokerSource):
        return files
    return [KnownFile(source.name, rows, source.place_at(rows).to_text())]


def acknowledge(files: Sequence[KnownFile], source: AnySource) -> None:
    """Tell a broker that the messages before its recorded place will not be needed again."""
    if isinstance(source, BrokerSource) and files:
        source.acknowledge(place_in(files))


def place_in(files: Sequence[KnownFile]) -> Place:
    """The place in a broker's stream that was recorded."""
    (stream,) = files
    return Place.from_text(stream.size, stream.content)


def check_files(before: Sequence[KnownFile], source: AnySource, folder: Path) -> None:
    """Raise CheckpointError unless a source has a checkpoint's files, with rows only appended."""
    names, had = file_names(source), [file.name for file in before]
    if isinstance(source, BrokerSource) and names != had:
        raise CheckpointError(
            f"the checkpoint in {folder} is of a run on {listed(had, 5)}; got {names[0]}. Give the same URL (credentials "
            "may differ), or another folder for --checkpoint."
        )
    if names[: len(had)] != had:
        raise CheckpointError(
            f"the checkpoint in {folder} is of a run on {listed(had, 5)}; got {listed(names, 5)}. New files must come after those, or "
            "rows would be counted twice. Give the same files, or another folder for --checkpoint."
        )
    if isinstance(source, IpcSource | BrokerSource):
        return
    unit = "rows" if isinstance(source, ParquetSource) else "bytes"
    for index, (file, path) in enumerate(zip(before, _paths(source), strict=False)):
        size = _size(source, index)
        if size < file.size or (size > file.size and index < len(before) - 1):
            raise CheckpointError(
                f"{path} has {size:,} {unit} but had {file.size:,} when the checkpoint in {folder} was written. Rows may only "
                f"be added to the last file, {had[-1]}, or in new files after it; elsewhere, rows would be lost or counted "
                "twice. Restore the files, or give another folder for --checkpoint."
            )
        if _content(source, index, file.size) != file.content:
            raise CheckpointError(
                f"{path} has changed since the checkpoint in {folder} was written: its first {file.size:,} {unit} differ. Was it "
                "replaced? Restore the files, or give another folder for --checkpoint."
            )


def _paths(source: CsvSource | ParquetSource | TableSource) -> list[Path]:
    return [part.path for part in source.parts] if isinstance(source, ParquetSource) else list(source.paths)


def _size(source: CsvSource | ParquetSource | TableSource, index: int) -> int:
    if isinstance(source, ParquetSource):
        return source.parts[index].num_rows
    with reading(source.paths[index], ".csv"):
        return source.paths[index].stat().st_size


def _content(source: CsvSource | ParquetSource | TableSource, index: int, size: int) -> str:
    """SHA-256 of rows or bytes that identify the first `size` of a file."""
    if not isinstance(source, ParquetSource):
        with reading(source.paths[index], ".csv"), opened(source.paths[index]) as file:
            content = file.read(min(size, BYTES))
            file.seek(max(len(content), size - BYTES))
            content += file.read(size - file.tell())
    else:
        content = _first_rows(source, index, min(size, ROWS))
    return hashlib.sha256(content).hexdigest()


def _first_rows(source: ParquetSource, index: int, count: int) -> bytes:
    """First rows by value, since a Parquet file is rewritten when rows are added."""
    part = source.parts[index]
    in_folders = [name for name, _ in part.folders]
    columns = [name for name in source.selection.names if name not in in_folders][-COLUMNS:]
    with (
        reading(part.path, ".parquet"),
        arrow_parquet.ParquetFile(for_arrow(part.path), buffer_size=BUFFER_SIZE) as file,
    ):
        batches = file.iter_batches(ROWS, columns=columns, use_threads=False)
        rows = islice((row for batch in batches for row in batch.to_pylist()), count)
        values = [[row[name] for name in columns] for row in rows]
    return repr(values).encode()
