"""The integral over a group's local variables, by quadrature about their modes.

With u the local variables, standard normal a priori, m a mode and L Lᵀ the curvature there,

    ∫ exp f(u) N(u; 0, 1) du = |L|⁻¹ Σ_k w_k exp(f(u_k) - |u_k|²/2 + |x_k|²/2),
    u_k = m + L⁻ᵀ x_k,

with nodes x_k and weights w_k for means under N(0, 1): Gauss and Hermite's in two dimensions, and
a quasi-random sample, which makes it importance sampling, in more. It is exact for Gaussians.

If there may be several modes, Newton's method climbs from several starts. The integral is split
between the Gaussians q_j at the ends of these climbs, by q_j(u) / Σ_l q_l(u), and each part takes
the nodes of its Gaussian,

    Σ_j Σ_k w_k exp(f(u_jk) - |u_jk|²/2) / Σ_l |L_l| exp(-|L_lᵀ (u_jk - m_l)|²/2).

In one dimension, two halves of Gaussians, with their own nodes, take the place of each
(`sides.py`). Climbs that end far lower than others, or at no mode, do not count.

Source: Pinheiro and Bates (1995), Journal of Computational and Graphical Statistics 4, 12
(adaptive Gauss-Hermite quadrature); Veach and Guibas (1995), SIGGRAPH, section 3.3 (the balance
heuristic).
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from evidentia.model.local.mode import (
    NUM_STEPS,
    Locals,
    LogDensity,
    Matrices,
    Values,
    climb,
    solve_transposed,
    without_low,
)
from evidentia.model.local.sides import Node, half_normal_rule, halves_at

ORDERS_OF_SIDES = 8, 12, 12, 20  # by level: nodes on each side of a mode in one dimension
ORDERS = 7, 13, 13, 21  # nodes along each of two dimensions
SAMPLES = 256, 1024, 1024, 4096  # nodes in more dimensions
SEVERAL_MODES = 2  # the first level that looks for them
CHECKS = {0: (1, 2), 1: (3,), 2: (3,)}  # by level: better ones, the last of which measures its error
MOST_DIMENSIONS = 8
NUM_STARTS = {2: 8, 3: 16}  # by level, beside 0: a check sees modes that what it checks has missed
FARTHEST = 4.0  # of even starts in one dimension, in deviations of the prior
NEGLIGIBLE = 30.0  # nats by which a mode may be lower than another
NUM_STEPS_FAR = 20  # from these


Effects = Callable[[Locals], dict[str, Array]]  # of each group, by name
Moments = dict[str, tuple[Array, Array]]


class Rule(NamedTuple):
    """How to integrate.

    Attributes:
        places: the nodes x_k; in one dimension, below 0 for the side below the mode.
        log_weights: log w_k.
        starts: of Newton's method.
        num_steps: of Newton's method.
    """

    places: Float[np.ndarray, "nodes size"]
    log_weights: Float[np.ndarray, " nodes"]
    starts: Float[np.ndarray, "starts size"]
    num_steps: int


class Gaussian(NamedTuple):
    """A Gaussian about the mode of each group, with L Lᵀ its inverse covariance."""

    mode: Locals
    factor: Matrices

    def at(self, place: Float[Array, " size"]) -> Node:
        """A node."""
        u = self.mode + solve_transposed(self.factor, jnp.broadcast_to(place, self.mode.shape))
        zeros = jnp.zeros_like(self.mode[:, 0])
        return Node(u, zeros, self._log_volume - 0.5 * jnp.sum(place**2))

    def log_density(self, u: Locals) -> Values:
        """The log density at a point of each group, without its power of 2π."""
        steps = jnp.einsum("gba,gb->ga", self.factor, u - self.mode)
        return self._log_volume - 0.5 * jnp.sum(steps**2, axis=1)

    @property
    def _log_volume(self) -> Values:
        return jnp.sum(jnp.log(jnp.diagonal(self.factor, axis1=1, axis2=2)), axis=1)


@cache
def rule_of(size: int, level: int) -> Rule:
    """The rule in `size` dimensions."""
    if size == 1:
        along, weights = half_normal_rule(ORDERS_OF_SIDES[level])
        places, logs = np.concatenate([-along, along])[:, None], np.log(np.tile(weights / 2, 2))
    elif size == 2:
        along, weights = np.polynomial.hermite_e.hermegauss(ORDERS[level])
        logs_along = np.log(weights) - 0.5 * math.log(2 * math.pi)
        places = np.stack(np.meshgrid(*[along] * size, indexing="ij"), -1).reshape(-1, size)
        logs = np.stack(np.meshgrid(*[logs_along] * size, indexing="ij"), -1).reshape(-1, size).sum(1)
    else:
        places = _quasi_random(size, 0, SAMPLES[level])
        logs = np.full(len(places), -math.log(len(places)))
    starts, num_steps = np.zeros((1, size)), NUM_STEPS
    if level >= SEVERAL_MODES:
        starts, num_steps = _starts(size, level), NUM_STEPS_FAR
    parts = places.astype(np.float32), logs.astype(np.float32), starts.astype(np.float32)
    return Rule(*parts, num_steps)


def _starts(size: int, level: int) -> Float[np.ndarray, "starts size"]:
    """Where Newton's method starts if there may be several modes.

    In one dimension starts are even: those of a quasi-random sample leave modes out that are two
    deviations from 0, or beside another one.
    """
    count = NUM_STARTS[level]
    if size == 1:
        return np.linspace(-FARTHEST, FARTHEST, count + 1)[:, None]
    return np.concatenate([np.zeros((1, size)), _quasi_random(size, level, count)])


def _quasi_random(size: int, seed: int, count: int) -> Float[np.ndarray, "count size"]:
    """Points of a standard normal distribution, from Sobol's sequence."""
    from scipy.stats import qmc  # slow to import, and only some models need it

    return ndtri(qmc.Sobol(size, rng=np.random.default_rng(seed)).random(count))


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


