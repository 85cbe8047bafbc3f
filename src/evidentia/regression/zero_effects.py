"""Bayes factors of a model against the same with one effect at 0, from its posterior draws.

With π the likelihood times the prior, θ = (β, ψ) and p(β = 0) the prior density of the effect, the
ratio of Savage and Dickey is p(β = 0) / p(β = 0 | D): the others have the same prior in both. The
posterior density comes from draws θ_i with weights W_i that are moved to β = 0,

    p(0 | D) = Σ_i W_i w(β_i) π(0, ψ_i - c β_i) / π(β_i, ψ_i),

for any density w and any c. With w the normal density of the draws' moments and c = cov(ψ, β) /
var(β), all terms are equal where the posterior is Gaussian, however far 0 is from it (Chen 1994,
here along the regression line). β may be several effects. The moments for one half of the draws
are those of the other half, as a density fitted to its own draws is biased. Where the terms are
uneven, as far out in other tails, the evidence at β = 0 is computed instead: draws of Student's t
about its mode are weighed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.stats import multivariate_normal

from evidentia import weights
from evidentia.cluster.engine import Engine
from evidentia.cluster.rows import gathered
from evidentia.data.arrays import on_device
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.posterior.gaussian import Expansion, LocalGaussian, draw_student_t, log_student_t
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window
from evidentia.posterior.target import expand_prior
from evidentia.posterior.units import bound_to
from evidentia.results.reweighting import reweighted

MOST_WORK, LEAST_WORK = 1e10, 20  # rows times draws times effects times these plus what a row costs
LEAST_DRAWS, MOST_DRAWS = 64, 2048
UNEVEN = 0.03  # nats: the error above which the evidence at zero is computed
NUM_PROPOSED = 1024  # draws about its mode
WORST = 1e10  # condition of correlations whose inverse is used
CLOSE = 1e-4  # squared distance to that mode, in posterior standard deviations
TINY = 1e-6  # a deviation of groups that is 0


Places = Int[ndarray, " places"]  # in the unconstrained vector


class Ratio(NamedTuple):
    """A log Bayes factor in nats and its standard error; both NaN if there is none."""

    log_bayes_factor: float
    error: float


UNKNOWN = Ratio(math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class ZeroEffects:
    """A model and its posterior, in its own units.

    Attributes:
        model: whose prior is a mapping.
        arrays: its data, by name; or an engine, where these stay.
        bound: the model as the estimate has bound it.
        draws: constrained parameters by name, with `log_weights`.
        log_evidence, standard_error: of the model.
        seed: of the draws that are made.
    """

    model: Model
    arrays: Any
    bound: BoundModel
    draws: Mapping[str, ndarray]
    log_weights: Float[ndarray, " draws"]
    log_evidence: float
    standard_error: float
    seed: int

    def ratios(self, name: str) -> list[Ratio]:
        """The Bayes factors of each number of a parameter, in the order of its flattened array."""
        site, log_prior = self.bound.densities.sites[name], self._log_prior(name)
        if log_prior is None:
            return [UNKNOWN] * (site.stop - site.start)
        found = zip(range(site.start, site.stop), log_prior, strict=True)
        return [self._ratio(np.array([place]), float(density)) for place, density in found]

    def joint_ratio(self, columns: Sequence[int]) -> Ratio:
        """The Bayes factor against the model in which the effects of some columns are all 0.

        It is that of the formula without these columns, where the other effects have the same
        prior without them: independent ones.
        """
        site, log_prior = self.bound.densities.sites["effects"], self._log_prior("effects")
        assert log_prior is not None
        places = np.arange(site.stop - site.start).reshape(site.shape)[..., list(columns)].ravel()
        return self._ratio(site.start + places, float(log_prior[places].sum()))

    def ratio_without_deviation(self, name: str) -> Ratio:
        """The Bayes factor against the model in which a deviation of effects by group is 0.

        It is that of the formula without these effects. The likelihood is that at `TINY`, in units
        of the response: the deviation enters it by its square.
        """
        site = self.bound.densities.sites[name]
        assert isinstance(self.model.prior, Mapping) and site.stop == site.start + 1
        place, at = np.array([site.start]), math.log(TINY)
        positions, log_weights, _ = self._sample
        start = np.exp(log_weights) @ positions
        start[place] = at
        log_prior = float(np.asarray(self.model.prior[name].log_prob(TINY))) + at
        mass = self._mass_at(place, start)
        error = math.hypot(self.standard_error, mass.error)
        return Ratio(self.log_evidence - (mass.log_bayes_factor - log_prior), error)

    def _log_prior(self, name: str) -> ndarray | None:
        """The prior densities at 0; None unless the prior has any real number."""
        assert isinstance(self.model.prior, Mapping)
        prior: Any = self.model.prior[name]
        if name == "effects":  # independent or jointly normal, about 0
            return -0.5 * np.log(2 * np.pi * np.ravel(np.asarray(prior.variance, np.float64)))
        if not isinstance(dist.biject_to(prior.support), dist.transforms.IdentityTransform):
            return None
        return np.ravel(np.asarray(prior.log_prob(0.0), np.float64))

    def _ratio(self, places: Places, log_prior: float) -> Ratio:
        """Of the numbers at places of the unconstrained vector."""
        positions, log_weights, log_targets = self._sample
        shares, halves = np.exp(log_weights), np.arange(len(log_weights)) % 2
        moved, log_normal = np.empty_like(positions), np.empty(len(positions))
        for half in (0, 1):  # lines and densities are those of the other draws
            line = _line(positions[halves != half], shares[halves != half], places)
            if line is None or not math.isfinite(log_prior):
                return UNKNOWN
            own = positions[halves == half]
            moved[halves == half] = line.at_zero(own)
            log_normal[halves == half] = line.log_density(own[:, places])
        density = reweighted(log_weights, log_normal + self._log_targets(moved) - log_targets)
        is_even = density.pareto_shape <= weights.MAX_PARETO_SHAPE
        line = _line(positions, shares, places)
        if line is None or (is_even and density.standard_error <= UNEVEN):
            return Ratio(log_prior - density.difference, density.standard_error)
        mass = self._mass_at(places, line.at_zero(line.mean[None])[0])
        error = math.hypot(self.standard_error, mass.error)
        if error < density.standard_error or not is_even:
            return Ratio(self.log_evidence - (mass.log_bayes_factor - log_prior), error)
        return Ratio(log_prior - density.difference, density.standard_error)

    def _mass_at(self, places: Places, start: Float[ndarray, " parameters"]) -> Ratio:
        """log ∫ π(β, ψ) dψ for β as at the start, by importance sampling about the mode."""
        mode = newton(self.bound, _At(self._rows, places), start, tolerance=CLOSE)  # type: ignore[arg-type]
        if mode is None:
            return UNKNOWN
        others = np.setdiff1d(np.arange(len(start)), places)
        if not len(others):
            return Ratio(float(self._log_targets(start[None])[0]), 0.0)
        count = min(NUM_PROPOSED, self._num_affordable)
        rest = LocalGaussian(mode.centre[others], mode.precision[np.ix_(others, others)], 0.0)
        proposed = draw_student_t(np.random.default_rng(self.seed), rest, count)
        positions = np.tile(start, (count, 1))
        positions[:, others] = proposed
        even = np.full(count, -math.log(count))
        mass = reweighted(even, self._log_targets(positions) - log_student_t(rest, proposed))
        is_even = mass.pareto_shape <= weights.MAX_PARETO_SHAPE
        return Ratio(mass.difference, mass.standard_error if is_even else math.nan)

    def _log_targets(self, positions: Float[ndarray, "draws parameters"]) -> Float[ndarray, " draws"]:
        """log π at positions; -∞ where it is undefined."""
        narrow = jnp.asarray(positions, jnp.float32)
        deviations, offset = self._rows.log_likelihoods(self.bound, narrow)
        found = self.bound.log_priors(narrow) + deviations + offset
        return np.where(np.isfinite(found), found, -np.inf)

    @cached_property
    def _rows(self) -> Any:
        """As `posterior.rows.Rows`."""
        if isinstance(self.arrays, Engine):
            return gathered(self.arrays, self.model, self.seed).rows
        arrays = bound_to(self.model, dict(self.arrays)).arrays
        return Window(on_device(arrays), 0, jax.tree.leaves(arrays)[0].shape[0])

    @cached_property
    def _num_affordable(self) -> int:
        """Draws for which all rows are visited; fewer where these are many."""
        effects = self.bound.num_parameters
        work = self._rows.size * effects * (effects + LEAST_WORK)
        return int(np.clip(MOST_WORK / work, LEAST_DRAWS, MOST_DRAWS))

    @cached_property
    def _sample(
        self,
    ) -> tuple[Float[ndarray, "draws parameters"], Float[ndarray, " draws"], Float[ndarray, " draws"]]:
        """Positions, their log weights, and log π there; fewer where the rows are many."""
        names, shares = self.bound.densities.sites, np.exp(weights.normalise(self.log_weights))
        count = self._num_affordable
        places = np.arange(len(shares))
        if count < len(shares):
            places = np.random.default_rng(self.seed).choice(len(shares), count, p=shares)
            shares = np.full(count, 1 / count)
        params = {name: jnp.asarray(self.draws[name][places], jnp.float32) for name in names}
        positions = np.asarray(_positions(self.bound, params), np.float64)
        with np.errstate(divide="ignore"):
            return positions, np.log(shares), self._log_targets(positions)


class _Line(NamedTuple):
    """Moments of draws: the others' regression on the numbers at some places."""

    places: Places
    mean: Float[ndarray, " parameters"]
    covariance: Float[ndarray, "places places"]
    slopes: Float[ndarray, "places parameters"]

    def at_zero(self, positions: Float[ndarray, "draws parameters"]) -> ndarray:
        """Draws moved along the line."""
        moved = positions - positions[:, self.places] @ self.slopes
        moved[:, self.places] = 0.0
        return moved

    def log_density(self, values: Float[ndarray, "draws places"]) -> Float[ndarray, " draws"]:
        """The normal density of the numbers."""
        law: Any = multivariate_normal(self.mean[self.places], self.covariance)  # type: ignore[arg-type]
        return law.logpdf(values)


