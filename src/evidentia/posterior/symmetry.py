"""Folding: one copy of each particle, where a model with K components is the same in every order.

The symmetries of a model (`model/symmetry.py`) give each posterior mode K! 2ᶠ copies, with f flips
of signs. Each particle can be replaced by its copy nearest to a common centre without changing the
posterior that the particles represent. This brings the copies together, so that mean, covariance
and one expansion are meaningful.

Source: Stephens (2000), Journal of the Royal Statistical Society B 62, 795.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from evidentia.model.blocks import BLOCK, in_blocks
from evidentia.model.bound import BoundModel
from evidentia.model.symmetry import by_component, permuted
from evidentia.system.compilation import jitted

MAX_SWEEPS = 10  # of folding towards the mean of the previous sweep

Positions = Float[Array, "particles parameters"] | Float[np.ndarray, "particles parameters"]


class Centre(NamedTuple):
    """Where particles are folded to.

    Attributes:
        mean, variance: of each component's coordinates.
        slope: mean over variance of each unconstrained coordinate; a set of coordinates changes
            sign if its inner product with these is negative.
    """

    mean: Float[np.ndarray, "components coordinates"]
    variance: Float[np.ndarray, "components coordinates"]
    slope: Float[np.ndarray, " parameters"]


def num_components(model: BoundModel) -> int:
    """K; one if no components are interchangeable."""
    if not model.symmetry.components:
        return 1
    name, axis = model.symmetry.components[0]
    return model.parameter_shapes[name][axis]


def log_num_copies(model: BoundModel) -> float:
    """log K! 2ᶠ, of the copies of each mode."""
    return math.lgamma(num_components(model) + 1) + len(model.symmetry.all_flips) * math.log(2)


@jitted(static_argnames="model")
def reorder(
    model: BoundModel,
    positions: Float[Array, "particles parameters"],
    orders: Int[Array, "particles components"],
) -> Float[Array, "particles parameters"]:
    """Every particle with its components permuted: component k is the former `order[k]`."""

    def one(position, order):
        params = {name: value[0] for name, value in model.constrain(position[None]).items()}
        axes = model.symmetry.components
        reordered = {name: permuted(params[name], name, axes, order) for name, _ in axes}
        return model.unconstrain({**params, **reordered})

    return jax.vmap(one)(positions, orders)


def fold(
    model: BoundModel,
    positions: Positions,
    weights: Float[np.ndarray, " particles"],
) -> tuple[Float[Array, "particles parameters"], Centre]:
    """Replace each particle by its copy nearest to the mean, under independent Gaussians."""
    first = np.argmax(weights)  # it breaks the tie if the mean is where copies meet
    nearest, mean, variance = _fold_components(model, positions, weights)
    host = nearest.astype(np.float64)
    for sweep in range(MAX_SWEEPS):
        centre = weights @ host + (0.01 * host[first] if sweep == 0 else 0.0)
        slope = centre / (weights @ (host - centre) ** 2 + 1e-12)
        signs = np.ones_like(host)
        for flip in map(list, model.symmetry.flips):
            signs[:, flip] = np.where(host[:, flip] @ slope[flip] < 0, -1.0, 1.0)[:, None]
        if (signs > 0).all():
            break
        host = signs * host
    folded = host if model.symmetry.flips else nearest
    return jnp.asarray(folded.astype(np.float32)), Centre(mean, variance, slope)


def _fold_components(model: BoundModel, positions, weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions with components in order and unit flips, and the components' mean and variance."""
    positions = np.array(positions)  # a copy, which flips may change
    components = all_components(model, positions)
    if not model.symmetry.components:
        return positions, components[0], components[0]
    masks = unit_masks(model)
    orders = np.tile(np.arange(components.shape[1]), (len(components), 1))
    is_flipped = np.zeros((*orders.shape, len(masks)), bool)
    for sweep in range(MAX_SWEEPS):
        placed = np.take_along_axis(components, orders[:, :, None], 1) * _signs(is_flipped, masks)
        mean = np.einsum("i,ikp->kp", weights, placed)
        mean = mean + (0.01 * (components[np.argmax(weights)] - mean) if sweep == 0 else 0.0)
        variance = np.einsum("i,ikp->kp", weights, (placed - mean) ** 2) + 1e-6
        found, flips = _nearest_copies(components, mean, variance, masks)
        if np.array_equal(found, orders) and np.array_equal(flips, is_flipped):
            break
        orders, is_flipped = found, flips
    return _rearranged(model, positions, orders, is_flipped), mean, variance


