"""The integral over a group's local variables where the log-likelihood is quadratic in them.

With f of second degree, about any point m, g and H the derivatives of f there, r = g - m and
L Lᵀ = 1 - H,

    log ∫ exp f(u) N(u; 0, 1) du = f(m) - |m|²/2 + |L⁻¹ r|²/2 - log |L|,

which has the derivatives of the integral with regard to parameters while m stays in place. With m
the mode, r is 0 but for rounding, and no large numbers cancel. The integral is infinite, here NaN,
unless 1 - H is positive definite.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.model.local.mode import (
    Locals,
    LogDensity,
    Matrices,
    Values,
    exact_cholesky,
    expansion,
    solve,
    solve_transposed,
)
from evidentia.model.local.quadrature import Effects, Moments


def log_integral(frozen: LogDensity, log_density: LogDensity, groups: int, size: int) -> Values:
    """log ∫ exp f(u) N(u; 0, 1) du of each group; f without derivatives by parameters first."""
    mode = jax.lax.stop_gradient(_mode(frozen, groups, size))
    value, slope, curvature = expansion(log_density, mode)
    factor = exact_cholesky(curvature)
    rest = solve(factor, slope[:, :, None])[:, :, 0]
    log_volume = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), axis=1)
    return value + 0.5 * jnp.sum(rest**2, axis=1) - log_volume


def moments(log_density: LogDensity, effects: Effects, groups: int, size: int) -> Moments:
    """Means and variances of linear functions of u in each group, under exp f(u) N(u; 0, 1)."""
    mode, roots = _normal(log_density, groups, size)
    mean, along = jax.linearize(effects, mode)
    deviations = jax.vmap(along)(roots)
    variance = jax.tree.map(lambda steps: jnp.sum(steps**2, axis=0), deviations)
    return {name: (mean[name], variance[name]) for name in mean}


def local_moments(log_density: LogDensity, groups: int, size: int) -> tuple[Locals, Matrices]:
    """Mean and covariance of u in each group, under exp f(u) N(u; 0, 1)."""
    mode, roots = _normal(log_density, groups, size)
    return mode, jnp.einsum("kga,kgb->gab", roots, roots)


def _normal(
    log_density: LogDensity, groups: int, size: int
) -> tuple[Locals, Float[Array, "size groups size"]]:
    """The mean of u, and columns of a root of its covariance, L⁻ᵀ."""
    mode = _mode(log_density, groups, size)
    factor = exact_cholesky(expansion(log_density, mode)[2])
    units = jnp.broadcast_to(jnp.eye(size)[:, None], (size, *mode.shape))
    return mode, jax.vmap(lambda unit: solve_transposed(factor, unit))(units)


def _mode(log_density: LogDensity, groups: int, size: int) -> Locals:
    """One of Newton's steps from 0."""
    start = jnp.zeros((groups, size))
    _, slope, curvature = expansion(log_density, start)
    factor = exact_cholesky(curvature)
    return solve_transposed(factor, solve(factor, slope[:, :, None])[:, :, 0])
