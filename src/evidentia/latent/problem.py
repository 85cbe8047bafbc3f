"""A latent-variable model with its data: log densities and gradients at θ and flat particles."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, ModelError
from evidentia.kernels.langevin import LangevinState
from evidentia.latent.model import LatentModel

Positions = Float[Array, "particles parameters"]


@partial(
    jax.tree_util.register_dataclass, data_fields=["example", "data"], meta_fields=["model", "batch_size"]
)
@dataclass(frozen=True)
class Problem:
    """A model with its data, which compiled functions take as one argument.

    Attributes:
        model: the joint density.
        example: one particle's latent variables, for their structure.
        data: a pytree of arrays with observations on the leading axis, or None.
        batch_size: rows of a mini-batch; None for all rows.
    """

    model: LatentModel
    example: Any
    data: Any
    batch_size: int | None = None

    def log_joint(self, theta: Any, position: Float[Array, " parameters"], key: Array) -> Array:
        """log p_θ(x, data) at one particle, or an unbiased estimate from the key's mini-batch."""
        x = ravel_pytree(self.example)[1](position)
        if self.data is None:
            return self.model.log_joint(theta, x)
        if self.batch_size is None:
            return self.model.log_joint(theta, x, self.data)
        assert self.model.log_prior is not None  # checked by `fit`
        count = jax.tree.leaves(self.data)[0].shape[0]
        index = jax.random.randint(key, (self.batch_size,), 0, count)
        batch = jax.tree.map(lambda leaf: leaf[index], self.data)
        prior = self.model.log_prior(theta, x, batch)
        return prior + count / self.batch_size * (self.model.log_joint(theta, x, batch) - prior)

    def look(self, theta: Any, positions: Positions, key: Array) -> tuple[LangevinState, Any]:
        """The particles' densities under θ, and the gradient with respect to θ at each one."""
        both = jax.value_and_grad(self.log_joint, argnums=(0, 1))
        values, (by_theta, by_position) = jax.vmap(both, (None, 0, None))(theta, positions, key)
        return LangevinState(positions, values, by_position), by_theta

    def mean(self, gradients: Any, log_weights: Float[Array, " particles"]) -> Any:
        """The weighted mean over particles, an estimate of ∇ log Z(θ) (Fisher's identity)."""
        shares = jnp.exp(log_weights)

        def one(leaf: Array) -> Array:
            # A lost particle has no weight, and its gradient may be NaN.
            alive = (shares > 0).reshape(-1, *[1] * (leaf.ndim - 1))
            return jnp.tensordot(shares, jnp.where(alive, leaf, 0.0), axes=1)

        return jax.tree.map(one, gradients)


def check_mini_batches(batch_size: int | None, model: LatentModel, data: Any) -> None:
    """Raise ConfigurationError unless the model and its data allow the mini-batches asked for."""
    if batch_size is None:
        return
    if model.log_prior is None or data is None:
        raise ConfigurationError(
            "batch_size needs data, and a model with log_prior, the terms of log_joint that do not depend on them."
        )
    counts = {leaf.shape[0] if leaf.ndim else None for leaf in jax.tree.leaves(data)}
    if len(counts) != 1 or None in counts:
        shapes = ", ".join(str(leaf.shape) for leaf in jax.tree.leaves(data)) or "nothing"
        raise ConfigurationError(
            f"batch_size needs data with observations on the leading axis; shapes are {shapes}."
        )


def check_density(problem: Problem, theta: Any, position: Float[Array, " parameters"]) -> None:
    """Raise ModelError unless the log joint density is a scalar."""
    try:
        found = jax.eval_shape(problem.log_joint, theta, position, jax.random.key(0))
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"log_joint cannot be computed at theta0 and one of the particles: {error}. Do their shapes fit the model?"
        ) from error
    if getattr(found, "shape", None) != ():
        raise ModelError(f"log_joint must return one number, of shape (); got {found}.")
