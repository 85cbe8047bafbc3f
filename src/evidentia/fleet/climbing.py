"""Newton's method from many starts for many data sets at once, in float64.

The device expands log-posteriors at a block of positions, each for its own data set; the host
solves the small systems. A *lane* is one climb. Lanes that have arrived, or are near the first
mode found for their data set, leave their block to the others, so a batch costs about as much as
its lanes need.

Source: Nocedal and Wright (2006), Numerical Optimization, section 3.1 (step halving); Dauphin et
al. (2014), Advances in Neural Information Processing Systems 27, Algorithm 1 (saddles).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.model.bound import BoundModel
from evidentia.system.compilation import compiled
from evidentia.system.interruption import check

BLOCK = 64  # lanes in a compiled program
MAX_STEPS = 60  # evaluations of a lane, halved steps included
TOLERANCE = 1e-6  # squared distance to the mode, in posterior standard deviations
SMALLEST_STEP = 2.0**-12  # share of Newton's step

Expand = Callable[[ndarray, ndarray], tuple[ndarray, ndarray, ndarray]]


class Lanes(NamedTuple):
    """Ends of climbs.

    Attributes:
        position: where each lane ended.
        height: the log of likelihood times prior there, in nats.
        precision: the negative Hessian there.
        is_top: whether the lane arrived at a point without slope.
        is_done: whether it did, or was near a mode of its data set when it stopped.
    """

    position: Float[ndarray, "lanes parameters"]
    height: Float[ndarray, " lanes"]
    precision: Float[ndarray, "lanes parameters parameters"]
    is_top: Any
    is_done: Any


def expander(model: BoundModel, rows: Any, mask: Any) -> Expand:
    """Height, gradient and Hessian of log-posteriors at positions, each for a data set by index.

    `rows` are arrays (datasets, rows, ...); `mask` (datasets, rows) is False where a row is
    padding.
    """
    with model.in_float64():
        wide = jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf, np.float64) if leaf.dtype.kind == "f" else leaf), rows
        )

    def expand(positions, index):
        found = []
        for start in range(0, len(positions), BLOCK):
            check()
            chosen = np.minimum(np.arange(start, start + BLOCK), len(positions) - 1)
            with model.in_float64():
                block = _expand(model, positions[chosen], index[chosen], wide, mask)
                found.append([np.asarray(part) for part in block])
        value, gradient, hessian = map(np.concatenate, zip(*found, strict=True))
        return value[: len(positions)], gradient[: len(positions)], hessian[: len(positions)]

    return expand


@compiled(static_argnames="model")
def _expand(model, positions, index, rows, mask):
    def one(position, which):
        batch = jax.tree.map(lambda leaf: leaf[which], rows)

        def height(position):
            likelihoods = model.log_likelihood(position, batch)
            return jnp.sum(likelihoods, where=mask[which]) + model.log_prior(position)

        return *jax.value_and_grad(height)(position), jax.hessian(height)(position)

    return jax.vmap(one)(positions, index)


def climb(expand: Expand, starts: Float[ndarray, "lanes parameters"], index: Int[ndarray, " lanes"]) -> Lanes:
    """The ends of climbs from `starts`, by Newton steps that are halved until they lead uphill.

    Where the Hessian is indefinite, its absolute eigenvalues are used: a step leads away from a
    saddle.
    """
    position, count = np.array(starts, np.float64), len(starts)
    height, gradient, hessian = (np.array(part) for part in expand(position, index))
    step, distance = _steps(gradient, hessian)
    share: Any = np.ones(count)
    is_top: Any = np.isfinite(height) & (distance < TOLERANCE)
    is_lost: Any = ~np.isfinite(height) | ~np.isfinite(distance)
    is_near: Any = np.zeros(count, bool)
    first = np.full(int(index.max(initial=0)) + 1, -1)  # the first mode of each data set
    for _ in range(MAX_STEPS):
        for lane in np.flatnonzero(is_top & (first[index] < 0)):
            first[index[lane]] = lane
        is_near |= ~is_top & ~is_lost & _is_near(position, -hessian, first[index])
        lanes = np.flatnonzero(~(is_top | is_lost | is_near))
        if not len(lanes):
            break
        there = position[lanes] + share[lanes, None] * step[lanes]
        found = expand(there, index[lanes])
        rounding = 1e-10 * np.abs(height[lanes])
        wanted = height[lanes] + 1e-4 * share[lanes] * distance[lanes] - rounding
        is_uphill = np.isfinite(found[0]) & (found[0] > wanted)
        moved = lanes[is_uphill]
        position[moved] = there[is_uphill]
        height[moved], gradient[moved], hessian[moved] = (part[is_uphill] for part in found)
        step[moved], distance[moved] = _steps(gradient[moved], hessian[moved])
        share[lanes] = np.where(is_uphill, np.minimum(1.0, 4 * share[lanes]), share[lanes] / 2)
        is_top[moved] = distance[moved] < TOLERANCE
        is_lost = is_lost | ~np.isfinite(distance) | (share < SMALLEST_STEP)
    return Lanes(position, height, -hessian, is_top, is_top | is_near)


def _steps(
    gradient: Float[ndarray, "lanes parameters"], hessian: Float[ndarray, "lanes parameters parameters"]
) -> tuple[Float[ndarray, "lanes parameters"], Float[ndarray, " lanes"]]:
    """Newton's steps, and the squared distances to the mode; NaN if a derivative is not finite."""
    is_finite: Any = np.isfinite(hessian).all((1, 2)) & np.isfinite(gradient).all(1)
    safe = np.where(is_finite[:, None, None], hessian, -np.eye(hessian.shape[1]))
    values, vectors = np.linalg.eigh(-safe)
    sizes = np.abs(values)
    sizes = np.maximum(sizes, 1e-6 * sizes.max(axis=1, keepdims=True) + np.finfo(float).tiny)
    slope = np.where(is_finite[:, None], gradient, np.nan)
    step = np.einsum("lij,lj->li", vectors, np.einsum("lji,lj->li", vectors, slope) / sizes)
    return step, np.einsum("li,li->l", slope, step)


def _is_near(position, precision, first) -> Any:
    """Whether each lane is within a standard deviation of the first mode of its data set."""
    away = position - position[first]
    distance = np.einsum("li,lij,lj->l", away, precision[first], away)
    return (first >= 0) & (distance >= 0) & (distance <= 1)
