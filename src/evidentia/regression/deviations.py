"""Integration over the deviations of effects that vary, where all else is integrated given them.

The coordinates are few: deviations and correlations. At each point the integrand costs one
elimination of all effects. Student t draws about its peak are weighted; where the weights are
uneven, a mixture is fitted to all draws so far and drawn from. The estimate and its error are of
the last draws alone, which no fit has seen.

Source: Geweke (1989), Econometrica 57, 1317 (importance sampling about a mode); Rue, Martino,
Chopin (2009), Journal of the Royal Statistical Society B 71, 319 (few outer parameters, all else
given them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from evidentia import weights
from evidentia.errors import EstimationError, check_count
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot
from evidentia.evidence.population.adapt import Drawn, Rounds
from evidentia.evidence.population.importance import MIN_ESS
from evidentia.evidence.population.mixture import Mixture, improved, together
from evidentia.evidence.population.particles import Particles, host_generator
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Window
from evidentia.regression.peak import Point, climb
from evidentia.system.interruption import check

SECONDS = 2.0  # that the draws of one round may take on a core
LEAST_DRAWS, MOST_DRAWS = 32, 512  # of a round
LEAST_ROUNDS, MOST_ROUNDS = 3, 8  # where the first draws are not from about a Gaussian
GOOD = 0.9  # effective draws as a fraction of a round's, from which on no other round is needed
GAIN = 1.1  # by which it must rise otherwise
TEMPERED = 0.1  # effective draws that a fit needs, as a fraction
KEPT = 0.1  # share of the draws that stays with the peak
MOST_COMPONENTS = 4


class Given(Protocol):
    """What is known at a point of the deviations."""

    @property
    def log_mass(self) -> float:
        """log of the integrand in nats: the density of data and point, with a Jacobian."""
        ...

    def draw(
        self, generator: np.random.Generator, count: int
    ) -> tuple[Mapping[str, ndarray], Float[ndarray, " draws"]]:
        """Draws of all parameters given the point, by name, with log weights.

        Mass times mean weight is the integrand; the weights are 1 where the mass is exact.
        """
        ...


class Integrand(Protocol):
    """The integrand over the deviations of some data."""

    @property
    def seconds(self) -> float:
        """About how long a point takes on a core."""
        ...

    @property
    def starts(self) -> Sequence[Point]:
        """Points, from the highest of which the search for the peak begins."""
        ...

    def at(self, point: Point) -> Given:
        """The integrand at a point. Raises EstimationError where it cannot be computed."""
        ...


class Draws(NamedTuple):
    """Points with what is known there (None where it cannot be computed), and log weights."""

    points: Float[ndarray, "points coordinates"]
    given: tuple[Given | None, ...]
    heights: Float[ndarray, " points"]
    log_weights: Float[ndarray, " points"]


@dataclass(frozen=True)
class OverDeviations:
    """Importance sampling over deviations and correlations, with all else integrated given them.

    It is for regressions with several factors, which choose it themselves.

    Attributes:
        num_particles: number of draws of all parameters, several at each point.
        integrand_of: what is integrated, of a model and its data; results have None.

    Raises:
        ConfigurationError: `num_particles` is not an integer of at least 2.

    Example:
        >>> OverDeviations()
        OverDeviations(num_particles=1024)
    """

    num_particles: int = 1024
    integrand_of: Callable[[BoundModel, Window], Integrand] | None = field(
        default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot for each round of draws.

        Raises EstimationError if no peak is found.
        """
        assert self.integrand_of is not None
        generator, integrand = host_generator(key), self.integrand_of(model, rows)
        count = int(np.clip(SECONDS / integrand.seconds, LEAST_DRAWS, MOST_DRAWS))
        for number, draws in enumerate(_rounds(integrand, min(count, self.num_particles), generator), 1):
            yield _snapshot(model, rows, draws, generator, self.num_particles, number)


