"""The path in reverse, from an exact posterior draw to the prior: an upper bound on log evidence.

Data simulated from the model come with an exact draw of their posterior: the parameters θ used to
simulate them. Particles that start there and follow the path from the posterior to the prior
estimate 1/Z without bias, as the forward path estimates Z. By Jensen's inequality, one log Ẑ is
too high on average and the other too low, however badly the moves mix.

Source: Grosse, Ghahramani, Adams (2015), arXiv:1511.02543, sections 3 and 4.
"""

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.ais import AIS
from evidentia.evidence.method import Estimate
from evidentia.evidence.population.moves import PathSettings, move
from evidentia.evidence.population.particles import Population, estimate_of
from evidentia.evidence.population.path import anneal, end_of
from evidentia.kernels import HMC, posterior_scale
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import FullBatch, Prepared
from evidentia.posterior.rows import Window
from evidentia.posterior.target import posterior


def start(
    model: BoundModel,
    rows: Window,
    position: Float[Array, " parameters"],
    like: Float[Array, "particles parameters"],
    log_weights: Float[np.ndarray, " particles"],
    key: Array,
) -> Population:
    """Exact draws from the posterior of `rows`, as many as in `like`, from the one at `position`.

    All start there and are moved under the posterior; the weighted particles `like`, of a forward
    run, give the scale.
    """
    share = np.exp(weights.normalise(log_weights))
    scale = posterior_scale(np.asarray(like, np.float64), share, None, rows.size)
    prepared = Prepared(FullBatch(), None, posterior(rows))
    positions = jnp.tile(position, (len(like), 1))
    key, *keys = jax.random.split(key, 9)
    for key_move in keys:  # eight moves away from where all particles start
        positions = move(model, HMC(), prepared, key_move, positions, scale)[0].positions
    return Population(key, positions, np.zeros(len(like)))


def remove_rows(
    method: AIS | PathSettings, model: BoundModel, rows: Window, population: Population, marks: Sequence[int]
) -> Iterator[tuple[float, Estimate]]:
    """Yield the fraction done and the raw estimate of Z at each step; the last one is the result.

    log Ẑ is the negative logarithm of the unbiased estimate of 1/Z. `marks` are the numbers of
    rows at which the chunks of the forward path ended; chunks are removed in reverse order.
    """
    if isinstance(method, AIS):
        for snapshot in method.walk(model, rows, population, is_reverse=True):
            assert snapshot.estimate is not None
            yield snapshot.share_done or 0.0, _inverse(snapshot.estimate)
        return
    starts = [0, *marks[:-1]]
    for first, last in reversed(list(zip(starts, marks, strict=True))):
        # The gradient's memory of the rows seen is invalid once some are removed.
        population = population._replace(memory=None)
        past, chunk = rows.part(0, first), rows.part(first, last)
        population = end_of(anneal(method, model, population, past, chunk, is_reverse=True)).population
        yield 1.0 - first / rows.size, _inverse(estimate_of(population))


def _inverse(estimate: Estimate) -> Estimate:
    return Estimate(-estimate.raw, estimate.variance, is_unbiased=False)