def _rearranged(model: BoundModel, positions, orders, is_flipped) -> np.ndarray:
    """Positions with components in some order, flipped in some units."""
    is_moved = np.any(orders != np.arange(orders.shape[1]), axis=1)
    if is_moved.any():
        # Others are not touched: the constraint and its inverse cost digits.
        reordered = in_blocks(partial(reorder, model), positions, orders, least=BLOCK)
        positions = np.where(is_moved[:, None], reordered, positions)
    for number, flips in enumerate(model.symmetry.unit_flips):
        for unit, flip in enumerate(flips):
            signs = np.where(is_flipped[:, unit, number], np.float32(-1), np.float32(1))
            positions[:, list(flip)] *= signs[:, None]
    return positions


def fold_to(model: BoundModel, positions: Positions, centre: Centre) -> np.ndarray:
    """Replace each position by its copy nearest to a given centre, as `fold` left it."""
    positions = np.array(positions, np.float32)
    if model.symmetry.components:
        components = all_components(model, positions)
        orders, is_flipped = _nearest_copies(components, centre.mean, centre.variance, unit_masks(model))
        positions = _rearranged(model, positions, orders, is_flipped)
    for flip in map(list, model.symmetry.flips):
        positions[:, flip] *= np.where(positions[:, flip] @ centre.slope[flip] < 0, -1, 1)[:, None]
    return positions


def fold_onto(
    model: BoundModel, centre: Float[np.ndarray, " parameters"], positions: Positions
) -> Float[np.ndarray, "particles parameters"]:
    """Replace each position by its copy nearest to one position, in float64 on the host."""
    if not model.symmetry:
        return np.asarray(positions, np.float64)
    both = np.concatenate([centre[None], positions]).astype(np.float32)
    only_first = np.eye(1, len(both))[0]
    return np.asarray(fold(model, both, only_first)[0], np.float64)[1:]


def is_folded(model: BoundModel, positions: Positions, centre: Centre) -> Bool[np.ndarray, " particles"]:
    """Whether positions are their own copies nearest to a centre."""
    return np.all(fold_to(model, positions, centre) == np.asarray(positions, np.float32), axis=1)


def _nearest_copies(
    components: Float[np.ndarray, "particles components coordinates"],
    mean: Float[np.ndarray, "components coordinates"],
    variance: Float[np.ndarray, "components coordinates"],
    masks: Bool[np.ndarray, "flips coordinates"],
) -> tuple[Int[np.ndarray, "particles places"], Bool[np.ndarray, "particles places flips"]]:
    """The component at each place in the copy nearest to the means, and its flips there."""
    orders, flips = [], []
    for start in range(0, len(components), BLOCK):
        costs, is_nearer = _costs(components[start : start + BLOCK], mean, variance, masks, np)
        orders.append(found := cheapest_orders(costs))
        flips.append(np.take_along_axis(is_nearer, found[:, :, None, None], 2)[:, :, 0])
    return np.concatenate(orders), np.concatenate(flips)


def cheapest_orders(
    costs: Float[np.ndarray, "particles places components"], most_listed: int = 5
) -> Int[np.ndarray, "particles places"]:
    """The component at each place for which the costs of a particle are least in total."""
    count = costs.shape[1]
    if count > most_listed:  # to try every order of few is many times as fast as an assignment
        from scipy.optimize import linear_sum_assignment  # slow to import, and only large mixtures need it

        return np.array([linear_sum_assignment(cost)[1] for cost in costs])
    orders = np.array(list(itertools.permutations(range(count))))
    totals = sum(costs[:, place, orders[:, place]] for place in range(count))
    return orders[np.argmin(totals, axis=1)]


