"""Approximations to an integrand of one variable: two halves of Gaussians that meet at its mode.

Where a group's rows agree and its prior is wide, the integrand is a step: it falls within a
thousandth of the prior's deviation on one side of its mode and follows the prior on the other, and
a Gaussian with the curvature there misses nearly all of it. Here each side has its own scale s,
from where the log density t has fallen as far as a Gaussian's falls in `DISTANCE` deviations,

    t(m) - t(m ± `DISTANCE` s) = `DISTANCE`² / 2,

and its own nodes and weights, those of the Gauss rule for a half-normal density.

Source: Golub and Welsch (1969), Mathematics of Computation 23, 221 (nodes and weights from the
recurrence of orthogonal polynomials); Gautschi (2004), Orthogonal Polynomials: Computation and
Approximation, section 2.2.4 (the recurrence, by sums over a fine rule).
"""

import math
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.model.local.mode import Locals, LogDensity, Values

DISTANCE = 2.0
SMALLEST, LARGEST = 1e-6, 8.0  # scales, in deviations of the prior
NUM_BISECTIONS = 8  # of the logarithm of a scale: to a tenth of it
LONGEST = 15.0  # deviations in which a half-normal density has all its mass
FINE = 400  # nodes for its moments


class Node(NamedTuple):
    """A node of a rule in each group.

    Attributes:
        u: its place.
        log_mass: to be added to the logarithm of its weight.
        log_density: at u, without a power of 2π.
    """

    u: Locals
    log_mass: Values
    log_density: Values


class Halves(NamedTuple):
    """A density in each group: two halves of Gaussians of one height at their mode.

    Attributes:
        mode: where they meet.
        scales: below and above it.
    """

    mode: Locals
    scales: Float[Array, "2 groups"]

    def at(self, place: Float[Array, " size"]) -> Node:
        """A node: below the mode if its place is below 0."""
        scale = self.scales[(place[0] > 0).astype(int)]
        log_mean = jnp.log(jnp.mean(self.scales, axis=0))
        u = self.mode + scale[:, None] * place
        return Node(u, jnp.log(scale) - log_mean, -log_mean - 0.5 * place[0] ** 2)

    def log_density(self, u: Locals) -> Values:
        """The log density at a point of each group, without 2π."""
        steps = u[:, 0] - self.mode[:, 0]
        scale = jnp.where(steps > 0, self.scales[1], self.scales[0])
        return -jnp.log(jnp.mean(self.scales, axis=0)) - 0.5 * (steps / scale) ** 2


def halves_at(log_density: LogDensity, mode: Locals) -> Halves:
    """The halves about a mode of `log_density(u) + log N(u; 0, 1)`.

    A log density that is NaN far from the mode, as after an overflow, counts as low.
    """
    signs = jnp.array([-1.0, 1.0], mode.dtype)

    def target(u):
        return log_density(u) - 0.5 * u[:, 0] ** 2

    level = target(mode) - 0.5 * DISTANCE**2

    def halved(_, bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        steps = DISTANCE * signs[:, None] * jnp.exp(middle)
        is_inside = jax.vmap(lambda step: target(mode + step[:, None]))(steps) >= level
        return jnp.where(is_inside, middle, low), jnp.where(is_inside, high, middle)

    start = jnp.full((2, len(mode)), math.log(SMALLEST), mode.dtype)
    low, high = jax.lax.fori_loop(0, NUM_BISECTIONS, halved, (start, jnp.full_like(start, math.log(LARGEST))))
    return Halves(mode, jnp.exp(0.5 * (low + high)))


@cache
def half_normal_rule(order: int) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Nodes and weights for means under a half-normal density of deviation 1."""
    fine, weights = np.polynomial.legendre.leggauss(FINE)
    fine = 0.5 * LONGEST * (fine + 1)
    weights = weights * np.exp(-0.5 * fine**2)
    weights /= weights.sum()
    before, polynomial = np.zeros(FINE), np.ones(FINE)
    diagonal, beside = np.zeros(order), np.zeros(order)
    for k in range(order):
        diagonal[k] = weights @ (fine * polynomial**2)
        after = (fine - diagonal[k]) * polynomial - beside[k - 1] * before
        norm = math.sqrt(weights @ after**2)
        beside[k], before, polynomial = norm, polynomial, after / norm
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
    return nodes, vectors[0] ** 2
