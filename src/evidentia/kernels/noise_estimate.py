"""β̂, which stands for the noise of the gradient: a number, or measured in each move."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, as_number
from evidentia.kernels.kernel import Density, Positions

MEASURED = "measured"
MOST = 0.95  # of the noise that a kernel adds, which may be left out for that of the gradient

NoiseEstimate = float | Literal["measured"]


def check_noise_estimate(value: NoiseEstimate, limit: float, interval: str) -> None:
    """Raise ConfigurationError unless a value is "measured" or a number below a limit."""
    if value != MEASURED and not 0 <= as_number(value) < limit:
        raise ConfigurationError(f"noise_estimate must {interval}, or be 'measured'; got {value!r}.")


def estimated(
    value: NoiseEstimate,
    key: Array,
    positions: Positions,
    density: Density,
    factor: Array | float,
    limit: float,
) -> Float[Array, " parameters"] | float:
    """β̂: the number given, or `factor` times the measured variance of each coordinate.

    The variance is that of two independent estimates at all particles, and β̂ at most a fraction
    (`MOST`) of its `limit`: beyond, the mini-batch alone is noisier than the kernel should be.
    """
    if value != MEASURED:
        return float(value)
    first, second = jax.random.split(key)
    differences = density.gradient(first, positions) - density.gradient(second, positions)
    return jnp.minimum(factor * 0.5 * jnp.mean(differences**2, axis=0), MOST * limit)
