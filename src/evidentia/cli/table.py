"""The data of one model: a table in memory, or a source for large or many files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evidentia.cli.columns import arrays_of, features_of, listed, types_of
from evidentia.data.digits import check_digits
from evidentia.data.fingerprint import Fingerprinted, as_text, sum_of_hashes
from evidentia.data.form import PLAIN, Form
from evidentia.data.sources import CsvSource, Missing, ParquetSource, TableSource, open_source
from evidentia.data.sources.columns import gathered
from evidentia.data.tables import MOST_BYTES
from evidentia.errors import ConfigurationError, DataError
from evidentia.system.storage import place


@dataclass(frozen=True)
class Standardisation:
    """Standardisation of the features.

    Attributes:
        means: mean subtracted from each feature, by name.
        scales: divisor of each feature, by name; 1 for a constant feature.
        constant: names of the constant features, which become zeros.
    """

    means: dict[str, float]
    scales: dict[str, float]
    constant: list[str]

    def notes(self, is_target: bool) -> list[str]:
        """Describe it in sentences; `is_target` if the model describes the features themselves."""
        shown = [f"{name} ({mean:.6g}, {self.scales[name]:.6g})" for name, mean in self.means.items()]
        notes = [
            "Features were standardised: their mean was subtracted, and the difference divided by the standard "
            f"deviation. Means and standard deviations: {listed(shown)}."
        ]
        if is_target:
            log_scale = sum(np.log(scale) for scale in self.scales.values())
            notes.append(
                "The log evidence is that of the standardised values. For the original units, subtract "
                f"{log_scale:.6g} nats per row, the sum of the logarithms of the standard deviations."
            )
        if self.constant:
            notes.append(
                f"Constant features, zero once standardised, carry no information: {listed(self.constant)}."
            )
        return notes


@dataclass(frozen=True)
class Table:
    """The data of a model and their preparation.

    Attributes:
        name: name of the files.
        features: names of the feature columns, in the order of the columns of `x` (of `y` without
            a target).
        target: name of the target column, or None.
        data: `{"x": (rows, features), "y": (rows,)}` with a target, else `{"y": (rows,
            features)}`; or a source of these.
        standardisation: standardisation of the features, or None.
        shuffle_seed: seed of the random row order; None for file order.
    """

    name: str
    features: list[str]
    target: str | None
    data: dict[str, np.ndarray] | Fingerprinted
    standardisation: Standardisation | None = None
    shuffle_seed: int | None = None

    def notes(self) -> list[str]:
        """Describe the data and their preparation in sentences."""
        rows = f": {len(self.data['y']):,} rows" if isinstance(self.data, dict) else ""
        target = f", target {self.target}" if self.target is not None else ""
        notes = [f"{self.name}{rows}{target}, {len(self.features)} features: {listed(self.features)}."]
        if rows == "":
            notes.append("Rows were read once, in the order of the files.")
        elif self.shuffle_seed is not None:
            notes.append(f"Rows were used in random order (seed {self.shuffle_seed}).")
        if self.standardisation is not None:
            notes += self.standardisation.notes(is_target=self.target is None)
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return the description as a dictionary for JSON."""
        return {
            "file": self.name,
            "target": self.target,
            "features": self.features,
            "standardised": None if self.standardisation is None else vars(self.standardisation),
            "shuffle_seed": self.shuffle_seed,
            "observations": as_text(self._sum_of_hashes()),
        }

    def _sum_of_hashes(self) -> int:
        """Of the observations (of a source: those read); it identifies results of equal data."""
        return sum_of_hashes(self.data["y"]) if isinstance(self.data, dict) else self.data.total


def is_read_once(file: str) -> bool:
    """Whether a name means several files, a folder, or a file too large for memory."""
    path = place(file)
    if path.is_file():
        return path.stat().st_size > MOST_BYTES
    return path.is_dir() or any(mark in file for mark in "*?[")


def open_table(
    file: str,
    model: str,
    target: str | None,
    features: Sequence[str] | None,
    missing: Missing,
    form: Form = PLAIN,
) -> Table:
    """Open the data of a model as a source.

    Raises:
        DataError, ConfigurationError: invalid files or columns.
    """
    source = open_source(
        file,
        lambda names: arrays_of(file, names, target, features),
        missing=missing,
        form=form,
        types=lambda names: types_of(names, target, [model]),
    )
    return Table(file, features_of(source, target), target, Fingerprinted(source))


def read_table(
    file: str,
    target: str | None,
    features: Sequence[str] | None,
    missing: Missing,
    *,
    standardise: bool = False,
    form: Form = PLAIN,
) -> Table:
    """Read the data of a model into memory.

    Raises:
        DataError, ConfigurationError: an invalid file or columns.
    """
    if file == "-":
        raise ConfigurationError("estimate reads files; for rows on standard input use evidentia stream -.")
    source = open_source(
        file,
        lambda names: arrays_of(file, names, target, features),
        missing=missing,
        form=form,
        types=lambda names: dict.fromkeys(names, float),
    )
    assert isinstance(source, CsvSource | ParquetSource | TableSource)  # not standard input
    columns = gathered(source.pieces(), source.selection, missing)
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"{file} has columns but no rows; at least one observation is needed.")
    chosen = features_of(source, target)
    matrix, standardisation = _matrix({name: columns[name] for name in chosen}, standardise)
    data = {"y": matrix} if target is None else {"x": matrix, "y": _with_integers(columns[target], source)}
    return Table(Path(file).name, chosen, target, data, standardisation)


def check_streamable(standardise: bool, models: Sequence[str], num_classes: int | None) -> None:
    """Raise ConfigurationError for options that need all rows in advance."""
    if standardise:
        raise ConfigurationError("--standardise needs all rows in memory; standardise the files beforehand.")
    if "softmax" in models and num_classes is None:
        raise ConfigurationError(
            "--model softmax needs --num-classes when rows are read in sequence: the classes of later rows are unknown."
        )


def _with_integers(values: np.ndarray, source: CsvSource | ParquetSource | TableSource) -> np.ndarray:
    """Convert a CSV column without fractions to integers: text does not distinguish 1 from 1.0."""
    is_whole = values.dtype.kind == "f" and np.all((np.abs(values) < 2**53) & (values == np.floor(values)))
    return values.astype(np.int64) if isinstance(source, CsvSource) and is_whole else values


def _matrix(columns: dict[str, np.ndarray], standardise: bool) -> tuple[np.ndarray, Standardisation | None]:
    """Stack columns in float32, after standardising in float64 to keep precision."""
    matrix = np.empty((len(next(iter(columns.values()))), len(columns)), np.float32)
    found = Standardisation({}, {}, [])
    for index, (name, values) in enumerate(columns.items()):
        values = values.astype(np.float64)
        if not standardise:
            check_digits(columns[name], f"column {name!r}")
        else:
            is_constant = bool(values.min() == values.max())
            found.constant.extend([name] if is_constant else [])
            found.means[name] = float(values[0] if is_constant else values.mean())
            found.scales[name] = 1.0 if is_constant else float(values.std())
            values = (values - found.means[name]) / found.scales[name]
        if np.abs(values).max() > np.finfo(np.float32).max:
            raise DataError(f"column {name!r} has values beyond 3e38, the range of float32. Rescale it.")
        matrix[:, index] = values
    return matrix, found if standardise else None
