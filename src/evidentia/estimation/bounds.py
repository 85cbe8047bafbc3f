"""`sandwich`: lower and upper bounds on the log evidence of simulated data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.data.arrays import as_arrays, num_rows, on_device
from evidentia.display import text
from evidentia.display.progress import Update, reporter
from evidentia.errors import ConfigurationError, ModelError, check_seed, kind_of
from evidentia.evidence import reverse
from evidentia.evidence.ais import AIS
from evidentia.evidence.method import Estimate
from evidentia.evidence.sgais import SGAIS
from evidentia.evidence.smc import SMC
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.posterior.rows import Window
from evidentia.results.configurations import configuration
from evidentia.system.sharing import check_not_forked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Simulator = Callable[[int], tuple[Any, dict[str, Any]]]


class Side(NamedTuple):
    """An estimate from one side: log evidence and its standard error, in nats."""

    log_evidence: float
    standard_error: float


@dataclass(frozen=True, repr=False)
class Sandwich:
    """Lower and upper bounds on the log evidence of simulated data, in nats.

    Attributes:
        lower: lower bound: the forward estimate minus a quantile of its error.
        upper: upper bound: the reverse estimate plus the same quantile of its error.
        forward: from the prior to the posterior, by an unbiased estimate of Z; too low on average.
        reverse: from the posterior to the prior, by an unbiased estimate of 1/Z; too high on
            average.
        confidence: requested confidence of the bounds.
        exact: exact log evidence, if the model provides it.
        params: parameters from which the data were simulated.
        num_observations: rows of the data.
        method: the estimator's configuration.
        model_name: name of the model.
        seed: seed of the data and of both runs.
        seconds: duration of both runs, including compilation.

    Example:
        >>> Sandwich(
        ...     -10.2, -9.9, Side(-10.1, 0.05), Side(-10.0, 0.05),
        ...     0.99, None, {}, 50, None, "m", 0, 1.0,
        ... ).gap
        0.3
    """

    lower: float
    upper: float
    forward: Side
    reverse: Side
    confidence: float
    exact: float | None
    params: dict[str, np.ndarray]
    num_observations: int
    method: Any
    model_name: str
    seed: int
    seconds: float

    @property
    def gap(self) -> float:
        """Distance between the bounds in nats: the largest error of the method on such data."""
        return round(self.upper - self.lower, 12)

    def __repr__(self) -> str:
        return (
            f"Sandwich({self.model_name}: {self.lower:,.2f} to {self.upper:,.2f} nats, gap {self.gap:.2g}, "
            f"{self.num_observations:,} observations, {text.duration(self.seconds)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary."""
        found = {name: value for name, value in vars(self).items() if name != "params"}
        sides = {"forward": self.forward._asdict(), "reverse": self.reverse._asdict()}
        return {**found, **sides, "gap": self.gap, "method": configuration(self.method)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot both estimates, the bounds and, if known, the exact value.

        `ax` are axes to draw into; a new pyplot figure if not given. Returns the axes.
        """
        from evidentia.display.plots import draw_bounds

        rows = f"{self.num_observations:,} simulated observations"
        return draw_bounds(self, f"{self.model_name}, {rows}: gap {self.gap:.2g} nats", ax)


def sandwich(
    model: Model,
    data: int | Simulator,
    *,
    method: AIS | SMC | SGAIS | None = None,
    seed: int = 0,
    confidence: float = 0.99,
    progress: bool | Callable[[Update], None] = False,
) -> Sandwich:
    """Bound the log evidence of simulated data from both sides, to check a method.

    Parameters are drawn from the prior, and data given the parameters, which are then an exact
    draw from the posterior. A forward run of the method gives an unbiased estimate of the
    evidence, whose logarithm is too low on average; a reverse run from the exact draw gives one
    that is too high on average. If the particles mix badly, the two differ: the gap reveals an
    error that no single run can. A result for simulated data need not hold for real data, whose
    posterior may have a different shape.

    `lower` and `upper` extend the two estimates by the Gaussian quantile of `confidence`, in units
    of their standard errors. Otherwise, an estimate that is accurate to 0.01 nats would lie on the
    wrong side half of the time. All particles of the reverse run start from one exact draw. If
    modes are separate they see only one of them, and the standard error is too small; the estimate
    is still too high on average.

    Args:
        model: a prior and a pointwise log-likelihood.
        data: the number of observations, for a model that can simulate (the built-in ones can); or
            a function of a seed that returns data and the parameters, drawn from the prior, from
            which they were simulated.
        method: `AIS()` if not given, `SMC` or `SGAIS`. Of `SGAIS` only the annealed path is used,
            without redrawing; its stochastic gradients add the bias of the moves to the bounds.
        seed: seed of the data and of both runs.
        confidence: between 0 and 1.
        progress: True for a bar on standard error, or a function that is called with an `Update`
            after each step.

    Returns:
        Both estimates, the bounds and the gap.

    Raises:
        ModelError: the model cannot simulate, or the parameters belong to another model.
        ConfigurationError: another argument is out of range.
        EstimationError: as raised by `estimate`.

    Example:
        >>> ev.sandwich(ev.models.linear_regression(2), 100)  # doctest: +SKIP
        Sandwich(linear regression: -152.61 to -152.28 nats, gap 0.33, 100 observations, 0.8 s)

    Source: Grosse, Ghahramani, Adams (2015), arXiv:1511.02543 (bidirectional Monte Carlo).
    """
    chosen = AIS() if method is None else method
    _check(model, chosen, seed, confidence)
    started = time.perf_counter()
    drawn, params = _simulate(model, data, seed)
    arrays = as_arrays(drawn)
    if model.check_data is not None:
        model.check_data(arrays)
    bound = model.bind(arrays)
    rows = Window(on_device(arrays), 0, num_rows(arrays))
    position = _unconstrained(bound, params)
    path = replace(chosen, refresh=False) if isinstance(chosen, SGAIS) else chosen
    sides: dict[str, Side] = {}
    steps = enumerate(_both_ways(path, bound, rows, position, jax.random.key(seed)), 1)
    with reporter(progress, f"{bound.name}: bounds") as report:
        for num_steps, (name, share, estimate) in steps:
            assert estimate is not None  # a path has an estimate after each step
            # Without its bias correction: the bounds need the logarithm of an unbiased estimate.
            sides[name] = side = Side(estimate.raw, estimate.standard_error)
            known = rows.size if share == 1.0 else 0  # no value counts as an estimate before the end
            seconds = time.perf_counter() - started
            report(Update(known, rows.size, *side, num_steps, seconds, share))
    forward, backward = sides["forward"], sides["reverse"]
    quantile = NormalDist().inv_cdf(0.5 + 0.5 * confidence)
    return Sandwich(
        lower=forward.log_evidence - quantile * forward.standard_error,
        upper=backward.log_evidence + quantile * backward.standard_error,
        forward=forward,
        reverse=backward,
        confidence=confidence,
        exact=None if model.exact_log_evidence is None else model.exact_log_evidence(arrays),
        params={name: np.asarray(value) for name, value in params.items()},
        num_observations=rows.size,
        method=path,
        model_name=bound.name,
        seed=int(seed),
        seconds=time.perf_counter() - started,
    )


def _both_ways(
    method: AIS | SMC | SGAIS, bound: BoundModel, rows: Window, position: jax.Array, key: jax.Array
) -> Iterator[tuple[str, float, Estimate | None]]:
    """Yield the side, the share of both runs done and the estimate of the side at each step."""
    key_forward, key_start = jax.random.split(key)
    last, marks = None, list[int]()
    for last in method.run(bound, rows, key_forward):
        if last.num_observations:  # zero along temperatures
            marks.append(last.num_observations)
        share = last.num_observations / rows.size if last.share_done is None else last.share_done
        yield "forward", 0.5 * share, last.estimate
    assert last is not None  # a path has at least one step
    population = reverse.start(bound, rows, position, last.positions, last.log_weights, key_start)
    path = method if isinstance(method, AIS) else method.path
    for share, estimate in reverse.remove_rows(path, bound, rows, population, marks):
        yield "reverse", 0.5 + 0.5 * share, estimate


def _check(model: Any, method: Any, seed: Any, confidence: float) -> None:
    if not isinstance(model, Model):
        raise ModelError(f"model must be an evidentia.Model; got {kind_of(model)}.")
    if not isinstance(method, AIS | SMC | SGAIS):
        raise ConfigurationError(
            f"method must be AIS(), SMC() or SGAIS(), whose path can be reversed; got {method!r}."
        )
    check_not_forked()
    check_seed(seed)
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence must lie between 0 and 1; got {confidence}.")


def _simulate(model: Model, data: int | Simulator, seed: int) -> tuple[Any, dict[str, Any]]:
    if callable(data):
        found = data(seed)
        if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], dict):
            raise ConfigurationError(
                "data must be a function of a seed that returns a tuple of data and a dict of the parameters from which "
                f"they were simulated; it returned {type(found).__name__}."
            )
        return found
    if isinstance(data, bool) or not isinstance(data, int | np.integer) or data < 2:
        raise ConfigurationError(
            f"data must be a number of observations, at least 2, or a function of a seed that simulates; got {data!r}."
        )
    if model.simulate is None:
        raise ModelError(
            f"{model!r} cannot simulate: instead of the number of observations, give a function of a seed that "
            "returns data and the parameters, drawn from the prior, from which they were simulated."
        )
    return model.simulate(int(data), seed)


def _unconstrained(bound: BoundModel, params: dict[str, Any]) -> jax.Array:
    shapes = {name: np.shape(value) for name, value in params.items()}
    if shapes != dict(bound.parameter_shapes):
        raise ModelError(
            f"the simulated parameters must be those of {bound.name}, {dict(bound.parameter_shapes)} (name: shape); got "
            f"{shapes}."
        )
    return bound.unconstrain({name: jnp.asarray(value, jnp.float32) for name, value in params.items()})
