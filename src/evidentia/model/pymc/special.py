"""Special functions that PyTensor converts to JAX only with TensorFlow Probability."""

import math

import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri
from jaxtyping import Array, Float

SERIES = 10.0  # above it, five terms of the asymptotic series are exact to 3e-9


def scaled_erfc(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """exp(x²) erfc(x), also where erfc underflows.

    Up to `SERIES` from the normal distribution, erfc(x) = 2 Φ(-√2 x); above, the asymptotic series
    (1 - 1/2x² + 3/4x⁴ - …) / (x √π).
    """
    near, far = jnp.minimum(x, SERIES), jnp.maximum(x, SERIES)
    by_logarithm = jnp.exp(near**2 + math.log(2.0) + log_ndtr(-math.sqrt(2.0) * near))
    inverse = 0.5 / far**2
    series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse)))
    return jnp.where(x < SERIES, by_logarithm, series / (far * math.sqrt(math.pi)))


def inverse_erfc(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The x at which erfc has a value: -Φ⁻¹(value / 2) / √2."""
    return -ndtri(x / 2) / math.sqrt(2.0)


# By PyTensor's name.
FUNCTIONS = {"Erfcx": scaled_erfc, "Erfcinv": inverse_erfc}
