"""Interchangeable components: a mixture's parameters in any order are the same model.

The posterior of K such components has K! copies of each mode. Two things follow. Particles may be relabelled, each by an
order of its own, without changing what they represent (Stephens 2000): that brings the copies together, so that mean,
covariance and one expansion mean something. And a proposal about one mode must count all K! of them:

    q(θ) = (1/K!) Σ_σ q₁(σθ) |∂σθ/∂θ|,        |∂σθ/∂θ| = p(θ)/p(σθ),

where p is the prior density on the unconstrained scale, which is where σ is not linear and has a Jacobian.

Source: Stephens (2000), Journal of the Royal Statistical Society B 62, 795; Frühwirth-Schnatter (2004), Econometrics
Journal 7, 143 (permutation importance sampling).
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment

from evidentia.model import BoundModel

MAX_SWEEPS = 10  # of relabelling towards the mean that the last sweep left
FULL_SUM = 5  # components up to which all orders are summed; beyond, the identity and the swaps of two


def num_orders(model: BoundModel) -> int:
    """K! for K interchangeable components: the copies of each mode; one without such components."""
    if not model.exchangeable:
        return 1
    return math.factorial(model.parameter_shapes[model.exchangeable[0]][0])


@partial(jax.jit, static_argnames="model")
def reorder(
    model: BoundModel,
    positions: Float[Array, "particles parameters"],
    orders: Int[Array, "particles components"],
) -> Float[Array, "particles parameters"]:
    """Every particle with its components in an order of its own: component k is the one that was at `order[k]`."""

    def one(position, order):
        params = {name: value[0] for name, value in model.constrain(position[None]).items()}
        permuted = {name: params[name][order] for name in model.exchangeable}
        return model.unconstrain({**params, **permuted})

    return jax.vmap(one)(positions, orders)


class Order(NamedTuple):
    """What tells components apart: mean and variance of each one's coordinates over particles, and which are logarithms."""

    mean: Float[np.ndarray, "components coordinates"]
    variance: Float[np.ndarray, "components coordinates"]
    is_log: tuple[bool, ...]


def relabel(
    model: BoundModel,
    positions: Float[Array, "particles parameters"],
    weights: Float[np.ndarray, " particles"],
) -> Float[Array, "particles parameters"]:
    """Particles with their components in the order that brings them nearest to the mean of all, as a Gaussian sees it."""
    return put_in_order(model, positions, weights)[0]


def put_in_order(
    model: BoundModel,
    positions: Float[Array, "particles parameters"],
    weights: Float[np.ndarray, " particles"],
) -> tuple[Float[Array, "particles parameters"], Order]:
    """Particles as `relabel` has them, and the order that they are in."""
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
    # What keeps its order keeps its digits: there and back through the constraint costs a few.
    moved = jnp.where(is_moved[:, None], reorder(model, positions, jnp.asarray(orders)), positions)
    return moved, Order(mean, variance, is_log)


def within(
    model: BoundModel, order: Order, log_density: Callable[[Float[Array, " parameters"]], Float[Array, ""]]
) -> Callable[[Float[Array, " parameters"]], Float[Array, ""]]:
    """The density where components are in an order, and zero elsewhere; the gradient is that of the density itself.

    Particles that were put in order are moved by a kernel that has one scale for each component. It leaves the posterior
    as it is, but not the posterior folded into one order, unless it stays in there: to go out and be folded back is to change
    the scale on the way, and detailed balance is lost. With a few overlapping components that cost 0.3 nats.
    """
    permutations = jnp.asarray(_orders(len(order.mean)))
    places = jnp.arange(len(order.mean))

    def restricted(position):
        components = _components(model, position[None], order.is_log)
        cost = _costs(components, jnp.asarray(order.mean), jnp.asarray(order.variance), jnp)[0]
        sums = cost[places, permutations].sum(-1)  # the identity is the first
        outside = sums[0] > sums.min() + 1e-4 * jnp.abs(sums.min())
        return log_density(position) + jax.lax.stop_gradient(jnp.where(outside, -jnp.inf, 0.0))

    return restricted


def _costs(components, mean, variance, numpy):
    """For each particle (new place, old place): how far a component is from where that of the new place should be."""
    distances = (components[:, None] - mean[None, :, None]) ** 2 / variance[None, :, None]
    return numpy.sum(distances + numpy.log(variance)[None, :, None], axis=-1)


def symmetrised(
    model: BoundModel,
    log_density: Callable[[Float[np.ndarray, "draws parameters"]], Float[np.ndarray, " draws"]],
    positions: Float[Array, "draws parameters"],
) -> Float[np.ndarray, " draws"]:
    """Log of the average of a density over all orders of interchangeable components; without such, of the density."""
    if not model.exchangeable:
        return log_density(np.asarray(positions, np.float64))
    orders = _orders(model.parameter_shapes[model.exchangeable[0]][0])
    copies, log_jacobians = _copies(model, positions, jnp.asarray(orders))
    flat = np.asarray(copies, np.float64).reshape(-1, copies.shape[-1])
    terms = log_density(flat).reshape(log_jacobians.shape) + np.asarray(log_jacobians, np.float64)
    return np.logaddexp.reduce(terms, axis=0) - math.lgamma(len(orders[0]) + 1)


@partial(jax.jit, static_argnames="model")
def _copies(model, positions, orders):
    """Every position in every order, and the logarithm of what that does to volumes."""
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
    """Which of the interchangeable parameters are positive, so that their logarithms tell more."""
    params = model.constrain(positions)
    return tuple(bool(np.all(np.asarray(params[name]) >= 0)) for name in model.exchangeable)


def _components(
    model: BoundModel, positions, is_log: tuple[bool, ...]
) -> Float[Array, "particles components coordinates"]:
    """The interchangeable parameters, one row a component; positive ones by their logarithm, so that scales compare."""
    params = model.constrain(positions)
    columns = []
    for name, logarithm in zip(model.exchangeable, is_log, strict=True):
        value = params[name].reshape(*params[name].shape[:2], -1)
        columns.append(jnp.log(jnp.maximum(value, 1e-30)) if logarithm else value)
    return jnp.concatenate(columns, axis=-1)
