"""The integral over a group's local variables, by quadrature about their mode.

With u the local variables, standard normal a priori, m the mode and L Lᵀ the curvature there,

    ∫ exp f(u) N(u; 0, 1) du = |L|⁻¹ Σ_k w_k exp(f(u_k) - |u_k|²/2 + |x_k|²/2),
    u_k = m + L⁻ᵀ x_k,

with nodes x_k and weights w_k for means under N(0, 1): Gauss and Hermite's in one and two
dimensions, and a quasi-random sample, which makes it importance sampling, in more. It is exact
for Gaussians.

Source: Pinheiro and Bates (1995), Journal of Computational and Graphical Statistics 4, 12
(adaptive Gauss-Hermite quadrature).
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri
from scipy.stats import qmc

from evidentia.model.local.mode import Locals, LogDensity, Values, climb, solve_transposed

ORDERS = {1: (15, 31), 2: (7, 13)}  # nodes along each dimension, and those that measure the error
SAMPLES = 256, 1024  # nodes in more dimensions
MOST_DIMENSIONS = 8


Effects = Callable[[Locals], dict[str, Array]]  # of each group, by name
Moments = dict[str, tuple[Array, Array]]


class Nodes(NamedTuple):
    """Nodes x_k, and log w_k + |x_k|²/2."""

    places: Float[np.ndarray, "nodes size"]
    log_weights: Float[np.ndarray, " nodes"]


@cache
def nodes_of(size: int, *, is_fine: bool = False) -> Nodes:
    """The nodes in `size` dimensions; finer ones to measure the error of the others."""
    if size in ORDERS:
        along, weights = np.polynomial.hermite_e.hermegauss(ORDERS[size][is_fine])
        log_weights = np.log(weights) - 0.5 * math.log(2 * math.pi)
        places = np.stack(np.meshgrid(*[along] * size, indexing="ij"), -1).reshape(-1, size)
        logs = np.stack(np.meshgrid(*[log_weights] * size, indexing="ij"), -1).reshape(-1, size).sum(1)
    else:
        places = ndtri(qmc.Sobol(size, rng=np.random.default_rng(0)).random(SAMPLES[is_fine]))
        logs = np.full(len(places), -math.log(len(places)))
    return Nodes(places.astype(np.float32), (logs + 0.5 * np.sum(places**2, 1)).astype(np.float32))


def log_integral(frozen: LogDensity, log_density: LogDensity, groups: int, nodes: Nodes) -> Values:
    """log ∫ exp f(u) N(u; 0, 1) du of each group.

    Derivatives are those of the sum over nodes that stay in place: the integral does not depend on
    where they are, so none go through the search for the mode.

    Args:
        frozen: f without derivatives with regard to parameters.
        log_density: f.
        groups: their number.
        nodes: of `nodes_of`.
    """
    values, volumes, _ = _terms(frozen, log_density, groups, nodes)
    return jax.nn.logsumexp(values, axis=0) - volumes


def moments(log_density: LogDensity, effects: Effects, groups: int, nodes: Nodes) -> Moments:
    """Means and variances of functions of u in each group, under exp f(u) N(u; 0, 1)."""
    values, _, u = _terms(log_density, log_density, groups, nodes)
    shares = jax.nn.softmax(values, axis=0)

    def of(at_nodes: Array) -> tuple[Array, Array]:
        share = shares.reshape(*shares.shape, *[1] * (at_nodes.ndim - 2))
        mean = jnp.sum(share * at_nodes, axis=0)
        return mean, jnp.sum(share * (at_nodes - mean) ** 2, axis=0)

    return {name: of(at_nodes) for name, at_nodes in jax.vmap(effects)(u).items()}


def _terms(
    frozen: LogDensity, log_density: LogDensity, groups: int, nodes: Nodes
) -> tuple[Array, Values, Array]:
    """The logarithm of each node's term, those of |L|, and the nodes' places u."""
    places, log_weights = nodes
    mode, factor = climb(frozen, groups, places.shape[1])

    def at(place: Array) -> tuple[Values, Locals]:
        u = mode + solve_transposed(factor, jnp.broadcast_to(place, mode.shape))
        return log_density(u) - 0.5 * jnp.sum(u**2, axis=1), u

    values, u = jax.vmap(at)(jnp.asarray(places))
    volumes = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), axis=1)
    return values + log_weights[:, None], volumes, u
