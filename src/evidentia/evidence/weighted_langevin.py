"""Weighted Langevin steps along any path of potentials, in one compiled program.

Every step adds ΔA to the log weight A of each particle x (`kernels.langevin`). With normalized
weights W before the step,

    log Z_{k+1} / Z_k = log Σ Wᵢ exp(ΔAᵢ).

If the effective sample size falls below a threshold, the particles are resampled and their weights
are equal again.

Source: Cuin, Carbone, Akyildiz (2025), Eq. 14 and, with resampling, Eq. 15.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc import resampling
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, EstimationError
from evidentia.kernels.langevin import LangevinState, langevin_state, langevin_step, log_weight_increment
from evidentia.system.compilation import compiled


class PathSample(NamedTuple):
    """Particles at the end of a path, and the log evidence along it.

    Attributes:
        particles: (particles, …), in the structure of the initial particles.
        log_weights: normalized.
        log_evidence: log Z_k / Z_0 in nats, float64, (steps + 1,).
        ess: effective sample size as a fraction of the particles, before resampling, (steps + 1,).
    """

    particles: Any
    log_weights: Float[np.ndarray, " particles"]
    log_evidence: Float[np.ndarray, " steps"]
    ess: Float[np.ndarray, " steps"]


class StepTaken(NamedTuple):
    """log Z_{k+1} / Z_k in nats, and the ESS after the step as a fraction of the particles."""

    log_evidence: Float[Array, ""]
    ess: Float[Array, ""]


def reweigh(
    key: Array,
    gained: Float[Array, " particles"],
    after: LangevinState,
    log_weights: Float[Array, " particles"],
    ess_threshold: float,
    beside: Any = None,
) -> tuple[LangevinState, Any, Float[Array, " particles"], StepTaken]:
    """Add to the log weights what a step gained, and resample below the ESS threshold.

    The log weights are normalized. `beside` is a pytree of other values per particle, (particles,
    …), which are resampled too.
    """
    gained = jnp.where(jnp.isfinite(gained), gained, -jnp.inf)  # a lost particle
    log_weights = log_weights + gained
    increment = jax.nn.logsumexp(log_weights)
    log_weights = log_weights - increment
    ess = 1 / (len(gained) * jnp.sum(jnp.exp(2 * log_weights)))

    def resampled():
        parents = resampling.systematic(key, jnp.exp(log_weights), len(gained))
        return *jax.tree.map(lambda leaf: leaf[parents], (after, beside)), even_log_weights(after)

    kept = jax.lax.cond(ess < ess_threshold, resampled, lambda: (after, beside, log_weights))
    return *kept, StepTaken(increment, ess)


def even_log_weights(at: LangevinState) -> Float[Array, " particles"]:
    """Normalized log weights of equally weighted particles."""
    return jnp.full_like(at.log_density, -jnp.log(len(at.log_density)))


def sample_path(
    potential: Callable[[Any, Any], Any],
    particles: Any,
    num_steps: int,
    step_size: float,
    ess_threshold: float,
    seed: int,
) -> PathSample:
    """Particles moved along a path of potentials, with weights; see `Jarzynski.sample`."""
    positions, example = flat_particles("particles", particles)
    arguments = jax.random.key(seed), positions, example, step_size, ess_threshold
    start, (end, log_weights), taken = _follow(potential, num_steps, *arguments)
    check_start(start, "potential")
    log_evidence = np.concatenate([[0.0], np.cumsum(np.asarray(taken.log_evidence, np.float64))])
    check_alive(log_evidence)
    ess = np.concatenate([[1.0], np.asarray(taken.ess, np.float64)])
    unravel = ravel_pytree(example)[1]
    return PathSample(jax.vmap(unravel)(end.position), np.asarray(log_weights, np.float64), log_evidence, ess)


@compiled(static_argnames=("potential", "num_steps"))
def _follow(potential, num_steps, key, positions, example, step_size, ess_threshold):
    """Return the initial particles, the final ones with their log weights, and the steps."""
    unravel = ravel_pytree(example)[1]

    def log_density(step, position):
        return -potential(step, unravel(position))

    def look(step, positions):
        return jax.vmap(lambda position: langevin_state(partial(log_density, step), position))(positions)

    def step(carry, index):
        at, log_weights = carry
        key_step, key_resample = jax.random.split(jax.random.fold_in(key, index))
        after = look(index + 1, langevin_step(key_step, at, step_size))
        gained = log_weight_increment(at, after, step_size)
        at, _, log_weights, taken = reweigh(key_resample, gained, after, log_weights, ess_threshold)
        return (at, log_weights), taken

    start = look(0, positions)
    return start, *jax.lax.scan(step, (start, even_log_weights(start)), jnp.arange(num_steps))


def flat_particles(name: str, particles: Any) -> tuple[Float[Array, "particles parameters"], Any]:
    """Particles as one matrix, and the first one as an example of their structure.

    Raises ConfigurationError unless all arrays have the same number of particles.
    """
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(particles)]
    counts = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if len(counts) != 1 or None in counts or counts == {0}:
        shapes = ", ".join(str(leaf.shape) for leaf in leaves) or "nothing"
        raise ConfigurationError(
            f"{name} must be arrays (particles, …) with the same number of particles; got {shapes}."
        )
    particles = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf, jnp.float32)), particles)
    example = jax.tree.map(lambda leaf: leaf[0], particles)
    return jax.vmap(lambda one: ravel_pytree(one)[0])(particles), example


def check_start(at: LangevinState, function: str) -> None:
    """Raise EstimationError unless what a function gave is finite at all particles."""
    bad = ~np.isfinite(np.asarray(at.log_density)) | ~np.isfinite(np.asarray(at.gradient)).all(axis=-1)
    if bad.any():
        raise EstimationError(
            f"{function} or its gradient is not finite at {bad.sum()} of {len(bad)} particles at the start (the first is "
            f"particle {bad.argmax()}). Start from particles of positive density, or check {function}."
        )


def check_alive(log_evidence: np.ndarray) -> None:
    """Raise EstimationError if all particles were lost along the path."""
    bad = ~np.isfinite(log_evidence)
    if bad.any():
        raise EstimationError(
            f"after step {bad.argmax()} the potential is not finite at any particle: the steps are too long. Use a smaller "
            "step_size."
        )