def local_moments(log_density: LogDensity, groups: int, rule: Rule) -> tuple[Locals, Matrices]:
    """Mean and covariance of u in each group, under exp f(u) N(u; 0, 1)."""
    values, u = _terms(log_density, log_density, groups, rule)
    shares = jax.nn.softmax(values, axis=0)
    mean = jnp.einsum("ng,nga->ga", shares, u)
    return mean, jnp.einsum("ng,nga,ngb->gab", shares, u - mean, u - mean)


def _terms(
    frozen: LogDensity, log_density: LogDensity, groups: int, rule: Rule
) -> tuple[Float[Array, "nodes groups"], Float[Array, "nodes groups size"]]:
    """The logarithm of each node's term, and its place u."""
    size = rule.places.shape[1]

    def approximated(mode):
        return halves_at(frozen, mode.place) if size == 1 else Gaussian(mode.place, mode.factor)

    starts = jnp.asarray(rule.starts, float)[:, None]  # in the precision of this context
    from_one = partial(climb, frozen, num_steps=rule.num_steps)
    modes = jax.vmap(from_one)(jnp.broadcast_to(starts, (len(starts), groups, size)))
    found = jax.vmap(approximated)(without_low(modes, NEGLIGIBLE))
    places = jnp.asarray(rule.places)
    nodes = jax.vmap(lambda one: jax.vmap(one.at)(places))(found)
    u, log_masses, log_densities = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), nodes)
    if len(rule.starts) > 1:
        of_all = jax.vmap(lambda one: jax.vmap(one.log_density)(u))(found)
        log_densities = jax.nn.logsumexp(of_all, axis=0)
    log_weights = jnp.tile(jnp.asarray(rule.log_weights), len(rule.starts))[:, None] + log_masses
    # One node at a time, evaluated again for its derivatives: arrays of all nodes leave the cache.
    values = jax.lax.map(jax.checkpoint(log_density), u)
    return values - 0.5 * jnp.sum(u**2, axis=2) + log_weights - log_densities, u
