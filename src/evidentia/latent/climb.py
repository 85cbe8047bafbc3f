"""The loop of every method: blocks of steps on the device; between blocks the host checks θ."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy import ndarray

from evidentia.compilation import compiled
from evidentia.display.progress import Update
from evidentia.errors import EstimationError
from evidentia.evidence.path.langevin import StepTaken
from evidentia.latent.problem import Problem
from evidentia.latent.result import LatentTrajectory
from evidentia.latent.start import Start

NUM_BLOCKS = 20


class Block(NamedTuple):
    """θ after each step of a block, and the log evidence that each step gained."""

    theta: Any
    taken: StepTaken


class Climbed(NamedTuple):
    """How far the steps came.

    Attributes:
        state: the last valid state.
        blocks: the steps that led there.
        stopped: the exception that ended the run early, `KeyboardInterrupt` or `EstimationError`.
    """

    state: Any
    blocks: list[Block]
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
    try:
        for first in range(0, num_steps, size):
            steps = jnp.arange(first, min(first + size, num_steps))
            reached, block = _advance(method, problem, key, state, steps)
            block = jax.tree.map(np.asarray, block)
            _check_finite(block, first, method.step_size)
            state = reached
            blocks.append(block)
            show(blocks)
            if method.tolerance is not None and _has_converged(blocks, method.tolerance):
                break
    except (KeyboardInterrupt, EstimationError) as stopped:
        return Climbed(state, blocks, stopped)
    return Climbed(state, blocks)


def progress_of(blocks: list[Block], log_evidence0: float, num_steps: int, seconds: float) -> Update:
    """What the progress display shows after some blocks."""
    count = sum(len(block.taken.ess) for block in blocks)
    gains = (float(np.sum(block.taken.log_evidence, dtype=np.float64)) for block in blocks)
    value = log_evidence0 + sum(gains)
    num_shown = count if math.isfinite(value) else 0
    return Update(num_shown, num_steps, value, math.nan, count, seconds, share_done=count / num_steps)


def trajectory(problem: Problem, theta0: Any, start: Start, blocks: list[Block]) -> LatentTrajectory:
    """The path of the constrained θ."""
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *blocks)
    free = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), theta0, whole.theta)
    constrain = problem.model.constrain
    thetas = jax.vmap(lambda theta: constrain(theta, problem.example, problem.data)[0])(free)
    gain = np.concatenate([[0.0], np.cumsum(np.asarray(whole.taken.log_evidence, np.float64))])
    ess = np.concatenate([[1.0], np.asarray(whole.taken.ess, np.float64)])
    if np.isnan(gain[-1]):  # without weights
        gain[:] = ess[:] = np.nan
    return LatentTrajectory(jax.tree.map(np.asarray, thetas), start.log_evidence + gain, gain, ess)


def particles(method: Any, problem: Problem, state: Any) -> tuple[Any, Float[ndarray, " particles"]]:
    """The constrained particles of a state, in their structure, and their log weights."""
    positions, log_weights = method.particles(state)

    def one(position):
        x = ravel_pytree(problem.example)[1](position)
        return problem.model.constrain(state.theta, x, problem.data)[1]

    return jax.tree.map(np.asarray, jax.vmap(one)(positions)), np.asarray(log_weights, np.float64)


def _check_finite(block: Block, first: int, step_size: float) -> None:
    """Raise EstimationError if θ or all particles left the finite range."""
    finite = np.ones(len(block.taken.ess), bool)
    for leaf in jax.tree.leaves(block.theta):
        finite &= np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1)
    lost = np.isinf(block.taken.log_evidence)
    if lost.any():  # first, because θ is lost with the particles
        raise EstimationError(
            f"at step {first + int(lost.argmax()) + 1} the log joint density is not finite at any particle. Take a smaller "
            f"step_size (it is {step_size:g})."
        )
    if not finite.all():
        raise EstimationError(
            f"theta left the finite range at step {first + int(finite.argmin()) + 1}. Take a smaller step_size (it is "
            f"{step_size:g}), an optimizer with a smaller learning rate, or bounds."
        )


def _has_converged(blocks: list[Block], tolerance: float) -> bool:
    """Whether the means of θ over the last two blocks differ by less than the tolerance."""
    if len(blocks) < 2:
        return False
    before, now = (jax.tree.map(lambda leaf: leaf.mean(0), block.theta) for block in blocks[-2:])
    moved = jax.tree.map(lambda a, b: np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0.0), before, now)
    return max(jax.tree.leaves(moved)) < tolerance
