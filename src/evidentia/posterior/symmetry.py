"""Interchangeable components: a mixture with permuted components is the same model.

The posterior of K such components has K! copies of each mode. Two things follow. Each particle can
be relabelled with its own permutation without changing the posterior that the particles represent
(Stephens 2000). This brings the copies together, so that mean, covariance and one expansion are
meaningful. And a proposal about one mode must count all K! copies:

    q(θ) = (1/K!) Σ_σ q₁(σθ) |∂σθ/∂θ|,        |∂σθ/∂θ| = p(θ)/p(σθ),

where p is the prior density on the unconstrained scale, on which σ is not linear and has a
Jacobian.

Source: Stephens (2000), Journal of the Royal Statistical Society B 62, 795; Frühwirth-Schnatter
(2004), Econometrics Journal 7, 143 (permutation importance sampling).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia.model.bound import BoundModel

MAX_SWEEPS = 10  # of relabelling towards the mean of the previous sweep
FULL_SUM = 5  # components up to which all orders are summed; above, the identity and swaps of two


def num_orders(model: BoundModel) -> int:
    """K! for K interchangeable components, the copies of each mode; one if there are none."""
    if not model.exchangeable:
        return 1
    return math.factorial(model.parameter_shapes[model.exchangeable[0]][0])


@partial(jax.jit, static_argnames="model")
def reorder(
    model: BoundModel,
    positions: Float[Array, "particles parameters"],
    orders: Int[Array, "particles components"],
) -> Float[Array, "particles parameters"]:
    """Every particle with its components permuted: component k is the former `order[k]`."""

    def one(position, order):
        params = {name: value[0] for name, value in model.constrain(position[None]).items()}
        permuted = {name: params[name][order] for name in model.exchangeable}
        return model.unconstrain({**params, **permuted})

    return jax.vmap(one)(positions, orders)


@partial(jax.tree_util.register_dataclass, data_fields=("mean", "variance"), meta_fields=("is_log",))
@dataclass(frozen=True)
class Order:
    """Mean and variance of each component's coordinates; which coordinates are logarithms."""

    mean: Float[np.ndarray, "components coordinates"]
    variance: Float[np.ndarray, "components coordinates"]
    is_log: tuple[bool, ...]


def relabel(
    model: BoundModel,
    positions: Float[Array, "particles parameters"],
    weights: Float[np.ndarray, " particles"],
) -> tuple[Float[Array, "particles parameters"], Order]:
    """Permute each particle's components to match the mean, under a Gaussian per component."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and only mixtures need it

    is_log = _positive(model, positions)
    components = np.asarray(_components(model, positions, is_log), np.float64)
    orders = np.tile(np.arange(components.shape[1]), (len(components), 1))
    for _ in range(MAX_SWEEPS):
        ordered = np.take_along_axis(components, orders[:, :, None], 1)
        mean = np.einsum("i,ikp->kp", weights, ordered)
        variance = np.einsum("i,ikp->kp", weights, (ordered - mean) ** 2) + 1e-6
        found = np.array([linear_sum_assignment(cost)[1] for cost in _costs(components, mean, variance, np)])
        if np.array_equal(found, orders):
            break
        orders = found
    is_moved = np.any(orders != np.arange(components.shape[1]), axis=1)
    # Particles that keep their order are not touched: the constraint and its inverse cost digits.
    reordered: Array = reorder(model, positions, jnp.asarray(orders))
    moved = jnp.where(is_moved[:, None], reordered, positions)
    return moved, Order(mean, variance, is_log)


def within(
    model: BoundModel, order: Order, log_density: Callable[[Float[Array, " parameters"]], Float[Array, ""]]
) -> Callable[[Float[Array, " parameters"]], Float[Array, ""]]:
    """The density where components are in order, else zero; the gradient is that of the density.

    A kernel with one scale per component moves the ordered particles. It leaves the posterior
    invariant, but the posterior of ordered components only if particles stay in order: relabelling
    after a move changes the scales between the move and its reverse, which breaks detailed
    balance. With a few overlapping components this cost 0.3 nats.
    """
    permutations = jnp.asarray(_orders(len(order.mean)))
    places = jnp.arange(len(order.mean))

    def restricted(position):
        components = _components(model, position[None], order.is_log)
        cost = _costs(components, jnp.asarray(order.mean), jnp.asarray(order.variance), jnp)[0]
        sums = cost[places, permutations].sum(-1)  # the identity comes first
        outside = sums[0] > sums.min() + 1e-4 * jnp.abs(sums.min())
        return log_density(position) + jax.lax.stop_gradient(jnp.where(outside, -jnp.inf, 0.0))

    return restricted


def _costs(components, mean, variance, numpy):
    """Distances of components to the means, for each particle as (new place, old place)."""
    return numpy.sum((components[:, None] - mean[None, :, None]) ** 2 / variance[None, :, None], axis=-1)


def symmetrised(
    model: BoundModel,
    log_density: Callable[[Float[np.ndarray, "draws parameters"]], Float[np.ndarray, " draws"]],
    positions: Float[Array, "draws parameters"],
) -> Float[np.ndarray, " draws"]:
    """Log of the average of a density over all orders of interchangeable components, if any.

    Above `FULL_SUM` components, only the identity and swaps of two are added: a lower bound, which
    is close where other orders are far from the density.
    """
    if not model.exchangeable:
        return log_density(np.asarray(positions, np.float64))
    orders = _orders(model.parameter_shapes[model.exchangeable[0]][0])
    copies, log_jacobians = _copies(model, positions, jnp.asarray(orders))
    flat = np.asarray(copies, np.float64).reshape(-1, copies.shape[-1])
    terms = log_density(flat).reshape(log_jacobians.shape) + np.asarray(log_jacobians, np.float64)
    return np.logaddexp.reduce(terms, axis=0) - math.lgamma(len(orders[0]) + 1)


@partial(jax.jit, static_argnames="model")
def _copies(model, positions, orders):
    """Every position in every order, and the log Jacobian of each reordering."""
    log_prior = jax.vmap(model.log_prior)

    def one(order):
        copies = reorder(model, positions, jnp.tile(order, (len(positions), 1)))
        return copies, log_prior(positions) - log_prior(copies)

    return jax.lax.map(one, orders)


def _orders(num_components: int) -> list[tuple[int, ...]]:
    if num_components <= FULL_SUM:
        return list(itertools.permutations(range(num_components)))
    identity = list(range(num_components))
    swaps = []
    for first, second in itertools.combinations(identity, 2):
        swap = identity.copy()
        swap[first], swap[second] = second, first
        swaps.append(tuple(swap))
    return [tuple(identity), *swaps]


def _positive(model: BoundModel, positions) -> tuple[bool, ...]:
    """Which interchangeable parameters are positive, and thus compared by their logarithms."""
    params = model.constrain(positions)
    return tuple(bool(np.all(np.asarray(params[name]) >= 0)) for name in model.exchangeable)


def _components(
    model: BoundModel, positions, is_log: tuple[bool, ...]
) -> Float[Array, "particles components coordinates"]:
    """Interchangeable parameters, one row per component; positive ones as logarithms."""
    params = model.constrain(positions)
    columns = []
    for name, logarithm in zip(model.exchangeable, is_log, strict=True):
        value = params[name].reshape(*params[name].shape[:2], -1)
        columns.append(jnp.log(jnp.maximum(value, 1e-30)) if logarithm else value)
    return jnp.concatenate(columns, axis=-1)
