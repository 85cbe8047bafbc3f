"""Priors of another width: the same distribution, half or twice as wide."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy import ndarray
from numpyro import handlers
from numpyro.primitives import Messenger

from evidentia.model.model import Model
from evidentia.model.program import Densities, Program, run_traced, trace_of

# The parameter of a distribution that its width is proportional to, or inversely proportional to.
SCALES = {
    **dict.fromkeys(
        (dist.Normal, dist.StudentT, dist.Cauchy, dist.Laplace, dist.Logistic, dist.Gumbel), "scale"
    ),
    **dict.fromkeys(
        (dist.HalfNormal, dist.HalfCauchy, dist.LogNormal, dist.Weibull, dist.SoftLaplace), "scale"
    ),
    **dict.fromkeys((dist.MultivariateNormal, dist.MultivariateStudentT), "scale_tril"),
    dist.InverseGamma: "rate",
}
RATES = {dist.Exponential: "rate", dist.Gamma: "rate"}
SAME_AS_SCALE_TRIL = {"covariance_matrix", "precision_matrix"}


class Change(NamedTuple):
    """What another prior does to a log evidence, in nats.

    Attributes:
        difference: log evidence under the other prior less that under the model's own.
        standard_error: of the difference.
        pareto_shape: of the weights that gave it; NaN if it is exact or from a new run.
        is_new_run: whether it is from a new run.
    """

    difference: float
    standard_error: float
    pareto_shape: float = float("nan")
    is_new_run: bool = False


@runtime_checkable
class Widths(Protocol):
    """The widths of an evidence's priors, and how it changes with them."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of those that are changed if no others are named."""
        ...

    def change(self, factor: float, parameters: tuple[str, ...]) -> Change:
        """The change of the log evidence with priors that are wider by a factor."""
        ...


def widened(distribution: dist.Distribution, factor: float) -> dist.Distribution | None:
    """The same distribution wider by a factor, about the same place; None if it has no width.

    The scale of a normal, Student-t, Cauchy, Laplace, logistic, Gumbel, half-normal, half-Cauchy,
    log-normal, Weibull or multivariate normal distribution is multiplied by the factor, the rate
    of an exponential or gamma divided by it. A uniform, beta or Dirichlet distribution has none.

    Example:
        >>> float(widened(dist.Normal(1.0, 2.0), 0.5).scale)
        1.0
    """
    if isinstance(distribution, dist.ExpandedDistribution):
        base = widened(distribution.base_dist, factor)
        return None if base is None else base.expand(distribution.batch_shape)
    if isinstance(distribution, dist.Independent):
        base = widened(distribution.base_dist, factor)
        return None if base is None else base.to_event(distribution.reinterpreted_batch_ndims)
    kind = type(distribution)
    # Subclasses, such as the log-normal distribution, have parameters of their own.
    if isinstance(distribution, dist.TransformedDistribution) and kind is dist.TransformedDistribution:
        base = widened(distribution.base_dist, factor)
        return None if base is None else dist.TransformedDistribution(base, distribution.transforms)
    if kind not in SCALES and kind not in RATES:
        return None
    name = SCALES.get(kind) or RATES[kind]
    names = [one for one in distribution.arg_constraints if one not in SAME_AS_SCALE_TRIL]
    arguments = {one: getattr(distribution, one) for one in names}
    arguments[name] = arguments[name] * (factor if kind in SCALES else 1 / factor)
    return kind(**arguments)


def with_width(model: Model, factor: float, parameters: tuple[str, ...]) -> Model:
    """A model with wider priors of some parameters."""
    prior: Any = model.prior
    if isinstance(prior, Mapping):
        prior = {
            name: widened(value, factor)
            if name in parameters and isinstance(value, dist.Distribution)
            else value
            for name, value in prior.items()
        }
    else:
        prior = _wider_program(prior, factor, parameters)
    return replace(model, prior=prior, simulate=None, exact_log_evidence=None, sample_posterior=None)


def parameters_with_width(densities: Densities) -> tuple[str, ...]:
    """The parameters whose priors have a width and depend on no other parameter."""

    def prior_at(seed: int) -> Mapping[str, Any]:
        return run_traced(handlers.seed(densities.prior, seed), densities.rows)

    first, second = prior_at(0), prior_at(1)

    def is_constant(name: str) -> bool:
        pairs = zip(jax.tree.leaves(first[name]["fn"]), jax.tree.leaves(second[name]["fn"]), strict=True)
        return all(np.array_equal(one, other) for one, other in pairs)

    names = [name for name in densities.sites if widened(first[name]["fn"], 2.0) is not None]
    return tuple(name for name in names if is_constant(name))


def log_prior_ratios(
    densities: Densities, draws: Mapping[str, ndarray], factor: float, parameters: tuple[str, ...]
) -> Float[ndarray, " draws"]:
    """Log density of each draw under wider priors less that under the model's own, in nats."""

    def ratio(params):
        trace = trace_of(densities.prior, densities.rows, params)
        total = jnp.zeros(())
        for name in parameters:
            message = trace[name]
            wider = widened(message["fn"], factor)
            assert wider is not None  # parameters have a width
            difference = wider.log_prob(message["value"]) - message["fn"].log_prob(message["value"])
            total += jnp.sum(difference if message["scale"] is None else message["scale"] * difference)
        return total

    known = {name: jnp.asarray(draws[name]) for name in densities.sites}
    return np.asarray(jax.vmap(ratio)(known), np.float64)


def _wider_program(program: Program, factor: float, parameters: tuple[str, ...]) -> Program:
    @functools.wraps(program)  # keeps the names of the arguments
    def wider(**rows):
        with _Wider(factor=factor, parameters=parameters):
            return program(**rows)

    return wider


class _Wider(Messenger):
    """Replaces the priors of some sample statements by wider ones."""

    def __init__(self, *, factor: float, parameters: tuple[str, ...]):
        super().__init__()
        self._factor, self._parameters = factor, parameters

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "sample" and msg["name"] in self._parameters:
            msg["fn"] = widened(msg["fn"], self._factor)
