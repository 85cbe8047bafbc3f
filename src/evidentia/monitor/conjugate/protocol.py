"""The protocol of a conjugate model, and the checks of rows and fields that models share.

The posterior of a conjugate model after any rows is the prior's family with other parameters. All
methods are vectorised over runs: rows of a matrix of parameters.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, DataError, as_number

ROUNDING = 1e-12  # relative error allowed for a sum of squares, as a difference of sums over a run


@runtime_checkable
class Conjugate(Protocol):
    """A conjugate model of the rows of one segment; any object with these methods is one.

    `evidentia.monitor.NormalInverseGamma` is an example in thirty lines.
    """

    @property
    def prior(self) -> Float[ndarray, " parameters"]:
        """float64, the parameters before any row."""
        ...

    def rows(self, batch: Any) -> ndarray:
        """The rows of a batch as an array with rows on its first axis.

        Raises DataError if the batch has other rows than the model's, or none.
        """
        ...

    def log_predictive(
        self, parameters: Float[ndarray, "runs parameters"], row: Any
    ) -> Float[ndarray, " runs"]:
        """Log density of a row given the rows of each run, in nats."""
        ...

    def updated(
        self, parameters: Float[ndarray, "runs parameters"], row: Any
    ) -> Float[ndarray, "runs parameters"]:
        """The parameters of each run after a row more."""
        ...

    def log_ratio_bound(
        self, parameters: Float[ndarray, "runs parameters"], fewer: Float[ndarray, "runs parameters"]
    ) -> Float[ndarray, " runs"]:
        """An upper bound of log π(θ) / π_fewer(θ) over all θ, in nats; infinite if there is none.

        The rows of `fewer` are the last rows of the run, or none, so the ratio is the likelihood
        of the other rows over their predictive density. It bounds the error of leaving a run out;
        a model that returns infinity leaves that error unbounded.
        """
        ...


@runtime_checkable
class WithMoments(Protocol):
    """A conjugate model of numbers that can tell mean and variance of the next one."""

    def moments(
        self, parameters: Float[ndarray, "runs parameters"]
    ) -> tuple[Float[ndarray, " runs"], Float[ndarray, " runs"]]:
        """Mean and variance of a row given the rows of each run; the variance may be infinite."""
        ...


def check_real(field: str, value: Any) -> None:
    """Raise ConfigurationError unless `value` is a finite number."""
    if not np.isfinite(as_number(value)):
        raise ConfigurationError(f"{field} must be a finite number; got {value!r}.")


def numbers(batch: Any, num_axes: int, what: str) -> ndarray:
    """A batch as a float64 array of one (numbers) or two axes (vectors), all finite.

    Raises DataError that names the first row that is not finite.
    """
    try:
        rows = np.asarray(batch)
    except ValueError as error:
        raise DataError(f"batch must be {what}; got a {type(batch).__name__}: {error}.") from error
    if rows.dtype.kind not in "biuf" or rows.ndim != num_axes:
        raise DataError(f"batch must be {what}; got {rows.dtype} of shape {rows.shape}.")
    if not len(rows):
        raise DataError("batch must have at least one row; got none.")
    rows = rows.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(rows.reshape(len(rows), -1)).all(1))
    if len(bad):
        raise DataError(f"batch must be finite; row {bad[0]:,} of the batch is {rows[bad[0]]}.")
    return rows


def vectors(batch: Any, size: int, what: str) -> ndarray:
    """As `numbers`, of vectors of the given size."""
    rows = numbers(batch, 2, what)
    if rows.shape[1] != size:
        raise DataError(f"batch must be {what}; got shape {rows.shape}.")
    return rows