def within(
    model: BoundModel, centre: Centre, log_density: Callable[[Float[Array, " parameters"]], Float[Array, ""]]
) -> Callable[[Float[Array, " parameters"]], Float[Array, ""]]:
    """The density at positions that `fold` leaves as they are, else zero; same gradient.

    A kernel with one scale per component moves the folded particles. It leaves the posterior
    invariant, but the posterior of folded particles only if they stay where they are folded to:
    folding after a move changes the scales between the move and its reverse, which breaks
    detailed balance. With a few overlapping components the error is 0.3 nats.
    """
    masks = unit_masks(model)
    places = jnp.arange(num_components(model))

    def is_outside(position: Float[Array, " parameters"]) -> Bool[Array, ""]:
        slopes = [
            position[jnp.asarray(flip)] @ centre.slope[jnp.asarray(flip)] for flip in model.symmetry.flips
        ]
        outside = jnp.any(jnp.asarray(slopes) < 0) if slopes else jnp.asarray(False)
        if not model.symmetry.components:
            return outside
        components = components_of(model, position[None])
        costs, is_nearer = _costs(components, centre.mean, centre.variance, masks, jnp)
        is_flipped = is_nearer[0][places, places].any()
        return outside | is_flipped | ~is_in_order(costs[0])

    def restricted(position):
        outside = is_outside(jax.lax.stop_gradient(position))
        return log_density(position) + jnp.where(outside, -jnp.inf, 0.0)

    return restricted


def is_in_order(costs: Float[Array, "places components"]) -> Bool[Array, ""]:
    """Whether no order of the components costs less than component k at place k, but for rounding.

    Another order is a set of cycles, so it costs less if and only if some cycle does: a closed
    path of steps i → j, each of which costs costs[i, j] - costs[i, i].

    Source: Klein (1967), Management Science 14, 205 (cycles of negative cost); Floyd (1962),
    Communications of the ACM 5, 345 (shortest paths).
    """
    here = jnp.diag(costs)
    paths = jnp.where(jnp.eye(len(costs), dtype=bool), jnp.inf, costs - here[:, None])
    for middle in range(len(costs)):
        paths = jnp.minimum(paths, paths[:, middle, None] + paths[middle])
    return jnp.min(jnp.diag(paths)) > -1e-4 * jnp.abs(here.sum())


def _costs(components, mean, variance, masks, numpy):
    """Distances of components, as they are or flipped, to the means; and which flips are nearer.

    The distances are (particles, place, component), the flips (particles, place, component, flip).
    """
    away = (components[:, None] - mean[None, :, None]) ** 2 / variance[None, :, None]
    if not len(masks):
        return numpy.sum(away, axis=-1), numpy.zeros((*away.shape[:-1], 0), bool)
    away_flipped = (components[:, None] + mean[None, :, None]) ** 2 / variance[None, :, None]
    as_is, flipped = away @ masks.T, away_flipped @ masks.T
    fixed = numpy.sum(away * ~masks.any(0), axis=-1)
    return fixed + numpy.sum(numpy.minimum(as_is, flipped), axis=-1), flipped < as_is


@jitted(static_argnames="model")
def components_of(model: BoundModel, positions) -> Float[Array, "particles components coordinates"]:
    """Interchangeable parameters, one row per component; positive ones as logarithms."""
    if not model.symmetry.components:
        return jnp.zeros((len(positions), 1, 0))
    axes, columns = model.symmetry.components, []
    is_positive = {name: each for (name, _), each in zip(axes, model.symmetry.is_positive, strict=True)}
    for name, value in by_component(axes, model.constrain(positions), num_leading=1).items():
        value = value.reshape(*value.shape[:2], -1)
        columns.append(jnp.log(jnp.maximum(value, 1e-30)) if is_positive[name] else value)
    return jnp.concatenate(columns, axis=-1)


def all_components(
    model: BoundModel, positions: Positions
) -> Float[np.ndarray, "particles components coordinates"]:
    """As `components_of`, in float64 on the host."""
    return in_blocks(partial(components_of, model), positions, least=BLOCK).astype(np.float64)


def unit_masks(model: BoundModel) -> Bool[np.ndarray, "flips coordinates"]:
    """Which of the coordinates of `components_of` change sign in each unit flip."""
    indices = {}
    for name, _ in model.symmetry.components:
        site = model.densities.sites[name]
        if site.shape == site.unconstrained_shape:
            indices[name] = np.arange(site.start, site.stop).reshape(site.shape)
        else:
            indices[name] = np.full(site.shape, -1)
    columns = [each[0].ravel() for each in by_component(model.symmetry.components, indices).values()]
    first = np.concatenate(columns) if columns else np.zeros(0)
    masks = [np.isin(first, flips[0]) for flips in model.symmetry.unit_flips]
    return np.array(masks, bool).reshape(len(masks), len(first))


def _signs(is_flipped: np.ndarray, masks: np.ndarray) -> np.ndarray:
    return np.where(np.einsum("pkg,gc->pkc", is_flipped, masks), -1.0, 1.0)
