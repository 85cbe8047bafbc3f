"""Draws from a prior that reaches beyond the numbers that float32 has.

Of the draws from Gamma(10⁻⁴, 10⁻⁴), 99 in 100 are smaller than e⁻⁸⁷ and become zero; on the
unconstrained scale they lie at the edge, -87, whatever they were. Such draws are not draws of the
density p: their pile would count as a place of the posterior. So the draws used are those inside,
of the density p(θ) / s on the inside, where s is the prior's share there, and s is a factor of the
evidence. What the outside adds is left out; a sign says where it matters (`float32`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import EstimationError
from evidentia.model.bound import BoundModel
from evidentia.system.interruption import check

AT_ONCE = 2**17  # draws
MOST_BLOCKS = 16  # of so many draws
MOST_NUMBERS = 2**24  # draws times parameters


class PriorDraws(NamedTuple):
    """Draws from the inside of the prior, the log of its share, and the variance of that log."""

    positions: Float[Array, "draws parameters"]
    log_share: float = 0.0
    variance: float = 0.0


def draws_inside(model: BoundModel, key: Array, count: int) -> PriorDraws:
    """Draws from the prior, without those that float32 rounds to the edge of a support.

    Raises EstimationError if fewer than `count` are found.
    """
    positions = model.sample_prior(key, count)
    if not model.is_at_edge(positions).any():
        return PriorDraws(positions)
    size = max(count, min(AT_ONCE, MOST_NUMBERS // model.num_parameters))
    found, total = [np.asarray(positions)[:0]], 0
    while sum(map(len, found)) < count and total < MOST_BLOCKS * size:
        check()
        key, key_block = jax.random.split(key)
        many = np.asarray(model.sample_prior(key_block, size))
        found.append(many[~model.is_at_edge(many)])
        total += size
    inside = np.concatenate(found)
    if len(inside) < count:
        raise EstimationError(
            f"of {total:,} draws from the prior {len(inside):,} are numbers in float32, and {count:,} are needed: the others are so "
            "small or so large that they become zero or infinite. Use a prior whose mass lies between 1e-38 and 1e38, such as Gamma(0.01, 0.01)."
        )
    share = len(inside) / total
    return PriorDraws(jnp.asarray(inside[:count]), float(np.log(share)), (1 - share) / len(inside))
