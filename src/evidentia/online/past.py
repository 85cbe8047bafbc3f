"""The past rows of a stream: a reservoir, and sums that account for the rows left out.

While the reservoir holds every row, nothing is missing. After that, the log-likelihood of all n
rows is

    L(θ) ≈ (n/R) Σ_{i in reservoir} ℓ_i(θ) + Q(θ),        Q = T - (n/R) S,

where T is the second-order expansion, about a centre c, of the log-likelihood of all rows, and S
that of the rows in the reservoir. T is a running sum over the stream, exact as long as the centre
is fixed; S follows the rows that enter and leave. So the value, the gradient and the curvature at
c are those of all rows, and the sample only estimates terms of third order in θ - c. When the
centre moves to follow the posterior, L remains the same function; its error there is that of a
sample mean of third-order terms, whose standard error is recorded. Where that fails, weighted
nodes stand for all rows (`squashed`).

Source: Baker, Fearnhead, Fox, Nemeth (2019), Statistics and Computing 29, section 3 (control
variates about a centre); Quiroz, Kohn, Villani, Tran (2019), Journal of the American Statistical
Association 114, section 3.2 (second order, log-likelihoods).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.data.arrays import are_columns, num_rows
from evidentia.evidence.population.particles import (
    Particles,
    Population,
    some_of,
    weighted_particles,
)
from evidentia.model.bound import BoundModel
from evidentia.online import reservoir as reservoirs
from evidentia.online import squashed as squashing
from evidentia.online.mixture import log_mixture
from evidentia.online.reservoir import NUM_BINDING_ROWS, STAGE, Reservoir
from evidentia.online.squashed import Squashed
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.modes import newton
from evidentia.posterior.row_sums import sum_rows
from evidentia.posterior.rows import Window, without_remainder
from evidentia.system.compilation import compiled

# The centre moves at this squared distance per parameter of the posterior mean from it.
MOVED = 4.0
# Nodes replace the sums if these are wrong by more nats (`_is_poor`), at so many particles, by
# some of the rows.
POOR, NUM_PLACES, SOME = 0.1, 16, 10_000


class Sums(NamedTuple):
    """Float64 expansions on the host about one centre: of all rows, and of those in the reservoir.

    The centre was chosen when `centred_at` rows had been seen and the posterior had this `mean`.
    `standard_error` (nats) is that of the log-likelihood of all rows near the centre, over all
    moves of the centre.
    """

    whole: Expansion
    kept: Expansion
    mean: Float[np.ndarray, " parameters"]
    centred_at: int
    standard_error: float = 0.0


class StreamPast(NamedTuple):
    """The rows seen: a reservoir, and running sums once it is full."""

    reservoir: Reservoir
    sums: Sums | None = None
    squashed: Squashed | None = None

    @property
    def window(self) -> Window:
        """A window that represents all rows seen."""
        return self.expanded if self.squashed is None else self.squashed.window(self.expanded)

    @property
    def expanded(self) -> Window:
        """A window that represents all rows seen by the reservoir and the sums."""
        arrays, kept = self.reservoir.arrays, self.reservoir.num_kept
        if self.sums is None:
            return Window(arrays, 0, kept)
        weight = self.reservoir.num_observations / kept
        return Window(arrays, 0, kept, weight, self.sums.whole.plus(self.sums.kept, -weight))

    @property
    def num_observations(self) -> int:
        """The number of rows seen."""
        return self.reservoir.num_observations

    @property
    def capacity(self) -> int:
        """The number of rows that can be kept."""
        return self.reservoir.capacity

    @property
    def example(self) -> Any:
        """Rows like those of a batch."""
        return self.reservoir.arrays

    @property
    def binding_rows(self) -> Any:
        """Some of the first rows kept, to which a model can be bound."""
        kept = min(NUM_BINDING_ROWS, self.reservoir.num_kept)
        return jax.tree.map(lambda leaf: np.asarray(leaf[:kept]), self.reservoir.arrays)

    @property
    def is_consistent(self) -> bool:
        """Whether its parts fit together, as those of a checkpoint that is not damaged."""
        leaves, length = jax.tree.leaves(self.reservoir.arrays), self.capacity + 2 * STAGE
        has_sums = (self.sums is not None) == (self.num_observations > self.capacity)
        fits = self.squashed is None or (has_sums and self.squashed.fits(self.reservoir))
        return has_sums and fits and are_columns(leaves, jax.Array, length)

    def arriving(self, batch: Any) -> "Arriving":
        """This past with a batch that follows."""
        return Arriving(self, batch, standard_error=self.standard_error)

    def check(self, check: Callable[[Any], None] | None, batch: Any) -> None:
        """Check the rows of a batch. Raises DataError."""
        if check is not None:
            check(batch)

    def log_predictives(
        self, model: BoundModel, positions: Any, log_weights: np.ndarray, batch: Any
    ) -> Float[np.ndarray, " rows"]:
        """log p(row | rows seen) of each row of a batch, under weighted particles."""
        return log_mixture(model, positions, log_weights, batch)

    @property
    def standard_error(self) -> float:
        """Error of the log-likelihood near the centre, in nats; zero if all rows are kept."""
        if self.squashed is not None:
            return self.squashed.standard_error
        return 0.0 if self.sums is None else self.sums.standard_error


class Arriving(NamedTuple):
    """The past of a stream, and a partly processed batch (`chunks.Past`).

    `standard_error` is that of the past after the last chunk, before any recentring for a redraw.
    """

    past: StreamPast
    batch: Any
    num_taken: int = 0
    standard_error: float = 0.0

    @property
    def window(self) -> Window:
        """A window that represents all rows seen."""
        return self.past.window

    def stage(self, stop: int) -> tuple["Arriving", Window]:
        """Stage the next rows of the batch behind the reservoir, as many as fit."""
        reservoir, first = self.past.reservoir, self.num_taken
        size = min(
            stop - reservoir.num_observations, reservoirs.room(reservoir), num_rows(self.batch) - first
        )
        chunk = jax.tree.map(lambda leaf: leaf[first : first + size], self.batch)
        after, window = reservoirs.stage(reservoir, chunk)
        squashed = self.past.squashed
        if squashed is not None:
            squashed, window = squashed.stage(chunk, reservoir.num_observations)
        return self._replace(past=self.past._replace(reservoir=after, squashed=squashed)), window

    def absorb(self, model: BoundModel, chunk: Window, population: Population) -> "Arriving":
        """The past including the staged chunk."""
        past = absorb(model, self.past, chunk, population)
        return Arriving(past, self.batch, self.num_taken + chunk.size, past.standard_error)

    def recentred(self, model: BoundModel, population: Population) -> "Arriving":
        """The past with its centre at the mode near the posterior mean, if there is one."""
        if self.past.sums is None:
            return self
        if self.past.squashed is not None:
            particles, reservoir = weighted_particles(model, population), self.past.reservoir
            squashed = squashing.tested(model, self.past.squashed, reservoir, particles)
            return self._replace(past=self.past._replace(squashed=squashed))
        sums = _centred(model, self.past, weighted_particles(model, population).mean)
        return self._replace(past=self.past._replace(sums=sums))


def absorb(model: BoundModel, past: StreamPast, chunk: Window, population: Population) -> StreamPast:
    """The past including a staged chunk, given particles of the posterior of both."""
    reservoir = past.reservoir
    size = chunk.size
    after = reservoir._replace(num_observations=reservoir.num_observations + size)
    if not reservoir.is_full:
        return past._replace(reservoir=after)
    sums, squashed, particles = past.sums, past.squashed, weighted_particles(model, population)
    if sums is None or _is_far(sums, particles.mean, reservoir.num_observations):
        sums = _centred(model, past, particles.mean)
    is_first = past.sums is None and squashing.are_possible(model, reservoir)
    if is_first and _is_poor(model, past, sums, particles):
        squashed = squashing.begun(model, reservoir, particles)
    exchange = reservoirs.draw_exchange(reservoir, size)
    centre = sums.whole.centre
    sums = sums._replace(whole=sums.whole.plus(chunk.expand(model, centre)))
    if len(exchange.slots):
        entering = reservoirs.side_by_side(reservoir, reservoir.capacity + exchange.entering)
        leaving = reservoirs.side_by_side(reservoir, exchange.slots)
        kept = sums.kept.plus(entering.expand(model, centre)).plus(leaving.expand(model, centre), -1.0)
        sums = sums._replace(kept=kept)
        after = reservoirs.exchanged(after, exchange)
    if squashed is not None:
        squashed = squashing.absorbed(model, squashed, after, chunk, exchange, particles)
    return StreamPast(after, sums, squashed)


def _centred(model: BoundModel, past: StreamPast, mean: Float[np.ndarray, " parameters"]) -> Sums:
    # The mean of a banana-shaped posterior is off the ridge, where an expansion is of little use.
    mode = newton(model, past.window, mean)
    return sums_about(model, past, mean if mode is None else mode.centre, mean)


def sums_about(
    model: BoundModel,
    past: StreamPast,
    centre: Float[np.ndarray, " parameters"],
    mean: Float[np.ndarray, " parameters"],
) -> Sums:
    """The sums about another centre: the log-likelihood is the same function of the position.

    Their `standard_error` is then that of the log-likelihood near the new centre; the errors of
    successive moves count as independent.
    """
    window, sums, num_observations = past.expanded, past.sums, past.reservoir.num_observations
    # Positions are float32: differences from a float32 centre lose no precision.
    centre = np.asarray(np.asarray(centre, np.float32), np.float64)
    plain = without_remainder(window)
    kept = plain.expand(model, centre)
    if sums is None or window.remainder is None:
        return Sums(kept, kept, mean, num_observations)
    whole = window.remainder.about(centre).plus(kept, window.weight)
    left_out = 1 - window.size / num_observations
    spread = _remainder_variance(model, sums.whole.centre, centre, plain)
    error = num_observations * math.sqrt(left_out * spread / window.size)
    standard_error = math.hypot(sums.standard_error, error)
    return Sums(whole, kept, mean, num_observations, standard_error)


def _is_far(sums: Sums, mean: np.ndarray, num_observations: int) -> bool:
    """Whether the rows have doubled since the centre was chosen, or the posterior has moved."""
    step = mean - sums.mean
    distance = -step @ sums.whole.hessian @ step
    return num_observations >= 2 * sums.centred_at or not distance < MOVED * len(step)


def _is_poor(model: BoundModel, past: StreamPast, sums: Sums, particles: Particles) -> bool:
    """Whether the sums will be wrong at the particles when the rows, all kept, have doubled.

    The error is that of `sums_about`, at the particles in place of the next centre.
    """
    size, generator = past.reservoir.capacity, np.random.default_rng(past.reservoir.seed)
    window = past.expanded.sample(SOME)
    places = some_of(particles, generator, NUM_PLACES).astype(np.float32)
    variances = [_remainder_variance(model, sums.whole.centre, place, window) for place in places]
    return not 2 * size * float(np.mean(variances)) <= POOR**2


def _remainder_variance(model: BoundModel, old: np.ndarray, new: np.ndarray, window: Window) -> float:
    """Variance over rows, in nats², of the remainder at `new` of expansions about `old`."""
    with model.in_float64():
        wide = np.asarray(old, np.float64), np.asarray(new, np.float64)
        first, second = (float(moment) / window.size for moment in _remainder_moments(model, *wide, window))
    return max(0.0, second - first**2)


@compiled(static_argnames="model")
def _remainder_moments(
    model: BoundModel, old: Float[Array, " parameters"], new: Float[Array, " parameters"], window: Window
):
    """Sums of the remainders and of their squares."""

    def along(batch):
        # ℓ(c + tδ) and its first two derivatives in t at t = 0 give the expansion at c + δ.
        def value(t):
            return model.log_likelihood(old + t * (new - old), batch)

        def slope(t):
            return jax.jvp(value, (t,), (jnp.ones_like(t),))

        zero = jnp.zeros((), old.dtype)
        (here, first), (_, second) = jax.jvp(slope, (zero,), (jnp.ones_like(zero),))
        return model.log_likelihood(new, batch) - here - first - 0.5 * second

    def add(moments, block: Any, weights):
        remainder: Array = along(block)
        remainder = jnp.where(weights > 0, remainder, 0.0)
        return moments[0] + remainder.sum(), moments[1] + (remainder**2).sum()

    zero = jnp.zeros((), old.dtype)
    return sum_rows(add, (zero, zero), window)
