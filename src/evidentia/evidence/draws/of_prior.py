"""Draws from a prior that reaches beyond the numbers that float32 has.

Of the draws from Gamma(10⁻⁴, 10⁻⁴), 99 in 100 are smaller than e⁻⁸⁷ and become zero; on the
unconstrained scale they lie at the edge, -87, whatever they were. Such draws are not draws of the
density p: their pile would count as a place of the posterior. So the draws used are those inside,
of the density p(θ) / s on the inside, where s is the prior's share there, and s is a factor of the
evidence. What the outside adds is left out; a sign says where it matters (`float32`).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import EstimationError
from evidentia.model.bound import BoundModel

MOST_DRAWN = 2**17  # draws for a share
MOST_NUMBERS = 2**24  # draws times parameters
FEWEST = 32  # draws inside


class PriorDraws(NamedTuple):
    """Draws from the inside of the prior, the log of its share, and the variance of that log."""

    positions: Float[Array, "draws parameters"]
    log_share: float = 0.0
    variance: float = 0.0


def draws_inside(model: BoundModel, key: Array, count: int) -> PriorDraws:
    """Draws from the prior, without those that float32 rounds to the edge of a support.

    Raises EstimationError if hardly any are left.
    """
    positions = model.sample_prior(key, count)
    if not model.is_at_edge(positions).any():
        return PriorDraws(positions)
    total = max(count, min(MOST_DRAWN, MOST_NUMBERS // model.num_parameters))
    many = np.asarray(model.sample_prior(key, total))
    inside = many[~model.is_at_edge(many)]
    if len(inside) < FEWEST:
        raise EstimationError(
            f"of {total:,} draws from the prior {len(inside)} are numbers in float32: the others are so small or so large that "
            "they become zero or infinite. Use a prior whose mass lies between 1e-38 and 1e38, such as Gamma(0.01, 0.01)."
        )
    share = len(inside) / total
    # With fewer inside than needed, some are there twice.
    chosen = inside[np.resize(np.arange(len(inside)), count)]
    return PriorDraws(jnp.asarray(chosen), float(np.log(share)), (1 - share) / len(inside))
