"""The integral over a group's local variables, by quadrature about their modes.

With u the local variables, standard normal a priori, m a mode and L Lᵀ the curvature there,

    ∫ exp f(u) N(u; 0, 1) du = |L|⁻¹ Σ_k w_k exp(f(u_k) - |u_k|²/2 + |x_k|²/2),
    u_k = m + L⁻ᵀ x_k,

with nodes x_k and weights w_k for means under N(0, 1): Gauss and Hermite's in one and two
dimensions, and a quasi-random sample, which makes it importance sampling, in more. It is exact
for Gaussians.

If there may be several modes, Newton's method climbs from several starts. The integral is split
between the Gaussians q_j at the ends of these climbs, by q_j(u) / Σ_l q_l(u), and each part takes
the nodes of its Gaussian,

    Σ_j Σ_k w_k exp(f(u_jk) - |u_jk|²/2) / Σ_l |L_l| exp(-|L_lᵀ (u_jk - m_l)|²/2).

Source: Pinheiro and Bates (1995), Journal of Computational and Graphical Statistics 4, 12
(adaptive Gauss-Hermite quadrature); Veach and Guibas (1995), SIGGRAPH, section 3.3 (the balance
heuristic).
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

from evidentia.model.local.mode import NUM_STEPS, Locals, LogDensity, Values, climb, solve_transposed

ORDERS = {1: (15, 31, 31, 63), 2: (7, 13, 13, 21)}  # by level: nodes along each dimension
SAMPLES = 256, 1024, 1024, 4096  # nodes in more dimensions
SEVERAL_MODES = 2  # the first level that looks for them
CHECKS = {0: (1, 2), 1: (3,), 2: (3,)}  # by level: better ones, the last of which measures its error
MOST_DIMENSIONS = 8
NUM_STARTS = 8  # of Newton's method, where there may be several modes
NUM_STEPS_FAR = 20  # from these


Effects = Callable[[Locals], dict[str, Array]]  # of each group, by name
Moments = dict[str, tuple[Array, Array]]


class Rule(NamedTuple):
    """How to integrate.

    Attributes:
        places: the nodes x_k.
        log_weights: log w_k.
        starts: of Newton's method.
        num_steps: of Newton's method.
    """

    places: Float[np.ndarray, "nodes size"]
    log_weights: Float[np.ndarray, " nodes"]
    starts: Float[np.ndarray, "starts size"]
    num_steps: int


@cache
def rule_of(size: int, level: int) -> Rule:
    """The rule in `size` dimensions."""
    if size in ORDERS:
        along, weights = np.polynomial.hermite_e.hermegauss(ORDERS[size][level])
        logs_along = np.log(weights) - 0.5 * math.log(2 * math.pi)
        places = np.stack(np.meshgrid(*[along] * size, indexing="ij"), -1).reshape(-1, size)
        logs = np.stack(np.meshgrid(*[logs_along] * size, indexing="ij"), -1).reshape(-1, size).sum(1)
    else:
        places = ndtri(qmc.Sobol(size, rng=np.random.default_rng(0)).random(SAMPLES[level]))
        logs = np.full(len(places), -math.log(len(places)))
    starts, num_steps = np.zeros((1, size)), NUM_STEPS
    if level >= SEVERAL_MODES:
        starts = ndtri(qmc.Sobol(size, rng=np.random.default_rng(1)).random(NUM_STARTS))
        num_steps = NUM_STEPS_FAR
    parts = places.astype(np.float32), logs.astype(np.float32), starts.astype(np.float32)
    return Rule(*parts, num_steps)


def log_integral(frozen: LogDensity, log_density: LogDensity, groups: int, rule: Rule) -> Values:
    """log ∫ exp f(u) N(u; 0, 1) du of each group.

    Derivatives are those of the sum over nodes that stay in place: the integral does not depend on
    where they are, so none go through the search for the mode.

    Args:
        frozen: f without derivatives with regard to parameters.
        log_density: f.
        groups: their number.
        rule: of `rule_of`.
    """
    return jax.nn.logsumexp(_terms(frozen, log_density, groups, rule)[0], axis=0)


def moments(log_density: LogDensity, effects: Effects, groups: int, rule: Rule) -> Moments:
    """Means and variances of functions of u in each group, under exp f(u) N(u; 0, 1)."""
    values, u = _terms(log_density, log_density, groups, rule)
    shares = jax.nn.softmax(values, axis=0)

    def of(at_nodes: Array) -> tuple[Array, Array]:
        share = shares.reshape(*shares.shape, *[1] * (at_nodes.ndim - 2))
        mean = jnp.sum(share * at_nodes, axis=0)
        return mean, jnp.sum(share * (at_nodes - mean) ** 2, axis=0)

    return {name: of(at_nodes) for name, at_nodes in jax.vmap(effects)(u).items()}


def _terms(
    frozen: LogDensity, log_density: LogDensity, groups: int, rule: Rule
) -> tuple[Float[Array, "nodes groups"], Float[Array, "nodes groups size"]]:
    """The logarithm of each node's term, and its place u."""
    size = rule.places.shape[1]

    def ascended(start):
        return climb(frozen, jnp.broadcast_to(start, (groups, size)), rule.num_steps)

    modes, factors = jax.vmap(ascended)(jnp.asarray(rule.starts, float))  # in the precision of this context
    volumes = jnp.sum(jnp.log(jnp.diagonal(factors, axis1=2, axis2=3)), axis=2)

    def of_mode(mode, factor):
        return jax.vmap(lambda place: mode + solve_transposed(factor, jnp.broadcast_to(place, mode.shape)))(
            jnp.asarray(rule.places)
        )

    u = jax.vmap(of_mode)(modes, factors).reshape(-1, groups, size)
    if len(modes) == 1:
        log_shares = volumes - 0.5 * jnp.sum(rule.places**2, axis=1)[:, None]
    else:
        steps = jnp.einsum("jgba,njgb->njga", factors, u[:, None] - modes)
        log_shares = jax.nn.logsumexp(volumes - 0.5 * jnp.sum(steps**2, axis=3), axis=1)
    log_weights = jnp.tile(jnp.asarray(rule.log_weights), len(modes))[:, None]
    return jax.vmap(log_density)(u) - 0.5 * jnp.sum(u**2, axis=2) + log_weights - log_shares, u
