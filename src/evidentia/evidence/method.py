"""The protocol of all methods: an iterator over snapshots with raw estimates, and their errors.

A method is a frozen configuration with `num_particles` and

    run(model, rows, key) -> iterator of Snapshot.

It owns neither data nor a clock. `estimate` consumes the iterator, shows progress, keeps the last
snapshot if interrupted, and builds the result. Methods that process rows in chunks share one loop
(`chunks`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, EstimationError, kind_of
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Positions, Window


class Estimate(NamedTuple):
    """log Ẑ, the raw logarithm of an evidence estimate, and its variance.

    If Ẑ is unbiased, log Ẑ is too low by half its variance on average (Jensen's inequality, to
    second order). Estimates are summed and passed on raw; only `log_evidence` applies the
    correction.

    Attributes:
        raw: log Ẑ in nats.
        variance: variance of log Ẑ, in nats²; NaN if unknown.
        is_unbiased: whether Ẑ is unbiased, `variance` is reliable enough for the correction, and
            it is wanted.

    Example:
        >>> Estimate(-10.0, variance=0.04).log_evidence
        -9.98
    """

    raw: float
    variance: float = 0.0
    is_unbiased: bool = True

    @property
    def log_evidence(self) -> float:
        """The log evidence in nats, corrected for the bias of the logarithm."""
        return self.raw + 0.5 * self.variance if self.is_unbiased else self.raw

    @property
    def standard_error(self) -> float:
        """Standard error of the log evidence, in nats; NaN if unknown."""
        return math.sqrt(self.variance)


class Diagnosis(NamedTuple):
    """Diagnostics by name, and signs of trouble: sentences with advice, by short name."""

    measured: Mapping[str, float] = {}
    signs: Mapping[str, str] = {}

    def plus(self, other: "Diagnosis") -> "Diagnosis":
        """Those of both."""
        return Diagnosis({**self.measured, **other.measured}, {**self.signs, **other.signs})


class Snapshot(NamedTuple):
    """The estimate and particles after one step of a method.

    Attributes:
        estimate: the estimate for the first `num_observations` rows; while that is zero, the
            estimate of the path so far, or None.
        positions, log_weights: the particles, unconstrained, and their weights, not normalised.
        num_steps: annealing steps or iterations of this step alone.
        share_done: fraction of the run done, from 0 to 1; None if the number of rows determines
            it.
        diagnose: called for the last snapshot only.
    """

    estimate: Estimate | None
    num_observations: int
    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    num_steps: int = 1
    share_done: float | None = None
    diagnose: Callable[[], Diagnosis] = Diagnosis


@runtime_checkable
class Method(Protocol):
    """The interface of the `method` argument of `estimate`, a frozen data class."""

    @property
    def num_particles(self) -> int:
        """Number of particles, draws or live points M. The log evidence has variance ∝ 1/M."""
        ...

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield snapshots on the way to the log evidence of `rows`; the last one is final."""
        ...


@runtime_checkable
class GradientFree(Protocol):
    """A method that can do without gradients of the likelihood, as of a function outside JAX."""

    def without_gradients(self) -> Method:
        """The method as it is used then. Raises ConfigurationError if its kernel needs them."""
        ...


def with_kernel_instead(method: Any, kernel: Any) -> Any:
    """The method with `kernel` in place of its default one, if that takes derivatives.

    Raises:
        ConfigurationError: another kernel was chosen, and it takes derivatives.
    """
    if not getattr(method.kernel, "differentiates", False):
        return method
    name = type(method).__name__
    if method.kernel != type(method)().kernel:
        raise ConfigurationError(
            f"kernel of {name} must do without gradients for a log-likelihood that is not written in JAX, such as "
            f"kernels.{type(kernel).__name__}(); got {method.kernel!r}."
        )
    return replace(method, kernel=kernel)


def check_method(field: str, method: Any, example: str) -> None:
    """Raise ConfigurationError unless `method` is the configuration of one."""
    if isinstance(method, type) or not isinstance(method, Method) or not is_dataclass(method):
        given = kind_of(method) if isinstance(method, type) else repr(method)
        raise ConfigurationError(f"{field} must be a configuration such as {example}; got {given}.")


LogLikelihoods = Float[np.ndarray, " particles"]


def check_defined(log_likelihoods: LogLikelihoods, span: str, places: str = "particles") -> None:
    """Raise EstimationError if a log-likelihood of the rows is NaN, which also represents +inf."""
    if bad := int(np.sum(np.isnan(log_likelihoods))):
        raise EstimationError(
            f"the log-likelihood of {span} is NaN or +inf at {bad} of {len(log_likelihoods)} {places}; it must be finite, "
            "or -inf where the parameters rule the data out. Check the likelihood for overflow, log(0) - log(0), or "
            "parameters outside their support."
        )


def defined_log_likelihoods(
    model: BoundModel, positions: Positions, rows: Window, places: str
) -> LogLikelihoods:
    """Log-likelihoods of `rows` in nats, with the check of `check_defined`."""
    deviations, offset = rows.log_likelihoods(model, positions)
    check_defined(deviations, rows.span, places)
    return deviations + offset


def check_possible(log_likelihoods: LogLikelihoods, span: str, places: str = "particles") -> None:
    """Raise EstimationError if the log-likelihood of the rows is -inf at all `places`."""
    if np.all(log_likelihoods == -np.inf):
        raise EstimationError(
            f"the log-likelihood of {span} is -inf at all {len(log_likelihoods)} {places}: the data are impossible under "
            "every parameter value drawn. Widen the prior, use more particles, or check the data against the model."
        )
