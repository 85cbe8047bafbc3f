"""The path backwards: from one exact draw of the posterior to the prior, for an upper bound of the log evidence.

Data that were simulated from the model come with an exact draw of their posterior: the parameters θ that they were
simulated with. Particles that start there and walk the path from the posterior to the prior estimate 1/Z without bias
as those of the forward path estimate Z. By Jensen's inequality the one log Ẑ is too high on average, the other too low,
however badly the moves mix.

Source: Grosse, Ghahramani, Adams (2015), arXiv:1511.02543, sections 3 and 4.
"""

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.ais import AIS
from evidentia.evidence.annealing import Annealing, anneal
from evidentia.evidence.moves import exact_move
from evidentia.evidence.population import Population, log_evidence_variance
from evidentia.kernels import HMC, posterior_scale
from evidentia.model import BoundModel
from evidentia.rows import Rows
from evidentia.target import Target

NUM_MOVES = 8  # with which the particles leave the one draw that they start from


def start(
    model: BoundModel,
    rows: Rows,
    position: Float[Array, " parameters"],
    like: Float[Array, "particles parameters"],
    log_weights: Float[np.ndarray, " particles"],
    key: Array,
) -> Population:
    """As many particles as there are others `like` them, each an exact draw of the posterior of `rows` as `position` is.

    They start there and are moved under the posterior; the others, of a forward run, say how wide it is.
    """
    share = np.exp(weights.normalise(log_weights))
    scale = posterior_scale(np.asarray(like, np.float64), share, None, rows.size)
    target = Target(rows, Rows(rows.arrays, rows.stop, rows.stop), 1.0)
    positions = jnp.tile(position, (len(like), 1))
    key, *keys = jax.random.split(key, NUM_MOVES + 1)
    for key_move in keys:
        positions, _ = exact_move(model, HMC(), key_move, positions, target, scale)
    return Population(key, positions, np.zeros(len(like)))


def give_back(
    method: AIS | Annealing, model: BoundModel, rows: Rows, population: Population, marks: Sequence[int]
) -> Iterator[tuple[float, float, float]]:
    """Share done, log evidence of all rows and its standard error, in nats, on the way; the last of them is the estimate.

    The log evidence is that of the unbiased estimate of 1/Z, without a correction for the bias of the logarithm.

    `marks` are the numbers of rows at which the forward path's chunks ended: chunks are given back in the opposite order.
    """
    if isinstance(method, AIS):
        for snapshot in method.walk(model, rows, population, is_reverse=True):
            log_inverse = snapshot.log_evidence - 0.5 * snapshot.standard_error**2
            yield snapshot.share_done or 0.0, -log_inverse, snapshot.standard_error
        return
    starts = [0, *marks[:-1]]
    for first, last in reversed(list(zip(starts, marks, strict=True))):
        # What a gradient remembers of the rows seen does not hold once some are given back.
        population = population._replace(memory=None)
        past, chunk = Rows(rows.arrays, 0, first), Rows(rows.arrays, first, last)
        population, _ = anneal(method, model, population, past, chunk, is_reverse=True)
        yield 1.0 - first / rows.size, -population.log_evidence, log_evidence_variance(population) ** 0.5
