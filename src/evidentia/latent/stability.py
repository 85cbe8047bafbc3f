"""The largest curvature of the log joint density at particles, which bounds stable steps."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from evidentia.latent.problem import Positions, Problem
from evidentia.system.compilation import compiled

FEW = 4  # particles at which it is measured
NUM_PRODUCTS = 12  # of the Hessian with a vector, at each of these


def largest_curvature(problem: Problem, theta: Any, positions: Positions, key: Array) -> float:
    """The largest eigenvalue of -∇² log p_θ(x, data) in x over some particles; NaN if not finite.

    Lanczos iterations from a random vector, so it is a lower bound, which is tight if the largest
    eigenvalue is well apart. Zero where the log density is convex. With mini-batches, the
    curvature is that of one of them, as a step sees it.

    Source: Golub and Van Loan (2013), Matrix Computations, section 10.1.
    """
    # Evenly spaced, as neighbours may be copies of one particle.
    places = np.unique(np.linspace(0, len(positions) - 1, FEW).astype(int))
    if not np.isfinite(few := positions[places]).all():
        return float("nan")
    diagonals, beside = _tridiagonal(problem, theta, few, key)
    diagonals, beside = np.asarray(diagonals, np.float64), np.asarray(beside, np.float64)
    if not (np.isfinite(diagonals).all() and np.isfinite(beside).all()):
        return float("nan")
    # One by one on the host: some versions of JAX hang in batched calls of LAPACK.
    matrices = (
        np.diag(main) + np.diag(side, 1) + np.diag(side, -1)
        for main, side in zip(diagonals, beside[:, :-1], strict=True)
    )
    return max(0.0, *(float(np.linalg.eigvalsh(matrix)[-1]) for matrix in matrices))


@compiled()
def _tridiagonal(problem: Problem, theta, positions, key):
    """The tridiagonal matrices of Lanczos iterations with the negative Hessians."""

    def one(position, key):
        key_start, key_batch = jax.random.split(key)
        slope = jax.grad(partial(problem.log_joint, theta, key=key_batch))
        # Reverse mode twice, as some functions have no forward mode (`jax.custom_vjp`).
        curve = jax.vjp(slope, position)[1]

        def iterate(carry, _):
            before, vector, side = carry
            product = -curve(vector)[0] - side * before
            main = vector @ product
            product = product - main * vector
            length = jnp.sqrt(product @ product)
            # Where the Krylov space ends, what is left is rounding; zeros add the eigenvalue zero.
            side = jnp.where(length > 1e-5 * (jnp.abs(main) + side), length, 0.0)
            following = jnp.where(side > 0, product / jnp.where(side > 0, side, 1.0), 0.0)
            return (vector, following, side), (main, side)

        start = jax.random.normal(key_start, position.shape, position.dtype)
        start = start / jnp.sqrt(start @ start)
        carry = jnp.zeros_like(start), start, jnp.zeros((), start.dtype)
        return jax.lax.scan(iterate, carry, None, length=NUM_PRODUCTS)[1]

    return jax.vmap(one)(positions, jax.random.split(key, len(positions)))
