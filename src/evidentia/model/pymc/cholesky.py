"""PyMC's LKJCholeskyCov: the Cholesky factor of a covariance matrix with an LKJ correlation.

With s the standard deviations and C the Cholesky factor of the correlation matrix, L = diag(s) C
is held row by row. Rows are vectors of length s, so that

    log p(L) = log p(C) + log p(s) - Σᵢ (i log sᵢ - log Cᵢᵢ),        i = 0, …, n - 1.

PyMC 5.28 subtracts the logarithm of the LKJ density's normalising constant instead of adding it,
so its density does not integrate to one; this one does (Lewandowski, Kurowicka, Joe 2009).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints


class LKJCholeskyCov(dist.Distribution):
    """Packed Cholesky factors of covariance matrices.

    Attributes:
        concentration: η; 1 is uniform over correlation matrices.
        deviations: the distribution of the standard deviations, an event of shape (n,).
    """

    def __init__(self, concentration: Any, deviations: dist.Distribution):
        self.concentration, self.deviations = concentration, deviations
        self._size = deviations.event_shape[0]
        self._places = np.tril_indices(self._size)
        super().__init__((), (len(self._places[0]),))

    @property
    def support(self) -> Any:
        """Lower triangles with a positive diagonal."""
        return PackedCholesky(self._size)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of the factor."""
        for_deviations, for_correlation = random.split(key)
        deviations: Any = self.deviations.sample(for_deviations, sample_shape)
        factor: Any = self._correlation.sample(for_correlation, sample_shape)
        return (deviations[..., None] * factor)[..., *self._places]

    def log_prob(self, value: Array) -> Float[Array, "*batch"]:
        """Log density of packed factors."""
        factor = jnp.zeros((*value.shape[:-1], self._size, self._size), value.dtype)
        factor = factor.at[..., *self._places].set(value)
        deviations = jnp.linalg.norm(factor, axis=-1)
        correlation = factor / deviations[..., None]
        diagonal = jnp.diagonal(correlation, axis1=-2, axis2=-1)
        jacobian = np.arange(self._size, dtype=np.float32) * jnp.log(deviations) - jnp.log(diagonal)
        log_prob = self._correlation.log_prob(correlation) + self.deviations.log_prob(deviations)
        return log_prob - jacobian.sum(axis=-1)

    @property
    def _correlation(self) -> dist.LKJCholesky:
        return dist.LKJCholesky(self._size, self.concentration)


class PackedCholesky(constraints.Constraint):
    """Lower triangles of size n with a positive diagonal, row by row."""

    event_dim = 1

    def __init__(self, size: int):
        self.size = size
        super().__init__()


@biject_to.register(PackedCholesky)
class _Packed:
    """The exponential on the diagonal."""

    def __init__(self, support: PackedCholesky):
        self._diagonal = np.cumsum(np.arange(1, support.size + 1)) - 1

    def __call__(self, free: Array) -> Array:
        return free.at[..., self._diagonal].set(jnp.exp(free[..., self._diagonal]))

    def inv(self, value: Array) -> Array:
        return value.at[..., self._diagonal].set(jnp.log(value[..., self._diagonal]))

    def log_abs_det_jacobian(self, free: Array, value: Array) -> Array:
        return free[..., self._diagonal].sum(axis=-1)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape
