"""The estimate after each update, as columns."""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import ConfigurationError, as_number, is_one_of

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """The estimate after each update: columns of equal length, as arrays.

    Attributes:
        num_observations: rows so far.
        log_evidence: estimate for those rows, in nats.
        standard_error: of `log_evidence`, in nats.
        num_annealing_steps: annealing steps of the update.
        seconds: time since the start.

    Raises:
        ConfigurationError: columns that are not lists of numbers, or of different lengths.

    Example:
        >>> trajectory = Trajectory([500, 1000], [-70.0, -140.0], [0.1, 0.2], [9, 1], [0.5, 0.6])
        >>> trajectory.at(700)["log_evidence"]
        -70.0
    """

    num_observations: Int[ndarray, " updates"]
    log_evidence: Float[ndarray, " updates"]
    standard_error: Float[ndarray, " updates"]
    num_annealing_steps: Int[ndarray, " updates"]
    seconds: Float[ndarray, " updates"]

    def __post_init__(self) -> None:
        for name in self.columns:
            dtype = np.int64 if name.startswith("num_") else np.float64
            object.__setattr__(self, name, _numbers(name, getattr(self, name), dtype))
        lengths = {name: len(self[name]) for name in self.columns}
        if len(set(lengths.values())) > 1:
            raise ConfigurationError(f"the columns of a Trajectory must have the same length; got {lengths}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in dataclasses.fields(self))

    def __len__(self) -> int:
        return len(self.num_observations)

    def __getitem__(self, column: str) -> ndarray:
        if not is_one_of(column, self.columns):
            raise ConfigurationError(
                f"a trajectory has no column {column!r}; it has {', '.join(self.columns)}."
            )
        return getattr(self, column)

    def __repr__(self) -> str:
        if not len(self):
            return "Trajectory(no updates)"
        first, last = self.num_observations[[0, -1]]
        return f"Trajectory({len(self)} updates, from {first:,} to {last:,} observations)"

    def at(self, num_observations: int) -> dict[str, float | int]:
        """The last entry with at most that many observations.

        Raises:
            ConfigurationError: there is no such entry, or `num_observations` is not a number.
        """
        if math.isnan(as_number(num_observations)):
            raise ConfigurationError(f"num_observations must be a number of rows; got {num_observations!r}.")
        index = int(np.searchsorted(self.num_observations, num_observations, side="right")) - 1
        if index < 0:
            starts = f"it starts at {self.num_observations[0]:,}" if len(self) else "it is empty"
            raise ConfigurationError(
                f"the trajectory has no entry for num_observations={num_observations}: {starts}."
            )
        return {name: self[name][index].item() for name in self.columns}

    def to_arrow(self) -> pyarrow.Table:  # pyright: ignore[reportUnknownParameterType] PyArrow has no types
        """The trajectory as an Arrow table."""
        import pyarrow

        return cast(Any, pyarrow.table({name: self[name] for name in self.columns}))

    def to_pandas(self) -> pandas.DataFrame:
        """The trajectory as a pandas data frame."""
        return cast("pandas.DataFrame", self.to_arrow().to_pandas())


def trajectory_of(entries: Sequence[Any]) -> Trajectory:
    """The trajectory of entries with its columns as attributes.

    Their annealing steps are counted from the start.
    """
    names = [column.name for column in dataclasses.fields(Trajectory)]
    columns = {name: np.array([getattr(entry, name) for entry in entries]) for name in names}
    columns["num_annealing_steps"] = np.diff(columns["num_annealing_steps"], prepend=0)
    return Trajectory(**columns)


def _numbers(name: str, values: Any, dtype: type[np.int64 | np.float64]) -> ndarray:
    try:
        column = np.asarray(values, dtype)
    except (TypeError, ValueError, OverflowError):
        column = np.empty(())
    if column.ndim != 1:
        raise ConfigurationError(
            f"{name} of a Trajectory must be a list of numbers; got {reprlib.repr(values)}."
        )
    return column