def _rounds(integrand: Integrand, count: int, generator: np.random.Generator) -> Iterator[Draws]:
    """Rounds of draws until their weights are even."""
    peak = climb(lambda point: integrand.at(point).log_mass, integrand.starts)
    start = Mixture((LocalGaussian(peak.centre, peak.precision, 0.0),), np.zeros(1))
    proposal, parts, shares = start, [start], np.ones(1)
    rounds = Rounds.before(len(peak.centre)).with_part(np.zeros(0))
    best = 0.0
    for number in range(1, MOST_ROUNDS + 1):
        points = np.asarray(proposal.draw(generator, count), np.float64)
        draws = _weighted(integrand, points, proposal)
        yield draws
        effective = weights.ess(draws.log_weights) / count
        if effective >= GOOD or (number >= LEAST_ROUNDS and effective < GAIN * best):
            return
        best = max(best, effective)
        terms = np.stack([part.log_density(points) for part in parts])
        rounds = rounds.with_draws(Drawn(points, np.zeros(count), draws.heights), terms, shares)
        fit = improved(proposal, _for_fit(rounds), MOST_COMPONENTS)
        rounds = rounds.with_part(fit.log_density(rounds.drawn.positions))
        parts, shares = [*parts, fit], np.append(np.zeros(len(parts)), 1 - KEPT)
        shares[0] = KEPT
        proposal = together([fit, start], [1 - KEPT, KEPT])


def _weighted(integrand: Integrand, points: Float[ndarray, "points coordinates"], proposal: Mixture) -> Draws:
    given: list[Given | None] = []
    for point in points:
        check()
        try:
            given.append(integrand.at(point))
        except EstimationError:
            given.append(None)
    heights = np.array([-np.inf if one is None else one.log_mass for one in given])
    return Draws(points, tuple(given), heights, heights - proposal.log_density(points))


def _for_fit(rounds: Rounds) -> Particles:
    """All draws, with weights that are tempered to be even enough for a fit."""
    log_weights = np.maximum(rounds.log_weights(), np.finfo(float).min / 2)
    target = TEMPERED * len(log_weights)
    power = weights.next_temperature(np.zeros_like(log_weights), log_weights, 0.0, target)
    return Particles(rounds.drawn.positions, np.exp(weights.normalise(power * log_weights)))


def _snapshot(
    model: BoundModel,
    rows: Window,
    draws: Draws,
    generator: np.random.Generator,
    wanted: int,
    number: int,
) -> Snapshot:
    """The estimate of a round, and draws of all parameters at its points."""
    each = -(-wanted // len(draws.points))
    possible = np.isfinite(draws.log_weights)
    drawn = [
        one.draw(generator, each) for one in draws.given if one is not None and np.isfinite(one.log_mass)
    ]
    if not drawn:
        raise EstimationError("the likelihood is not finite at any draw of the deviations.")
    params = {name: np.concatenate([one[name] for one, _ in drawn]) for name in model.densities.sites}
    own = np.stack([log_weights for _, log_weights in drawn])
    of_points = draws.log_weights.copy()
    of_points[possible] += np.logaddexp.reduce(own, axis=1) - math.log(each)
    is_even = weights.ess(of_points) >= MIN_ESS * len(of_points)
    return Snapshot(
        Estimate(weights.log_mean(of_points), weights.relative_variance(of_points), is_even),
        rows.size,
        positions_of(model, params),
        (draws.log_weights[possible, None] + own).ravel(),
        share_done=number / (number + 1.0),
        diagnose=partial(_diagnose, of_points, number),
    )


def _diagnose(log_weights: Float[ndarray, " points"], number: int) -> Diagnosis:
    effective, shape = weights.ess(log_weights), weights.pareto_shape(log_weights)
    count, problem = len(log_weights), None
    if effective < MIN_ESS * count:
        problem = (
            f"the {count:,} weighted draws of the deviations are worth {effective:.1f} independent draws"
        )
    elif shape > weights.MAX_PARETO_SHAPE and effective < GOOD * count:
        problem = f"the largest weights of the draws of the deviations have a Pareto shape of {shape:.2f}"
    signs = {} if problem is None else {
        "heavy weights": f"{problem}: the log evidence may be off by more than the standard error suggests. Compare runs with other "
        "seeds, or leave an effect out that hardly varies."
    }  # fmt: skip
    measured = {"ess": effective, "pareto_shape": shape, "num_points": count, "num_rounds": number}
    return Diagnosis(measured, signs)


def positions_of(model: BoundModel, params: Mapping[str, ndarray]) -> jax.Array:
    """The unconstrained vectors of draws."""
    narrow = {name: jnp.asarray(values, jnp.float32) for name, values in params.items()}
    return jax.vmap(model.unconstrain)(narrow)
