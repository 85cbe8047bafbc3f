"""The loop of every method: blocks of steps on the device; between them the host checks θ and the
particles' steps.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy import ndarray

from evidentia.display.progress import Update
from evidentia.errors import EstimationError
from evidentia.latent.families import Gain
from evidentia.latent.problem import Problem
from evidentia.latent.result import LatentTrajectory
from evidentia.latent.stability import largest_curvature
from evidentia.latent.start import Start
from evidentia.system.compilation import compiled

NUM_BLOCKS = 20
MEASURED = 5  # blocks from one measurement of the curvature to the next


class Block(NamedTuple):
    """θ after each step of a block, and the log evidence that each step gained."""

    theta: Any
    taken: Gain


class Climbed(NamedTuple):
    """How far the steps came.

    Attributes:
        state: the last valid state.
        blocks: the steps that led there.
        step_shares: the curvature at the particles, as a share of the largest one at which the
            steps do not diverge, at the start and now and then.
        stopped: the exception that ended the run early, `KeyboardInterrupt` or `EstimationError`.
    """

    state: Any
    blocks: list[Block]
    step_shares: list[float]
    stopped: BaseException | None = None


@compiled(static_argnames=("method",))
def initial_state(method, problem: Problem, key, theta, positions):
    """The method's state before the first step."""
    return method.init(problem, key, theta, positions)


@compiled(static_argnames=("method",))
def _advance(method, problem: Problem, key, state, steps):
    """The state after some steps, and the block that they form."""

    def step(state, index):
        state, taken = method.update(problem, jax.random.fold_in(key, index), state)
        return state, Block(state.theta, taken)

    return jax.lax.scan(step, state, steps)


def climb(
    method: Any,
    problem: Problem,
    key: Array,
    state: Any,
    num_steps: int,
    show: Callable[[list[Block]], None],
) -> Climbed:
    """Make up to `num_steps` steps; `show` is called after every block."""
    blocks: list[Block] = []
    size = -(-num_steps // NUM_BLOCKS)
    key_share = jax.random.fold_in(key, num_steps)  # no step has this number
    shares = [step_share(method, problem, key_share, state)]
    try:
        for first in range(0, num_steps, size):
            steps = jnp.arange(first, min(first + size, num_steps))
            reached, block = _advance(method, problem, key, state, steps)
            block = jax.tree.map(np.asarray, block)
            _check_finite(block, first, method.step_size, shares[-1])
            state = reached
            blocks.append(block)
            if len(blocks) % MEASURED == 0:
                shares.append(step_share(method, problem, key_share, state))
            show(blocks)
            if method.tolerance is not None and _has_converged(blocks, method.tolerance):
                break
    except (KeyboardInterrupt, EstimationError) as stopped:
        return Climbed(state, blocks, shares, stopped)
    if len(blocks) % MEASURED:  # the end, too
        shares.append(step_share(method, problem, key_share, state))
    return Climbed(state, blocks, shares)


def step_share(method: Any, problem: Problem, key: Array, state: Any) -> float:
    """The largest curvature at the particles over that at which the method's steps diverge."""
    positions, log_weights = method.particles(state)
    alive = positions[np.asarray(log_weights) > -np.inf]
    return largest_curvature(problem, state.theta, alive, key) / method.stable_curvature(state)


def progress_of(blocks: list[Block], start: Start, num_steps: int, seconds: float) -> Update:
    """What the progress display shows after some blocks."""
    count = sum(len(block.taken.ess) for block in blocks)
    gains = (float(np.sum(block.taken.log_evidence, dtype=np.float64)) for block in blocks)
    value = start.log_evidence + sum(gains)
    num_shown = count if math.isfinite(value) else 0
    error = math.sqrt(start.variance + float(blocks[-1].taken.variance[-1]))
    return Update(num_shown, num_steps, value, error, count, seconds, share_done=count / num_steps)


def trajectory(problem: Problem, theta0: Any, start: Start, blocks: list[Block]) -> LatentTrajectory:
    """The path of the constrained θ."""
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *blocks)
    free = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), theta0, whole.theta)
    constrain = problem.model.constrain
    thetas = jax.vmap(lambda theta: constrain(theta, problem.example, problem.data)[0])(free)
    gain = np.concatenate([[0.0], np.cumsum(np.asarray(whole.taken.log_evidence, np.float64))])
    ess = np.concatenate([[1.0], np.asarray(whole.taken.ess, np.float64)])
    variance = start.variance + np.concatenate([[0.0], np.asarray(whole.taken.variance, np.float64)])
    if np.isnan(gain[-1]):  # without weights
        gain[:] = ess[:] = variance[:] = np.nan
    found = start.log_evidence + gain, np.sqrt(variance), gain, ess
    return LatentTrajectory(jax.tree.map(np.asarray, thetas), *found)


def particles(method: Any, problem: Problem, state: Any) -> tuple[Any, Float[ndarray, " particles"]]:
    """The constrained particles of a state, in their structure, and their log weights."""
    positions, log_weights = method.particles(state)

    def one(position):
        x = ravel_pytree(problem.example)[1](position)
        return problem.model.constrain(state.theta, x, problem.data)[1]

    return jax.tree.map(np.asarray, jax.vmap(one)(positions)), np.asarray(log_weights, np.float64)


def _check_finite(block: Block, first: int, step_size: float, share: float) -> None:
    """Raise EstimationError if θ or all particles left the finite range."""
    it_is = f"it is {step_size:g}"
    if share > 1:
        it_is += (
            f"; the curvature at the particles is {share:.2g} times the largest one at which it is stable"
        )
    finite = np.ones(len(block.taken.ess), bool)
    for leaf in jax.tree.leaves(block.theta):
        finite &= np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1)
    lost = np.isinf(block.taken.log_evidence)
    if lost.any():  # first, because θ is lost with the particles
        raise EstimationError(
            f"at step {first + int(lost.argmax()) + 1} the log joint density is not finite at any particle. Take a smaller "
            f"step_size ({it_is})."
        )
    if not finite.all():
        raise EstimationError(
            f"theta left the finite range at step {first + int(finite.argmin()) + 1}. Take a smaller step_size ("
            f"{it_is}), an optimizer with a smaller learning rate, or bounds."
        )


def _has_converged(blocks: list[Block], tolerance: float) -> bool:
    """Whether the means of θ over the last two blocks differ by less than the tolerance."""
    if len(blocks) < 2:
        return False
    before, now = (jax.tree.map(lambda leaf: leaf.mean(0), block.theta) for block in blocks[-2:])
    moved = jax.tree.map(lambda a, b: np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0.0), before, now)
    return max(jax.tree.leaves(moved)) < tolerance
