"""Files that are read as a source, row after row, and not as a table in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidentia.cli.table import chosen_features
from evidentia.errors import ConfigurationError
from evidentia.stream.sources import CsvSource, IpcSource, ParquetSource, open_source

MOST_BYTES = 2**30  # of one file that is read as a table


@dataclass(frozen=True)
class StreamedTable:
    """A source as the data of one model, with the face of `Table`."""

    name: str
    features: list[str]
    target: str | None
    data: CsvSource | IpcSource | ParquetSource

    def notes(self) -> list[str]:
        """What a reader of the result has to know about the data, in sentences."""
        target = f", target {self.target}" if self.target is not None else ""
        return [
            f"{self.name}{target}, {len(self.features)} features: {', '.join(self.features[:50])}.",
            "Rows were taken once, in their order.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"file": self.name, "target": self.target, "features": self.features}


def is_source(file: str) -> bool:
    """Whether a file's name means several, a folder, or a file too large for a table."""
    path = Path(file).expanduser()
    if path.is_file():
        return path.stat().st_size > MOST_BYTES
    return path.is_dir() or any(mark in file for mark in "*?[")


def open_table(file: str, model: str, target: str | None, features: Sequence[str] | None) -> StreamedTable:
    """The data of a model from files; see `is_source`.

    Raises:
        DataError, ConfigurationError: what is wrong with the files or their columns.
    """
    source = open_source(
        file,
        lambda names: columns_of(file, names, target, features),
        types=lambda names: types_of(names, target, [model]),
    )
    found = source.selection.arrays["y" if target is None else "x"]
    return StreamedTable(file, list(found), target, source)


def check_streamable(standardise: bool, model: str, num_classes: int | None) -> None:
    """Raise ConfigurationError for options that need all rows before the first is taken in."""
    if standardise:
        raise ConfigurationError("--standardise needs all rows in memory; standardise the files beforehand.")
    if model == "softmax" and num_classes is None:
        raise ConfigurationError(
            "--model softmax needs --num-classes where rows are read one after the other: classes that have not come yet "
            "cannot be counted."
        )


def columns_of(
    file: str, names: list[str], target: str | None, features: Sequence[str] | None
) -> dict[str, str | list[str]]:
    """The arrays of a model from the columns of a source."""
    chosen = chosen_features(file, names, target, features)
    return {"y": chosen} if target is None else {"x": chosen, "y": target}


def types_of(
    names: list[str], target: str | None, models: Sequence[str]
) -> dict[str, type[int] | type[float]]:
    """Features are real numbers whatever the first rows look like; the target as the built-in models need it."""
    types: dict[str, type[int] | type[float]] = {name: float for name in names if name != target}
    if target is not None and "softmax" in models:
        types[target] = int
    elif target is not None and all(name == "linear" for name in models):
        types[target] = float
    return types
