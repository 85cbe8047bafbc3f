"""A model with its data, as the methods see it: log densities and gradients at a θ and at flat
particles.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from evidentia.kernels.langevin import LangevinState
from evidentia.latent.model import LatentModel

Positions = Float[Array, "particles parameters"]


class Problem(NamedTuple):
    """`example` has the structure of one particle's latent variables; `batch_size` rows of the
    data make a mini-batch.
    """

    model: LatentModel
    example: Any
    data: Any
    batch_size: int | None = None

    def log_joint(self, theta: Any, position: Float[Array, " parameters"], key: Array) -> Float[Array, ""]:
        """At one particle; with mini-batches an unbiased estimate, the same rows for the same key."""
        x = ravel_pytree(self.example)[1](position)
        if self.data is None:
            return self.model.log_joint(theta, x)
        if self.batch_size is None:
            return self.model.log_joint(theta, x, self.data)
        assert self.model.log_prior is not None  # checked by `fit`
        count = jax.tree.leaves(self.data)[0].shape[0]
        index = jax.random.randint(key, (self.batch_size,), 0, count)
        batch = jax.tree.map(lambda leaf: leaf[index], self.data)
        prior = self.model.log_prior(theta, x)
        return prior + count / self.batch_size * (self.model.log_joint(theta, x, batch) - prior)

    def look(self, theta: Any, positions: Positions, key: Array) -> tuple[LangevinState, Any]:
        """The particles' places under θ, and the gradient with respect to θ at each, (particles,
        …).
        """
        both = jax.value_and_grad(self.log_joint, argnums=(0, 1))
        values, (by_theta, by_position) = jax.vmap(both, (None, 0, None))(theta, positions, key)
        return LangevinState(positions, values, by_position), by_theta

    def mean(self, gradients: Any, log_weights: Float[Array, " particles"]) -> Any:
        """The weighted mean over particles, an estimate of ∇ log Z(θ) (Fisher's identity)."""
        shares = jnp.exp(log_weights)

        def one(leaf: Array) -> Array:
            # A lost particle has no weight, and perhaps no gradient.
            alive = (shares > 0).reshape(-1, *[1] * (leaf.ndim - 1))
            return jnp.tensordot(shares, jnp.where(alive, leaf, 0.0), axes=1)

        return jax.tree.map(one, gradients)
