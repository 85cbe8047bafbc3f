"""From a file and the names of its columns to the data of a model."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evidentia.errors import ConfigurationError, DataError
from evidentia.stream.files import column_names, near_columns, read_columns


@dataclass(frozen=True)
class Table:
    """The data that a model is given, and what was done to them.

    Attributes:
        path: the file.
        features: names of the feature columns, in the order of the columns of `x` (of `y` without a target).
        target: name of the target column, or None.
        data: `{"x": (rows, features), "y": (rows,)}` with a target, else `{"y": (rows, features)}`.
        means: what was subtracted from each feature, by name; empty if they were left as they are.
        scales: what each feature was divided by after that; 1 for a constant feature.
        constant: names of the constant features, of which standardising leaves only zeros.
        shuffle_seed: seed of the random order of the rows, or None for that of the file.
        fingerprint: of the observations in the file's order; models can be compared where it agrees.
    """

    path: Path
    features: list[str]
    target: str | None
    data: dict[str, np.ndarray]
    means: dict[str, float] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    constant: list[str] = field(default_factory=list)
    shuffle_seed: int | None = None
    fingerprint: str = ""

    def notes(self) -> list[str]:
        """What a reader of the result has to know about the data, in sentences."""
        what = f"{self.path.name}: {len(self.data['y']):,} rows"
        target = f", target {self.target}" if self.target is not None else ""
        notes = [f"{what}{target}, {len(self.features)} features: {_listed(self.features)}."]
        if self.shuffle_seed is not None:
            notes.append(f"Rows were taken in random order (seed {self.shuffle_seed}).")
        if self.means:
            notes.append(
                "Features were standardised: from each its mean was subtracted, and the rest divided by its standard "
                f"deviation. Means and scales: {_listed(self._standardisation())}."
            )
            if self.target is None:
                log_scale = sum(np.log(scale) for scale in self.scales.values())
                notes.append(
                    "The log evidence is that of the standardised values; for values in their own units subtract "
                    f"{log_scale:.6g} nats per row, the sum of the logarithms of the scales."
                )
        if self.constant:
            notes.append(
                f"Constant, so nothing but zeros once standardised: {_listed(self.constant)}. They tell the model nothing."
            )
        return notes

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        standardised = {"means": self.means, "scales": self.scales, "constant": self.constant}
        return {
            "file": self.path.name,
            "target": self.target,
            "features": self.features,
            "standardised": standardised if self.means else None,
            "shuffle_seed": self.shuffle_seed,
            "observations_sha256": self.fingerprint,
        }

    def _standardisation(self) -> list[str]:
        return [f"{name} ({self.means[name]:.6g}, {self.scales[name]:.6g})" for name in self.features]


def read_table(
    path: Path,
    target: str | None,
    features: Sequence[str] | None = None,
    *,
    standardise: bool = False,
    shuffle_seed: int | None = None,
) -> Table:
    """Read a file into the data of a model; all columns but the target are features if none are named.

    The evidence does not depend on the order of the rows, but the work does: in a file that is sorted by class the
    posterior moves far whenever a new class begins. So rows can be shuffled.

    Raises:
        DataError: for what is wrong with the file or its columns.
        ConfigurationError: for features that are no list of columns: none, the target, one twice.
    """
    chosen = chosen_features(path, column_names(path), target, features)
    columns = read_columns(path, chosen if target is None else [*chosen, target])
    matrix, means, scales, constant = _matrix({name: columns[name] for name in chosen}, standardise)
    data = {"y": matrix} if target is None else {"x": matrix, "y": columns[target]}
    fingerprint = hashlib.sha256(np.asarray(data["y"], np.float32).tobytes()).hexdigest()
    if shuffle_seed is not None:
        order = np.random.default_rng(shuffle_seed).permutation(len(matrix))
        data = {name: array[order] for name, array in data.items()}
    return Table(Path(path), chosen, target, data, means, scales, constant, shuffle_seed, fingerprint)


def chosen_features(
    where: Any, names: Sequence[str], target: str | None, features: Sequence[str] | None
) -> list[str]:
    """The columns that are features, of all the names of a table; errors call it `where`."""
    if target is not None and target not in names:
        raise DataError(f"{where} has no column {target!r} for --target. {near_columns(target, names)}")
    chosen = [name for name in names if name != target] if features is None else list(features)
    _check_features(chosen, target, where)
    return chosen


def split_features(given: str | None) -> list[str] | None:
    """The names that `--features` was given with commas between. Raises ConfigurationError for an empty one."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if not all(names):
        raise ConfigurationError(f"--features must be names of columns with commas between; got {given!r}.")
    return names


def _check_features(features: Sequence[str], target: str | None, where: Any) -> None:
    if not features:
        raise ConfigurationError(
            f"{where} has no column left to be a feature; name some with --features a,b,c."
        )
    if twice := [name for name in dict.fromkeys(features) if features.count(name) > 1]:
        raise ConfigurationError(f"--features names {', '.join(twice)} more than once.")
    if target in features:
        raise ConfigurationError(f"--features must not name the target, {target!r}.")


def _matrix(
    columns: dict[str, np.ndarray], standardise: bool
) -> tuple[np.ndarray, dict[str, float], dict[str, float], list[str]]:
    """Columns side by side in float32; means and deviations are taken in float64 before digits are lost."""
    matrix = np.empty((len(next(iter(columns.values()))), len(columns)), np.float32)
    means, scales, constant = {}, {}, []
    for index, (name, values) in enumerate(columns.items()):
        values = values.astype(np.float64)
        if standardise:
            if values.min() == values.max():
                constant.append(name)
                means[name], scales[name] = float(values[0]), 1.0
            else:
                means[name], scales[name] = float(values.mean()), float(values.std())
            values = (values - means[name]) / scales[name]
        if np.abs(values).max() > np.finfo(np.float32).max:
            raise DataError(f"column {name!r} has values beyond 3e38, the range of float32. Rescale it.")
        matrix[:, index] = values
    return matrix, means, scales, constant


def _listed(names: Sequence[str], most: int = 50) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
