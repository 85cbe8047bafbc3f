"""The loop of all methods: steps on the device, in blocks between which the host looks at θ and
shows progress.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy import ndarray

from evidentia.compilation import compiled
from evidentia.display.progress import Update, reporter
from evidentia.errors import (
    ConfigurationError,
    EstimationError,
    EvidenceWarning,
    ModelError,
    check_count,
    check_seed,
)
from evidentia.evidence.path.langevin import StepTaken, check_start, flat_particles
from evidentia.latent.model import LatentModel
from evidentia.latent.problem import Problem
from evidentia.latent.start import Start, from_laplace, from_prior

NUM_BLOCKS = 20


class LatentTrajectory(NamedTuple):
    """The way of θ, from θ₀ on: all (steps + 1, …).

    Attributes:
        theta: in the structure of θ.
        log_evidence: log Z(θ_k) in nats, float64; NaN where log Z(θ₀) or the weights are not
            known.
        log_evidence_gain: log Z(θ_k) / Z(θ₀) in nats, float64; NaN without weights.
        ess: effective sample size as a fraction of the particles, before resampling; NaN without
            weights.
    """

    theta: Any
    log_evidence: Float[ndarray, " steps"]
    log_evidence_gain: Float[ndarray, " steps"]
    ess: Float[ndarray, " steps"]

    def __len__(self) -> int:
        return len(self.log_evidence)


@dataclass(frozen=True, eq=False, repr=False)
class LatentFit:
    """What `fit` returns.

    Attributes:
        theta: after the last step.
        trajectory: θ and its log evidence after every step.
        particles: of the latent variables given `theta`, in their structure, (particles, …).
        log_weights: their normalised log weights.
        method: the configuration.
        model_name: name of the model.
        seed: seed of the run.
        seconds: time that it took, compilation included.
        num_steps: steps that were made: fewer than asked for where θ stood still, or after Ctrl-C.
        completed: False after Ctrl-C, or where an error ended it.
    """

    theta: Any
    trajectory: LatentTrajectory
    particles: Any
    log_weights: Float[ndarray, " particles"]
    method: Any
    model_name: str
    seed: int
    seconds: float
    num_steps: int
    completed: bool = True

    @property
    def log_evidence(self) -> float:
        """log Z(θ) in nats, after the last step; NaN where it is not known."""
        return float(self.trajectory.log_evidence[-1])

    def __repr__(self) -> str:
        known = "" if math.isnan(self.log_evidence) else f" {self.log_evidence:,.2f} nats,"
        return f"LatentFit({self.model_name}, {type(self.method).__name__}:{known} {self.num_steps:,} steps)"


def fit(
    method: Any,
    model: LatentModel,
    theta0: Any,
    *,
    particles0: Any,
    log_evidence0: float | None,
    data: Any,
    num_steps: int,
    seed: int,
    progress: bool | Callable[[Update], None],
) -> LatentFit:
    """What `ParticleMethod.fit` does."""
    started = time.perf_counter()
    check_count("num_steps", num_steps, 1)
    check_seed(seed)
    if not isinstance(model, LatentModel):
        raise ModelError(f"latent_model must be an evidentia.latent.LatentModel; got {type(model).__name__}.")
    data = None if data is None else jax.tree.map(jnp.asarray, data)
    _check_mini_batches(method, model, data)
    theta0, particles0 = model.unconstrain(theta0, particles0, data)
    theta0 = method.inside(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), theta0))
    key_start, key_init, key_steps = jax.random.split(jax.random.key(seed), 3)
    start = _start(method, model, theta0, particles0, log_evidence0, data, key_start)
    problem = Problem(model, start.example, data, method.batch_size)
    _check_density(problem, theta0, start)
    state = _init(method, model, problem[1:3], key_init, theta0, start.positions)
    check_start(state.at)
    with reporter(progress, model.name) as report:

        def show(ways: list[Way]) -> None:
            report(_progress(ways, start.log_evidence, num_steps, time.perf_counter() - started))

        state, ways, stopped = _climb(method, problem, key_steps, state, num_steps, show)
    if not ways:
        assert stopped is not None
        raise stopped
    theta, trajectory = _trajectory(model, data, theta0, start, ways)
    particles, log_weights = _particles(method, problem, state)
    found = LatentFit(
        theta=theta,
        trajectory=trajectory,
        particles=particles,
        log_weights=log_weights,
        method=method,
        model_name=model.name,
        seed=seed,
        seconds=time.perf_counter() - started,
        num_steps=_count(ways),
        completed=stopped is None,
    )
    if isinstance(stopped, EstimationError):
        stopped.fit = found
        raise stopped
    if stopped is not None:
        warnings.warn(f"stopped after {found.num_steps} of {num_steps} steps.", EvidenceWarning, stacklevel=3)
    return found


class Way(NamedTuple):
    """θ after each of some steps, and what they were worth."""

    theta: Any
    taken: StepTaken


def _problem(method, model, rest) -> Problem:
    example, data = rest
    return Problem(model, example, data, method.batch_size)


@compiled(static_argnames=("method", "model"))
def _init(method, model, rest, key, theta, positions):
    return method.init(_problem(method, model, rest), key, theta, positions)


@compiled(static_argnames=("method", "model"))
def _advance(method, model, rest, key, state, steps):
    """The state after some steps, and the way there."""
    problem = _problem(method, model, rest)

    def step(state, index):
        state, taken = method.update(problem, jax.random.fold_in(key, index), state)
        return state, Way(state.theta, taken)

    return jax.lax.scan(step, state, steps)


def _climb(
    method: Any, problem: Problem, key: Array, state: Any, num_steps: int, show: Callable[[list[Way]], None]
) -> tuple[Any, list[Way], BaseException | None]:
    """The last good state, the way there in blocks, and what ended it before all steps: Ctrl-C, an
    `EstimationError`, or nothing.
    """
    ways: list[Way] = []
    block = -(-num_steps // NUM_BLOCKS)
    try:
        for first in range(0, num_steps, block):
            steps = jnp.arange(first, min(first + block, num_steps))
            reached, way = _advance(method, problem.model, problem[1:3], key, state, steps)
            way = jax.tree.map(np.asarray, way)
            _check_finite(way, first, method)
            state = reached
            ways.append(way)
            show(ways)
            if method.tolerance is not None and _stands_still(ways, method.tolerance):
                break
    except (KeyboardInterrupt, EstimationError) as stopped:
        return state, ways, stopped
    return state, ways, None


def _start(method, model, theta, particles0, log_evidence0, data, key) -> Start:
    known = math.nan if log_evidence0 is None else float(log_evidence0)
    if particles0 is not None:
        return Start(*flat_particles("particles0", particles0), known)
    if model.sample_prior is None:
        raise ConfigurationError(
            "particles0 must be given, a pytree of arrays (particles, …): the model has no sample_prior that says what its latent "
            "variables look like."
        )
    if not method.needs_posterior_start:
        return from_prior(model, theta, data, method.num_particles, key)._replace(log_evidence=known)
    start = from_laplace(model, theta, data, method.num_particles, key)
    return start if log_evidence0 is None else start._replace(log_evidence=known)


def _check_mini_batches(method, model, data) -> None:
    if method.batch_size is None:
        return
    if model.log_prior is None or data is None:
        raise ConfigurationError(
            "batch_size needs data, and a model with log_prior, the terms of log_joint that do not depend on them."
        )
    counts = {leaf.shape[0] for leaf in jax.tree.leaves(data) if leaf.ndim}
    if len(counts) != 1:
        raise ConfigurationError(
            f"batch_size needs data with observations on the leading axis; lengths are {counts}."
        )


def _check_density(problem: Problem, theta: Any, start: Start) -> None:
    """Raise ModelError, with what was given and is needed, unless the log joint density is one
    number.
    """
    try:
        x = jax.eval_shape(ravel_pytree(problem.example)[1], start.positions[0])
        given = () if problem.data is None else (problem.data,)
        found = jax.eval_shape(problem.model.log_joint, theta, x, *given)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"log_joint cannot be computed at theta0 and one of the particles: {error}. Do their shapes fit the model?"
        ) from error
    if getattr(found, "shape", None) != ():
        raise ModelError(f"log_joint must return one number, of shape (); got {found}.")


def _check_finite(way: Way, first: int, method) -> None:
    finite = np.ones(len(way.taken.ess), bool)
    for leaf in jax.tree.leaves(way.theta):
        finite &= np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1)
    lost = np.isinf(way.taken.log_evidence)
    if lost.any():  # first, as θ is lost with the particles
        raise EstimationError(
            f"at step {first + int(lost.argmax()) + 1} the log joint density is not finite at any particle. Take a smaller "
            f"step_size (it is {method.step_size:g})."
        )
    if not finite.all():
        raise EstimationError(
            f"theta left the finite range at step {first + int(finite.argmin()) + 1}. Take a smaller step_size (it is "
            f"{method.step_size:g}), an optimizer with a smaller learning rate, or bounds."
        )


def _count(ways: list[Way]) -> int:
    return sum(len(way.taken.ess) for way in ways)


def _progress(ways: list[Way], log_evidence0: float, num_steps: int, seconds: float) -> Update:
    count = _count(ways)
    value = log_evidence0 + sum(float(np.sum(way.taken.log_evidence, dtype=np.float64)) for way in ways)
    is_known = math.isfinite(value)
    share = count / num_steps
    return Update(count if is_known else 0, num_steps, value, math.nan, count, seconds, share_done=share)


def _stands_still(ways: list[Way], tolerance: float) -> bool:
    if len(ways) < 2:
        return False
    before, now = (jax.tree.map(lambda leaf: leaf.mean(0), way.theta) for way in ways[-2:])
    moved = jax.tree.map(lambda a, b: np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0.0), before, now)
    return max(jax.tree.leaves(moved)) < tolerance


def _trajectory(model, data, theta0, start: Start, ways: list[Way]) -> tuple[Any, LatentTrajectory]:
    """The last θ and the way there, as the user calls them."""
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *ways)
    free = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), theta0, whole.theta)
    thetas = jax.vmap(lambda theta: model.constrain(theta, start.example, data)[0])(free)
    thetas = jax.tree.map(np.asarray, thetas)
    gain = np.concatenate([[0.0], np.cumsum(np.asarray(whole.taken.log_evidence, np.float64))])
    ess = np.concatenate([[1.0], np.asarray(whole.taken.ess, np.float64)])
    if np.isnan(gain[-1]):  # without weights
        gain[:] = ess[:] = np.nan
    theta = jax.tree.map(lambda leaf: leaf[-1], thetas)
    return theta, LatentTrajectory(thetas, start.log_evidence + gain, gain, ess)


def _particles(method, problem: Problem, state) -> tuple[Any, Float[ndarray, " particles"]]:
    """The particles of a state in their structure, as the user calls them, and their log weights."""
    positions, log_weights = method.particles(state)

    def one(position):
        x = ravel_pytree(problem.example)[1](position)
        return problem.model.constrain(state.theta, x, problem.data)[1]

    return jax.tree.map(np.asarray, jax.vmap(one)(positions)), np.asarray(log_weights, np.float64)
