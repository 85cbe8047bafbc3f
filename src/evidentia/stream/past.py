"""All that an online estimator keeps of the rows that it has seen: a reservoir, and what this misses of the whole.

While the reservoir holds every row nothing is missing. From then on the log-likelihood of all n rows is

    L(θ) ≈ (n/R) Σ_{i in reservoir} ℓ_i(θ) + Q(θ),        Q = T - (n/R) S,

where T is the expansion to second order, about a centre c, of the log-likelihood of all rows, and S that of the rows in the
reservoir. T is a running sum over the stream, exact as long as the centre stands still; S follows the rows that enter and
leave. So the value, the gradient and the curvature at c are those of all rows, and the sample only stands for what is of third
order in θ - c. When the centre moves, to where the posterior has gone, L stays the same function; it errs there by the error
of a sample mean of terms of third order, whose standard error is kept.

Source: Baker, Fearnhead, Fox, Nemeth (2019), Statistics and Computing 29, section 3 (control variates about a centre); Quiroz,
Kohn, Villani, Tran (2019), Journal of the American Statistical Association 114, section 3.2 (second order, log-likelihoods).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.evidence.population import Population
from evidentia.evidence.refresh import weighted_particles
from evidentia.expansion import Expansion, add_expansions
from evidentia.laplace import laplace_approximation
from evidentia.model import BoundModel
from evidentia.rows import Rows, Sample, fold_rows
from evidentia.stream import reservoir as reservoirs
from evidentia.stream.reservoir import Reservoir
from evidentia.target import expand

MOVED = 4.0  # squared distance of the posterior's mean from the centre, for each parameter, at which the centre follows


class Sums(NamedTuple):
    """Expansions about the same centre, in float64 on the host: of all rows, and of those in the reservoir.

    The centre was chosen when `centred_at` rows had been seen and the posterior had this `mean`. `standard_error` (nats) is that
    of the log-likelihood of all rows near the centre, from all its moves.
    """

    whole: Expansion
    kept: Expansion
    mean: Float[np.ndarray, " parameters"]
    centred_at: int
    standard_error: float = 0.0


class Past(NamedTuple):
    """The rows seen: a reservoir, and running sums from when it was full on."""

    reservoir: Reservoir
    sums: Sums | None = None

    @property
    def rows(self) -> Rows:
        """A window whose sums are those over all rows seen."""
        arrays, kept = self.reservoir.arrays, self.reservoir.num_kept
        if self.sums is None:
            return Rows(arrays, 0, kept)
        weight = self.reservoir.num_observations / kept
        return Rows(arrays, 0, kept, Sample(weight, add_expansions(self.sums.whole, self.sums.kept, -weight)))

    @property
    def standard_error(self) -> float:
        """Of the log-likelihood that `rows` gives near the centre, in nats; zero while all rows are kept."""
        return 0.0 if self.sums is None else self.sums.standard_error


def absorb(model: BoundModel, past: Past, chunk: Rows, population: Population, seed: int) -> Past:
    """The past with a staged chunk, given particles of the posterior of both."""
    reservoir = past.reservoir
    size = chunk.size
    after = reservoir._replace(num_observations=reservoir.num_observations + size)
    if not reservoir.is_full:
        return past._replace(reservoir=after)
    sums, mean = past.sums, weighted_particles(model, population).mean
    if sums is None or _is_far(sums, mean, reservoir.num_observations):
        sums = centred(model, past, mean).sums
        assert sums is not None
    exchange = reservoirs.draw_exchange(reservoir, size, seed)
    position = sums.whole.centre
    sums = sums._replace(whole=add_expansions(sums.whole, _expand(model, position, chunk)))
    if len(exchange.slots):
        entering = reservoirs.side_by_side(reservoir, reservoir.capacity + exchange.entering)
        leaving = reservoirs.side_by_side(reservoir, exchange.slots)
        kept = add_expansions(sums.kept, _expand(model, position, entering))
        sums = sums._replace(kept=add_expansions(kept, _expand(model, position, leaving), -1.0))
        after = reservoirs.exchanged(after, exchange)
    return Past(after, sums)


def centred(model: BoundModel, past: Past, mean: Float[np.ndarray, " parameters"]) -> Past:
    """The past with its centre at the mode near the posterior's mean: the log-likelihood is the same function of the position.

    Its `standard_error` is then that of the log-likelihood there; the errors of one move and the next count as independent.
    """
    # A posterior that is curved like a banana has its mean off the ridge, where an expansion is worth little.
    mode = laplace_approximation(model, past.rows, mean)
    return about(model, past, mean if mode is None else mode.mode, mean)


def about(
    model: BoundModel,
    past: Past,
    centre: Float[np.ndarray, " parameters"],
    mean: Float[np.ndarray, " parameters"],
) -> Past:
    """The past with its centre at a given place."""
    rows, sums, num_observations = past.rows, past.sums, past.reservoir.num_observations
    # Positions are float32: differences from a centre that is one too lose nothing.
    centre = np.asarray(np.asarray(centre, np.float32), np.float64)
    window = Rows(rows.arrays, rows.start, rows.stop)
    kept = _expand(model, centre, window)
    if sums is None or rows.sample is None:
        return past._replace(sums=Sums(kept, kept, mean, num_observations))
    whole = add_expansions(rows.sample.missing.about(centre), kept, rows.sample.weight)
    left_out = 1 - rows.size / num_observations
    spread = _remainder_variance(model, sums.whole.centre, centre, window)
    error = num_observations * math.sqrt(left_out * spread / rows.size)
    standard_error = math.hypot(sums.standard_error, error)
    return past._replace(sums=Sums(whole, kept, mean, num_observations, standard_error))


def _is_far(sums: Sums, mean: np.ndarray, num_observations: int) -> bool:
    """Whether the posterior has twice the rows since the centre was chosen, or has moved away from it."""
    step = mean - sums.mean
    distance = -step @ sums.whole.hessian @ step
    return num_observations >= 2 * sums.centred_at or not distance < MOVED * len(step)


def _expand(model: BoundModel, centre: np.ndarray, rows: Rows) -> Expansion:
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, expand(model, jnp.asarray(centre, jnp.float64), rows))


def _remainder_variance(model: BoundModel, old: np.ndarray, new: np.ndarray, rows: Rows) -> float:
    """Variance over rows of what a row's expansion about the old centre misses at the new one, in nats²."""
    with jax.enable_x64(True):
        wide = jnp.asarray(old, jnp.float64), jnp.asarray(new, jnp.float64)
        first, second = (float(moment) / rows.size for moment in _remainder_moments(model, *wide, rows))
    return max(0.0, second - first**2)


@partial(jax.jit, static_argnames="model")
def _remainder_moments(
    model: BoundModel, old: Float[Array, " parameters"], new: Float[Array, " parameters"], rows: Rows
):
    """Sums of the remainders and of their squares."""

    def along(batch):
        # ℓ(c + tδ) at t = 0 with its first two derivatives in t, which is all that the expansion needs at c + δ.
        def value(t):
            return model.log_likelihood(old + t * (new - old), batch)

        def slope(t):
            return jax.jvp(value, (t,), (jnp.ones_like(t),))

        zero = jnp.zeros((), old.dtype)
        (here, first), (_, second) = jax.jvp(slope, (zero,), (jnp.ones_like(zero),))
        return model.log_likelihood(new, batch) - here - first - 0.5 * second

    def add(moments, block: Any, mask):
        remainder = jnp.where(mask, along(block), 0.0)
        return moments[0] + remainder.sum(), moments[1] + (remainder**2).sum()

    zero = jnp.zeros((), old.dtype)
    return fold_rows(add, (zero, zero), rows)