def _line(
    positions: Float[ndarray, "draws parameters"], shares: Float[ndarray, " draws"], places: Places
) -> _Line | None:
    """None if the numbers do not vary, or one is a sum of others."""
    shares = shares / shares.sum()
    mean = shares @ positions
    centred = positions - mean
    products = (shares[:, None] * centred[:, places]).T @ centred
    covariance = products[:, places]
    variances = np.diag(covariance)
    if (
        not (variances > 0).all()
        or np.linalg.cond(covariance / np.sqrt(np.outer(variances, variances))) > WORST
    ):
        return None
    return _Line(places, mean, covariance, np.linalg.solve(covariance, products))


class _At:
    """Rows whose log-posterior is level in some directions, but curved; their own in others."""

    def __init__(self, rows: Any, places: Places):
        self._rows, self._places = rows, places

    def expand(self, model: BoundModel, centre: ndarray, hessian: bool = True) -> Expansion:
        """As `Rows.expand`; with the prior added, nothing pulls away from the start."""
        found, prior = self._rows.expand(model, centre, hessian), expand_prior(model, centre)
        gradient, curvature, places = found.gradient.copy(), found.hessian.copy(), self._places
        gradient[places] = -prior.gradient[places]
        curvature[places] = -prior.hessian[places]
        curvature[:, places] = -prior.hessian[:, places]
        curvature[places, places] -= 1
        return Expansion(found.centre, found.value, gradient, curvature)


def _positions(model: BoundModel, params: Mapping[str, Any]) -> jax.Array:
    return jax.vmap(model.unconstrain)(dict(params))


def flat_columns(ratios: list[Ratio], shape: tuple[int, ...]) -> Iterator[list[Ratio]]:
    """The ratios of a parameter of a shape, by its last axis: those of each column."""
    count = shape[-1]
    for column in range(count):
        yield ratios[column::count]
