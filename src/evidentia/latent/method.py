"""What all methods of maximum marginal likelihood share: fields, the step of θ, and `fit`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from evidentia.data.digits import check_digits
from evidentia.display.progress import Update, reporter
from evidentia.errors import (
    ConfigurationError,
    DiagnosticWarning,
    EstimationError,
    ModelError,
    as_number,
    check_count,
    check_positive,
    check_seed,
    warn,
)
from evidentia.evidence.method import Diagnosis
from evidentia.evidence.weighted_langevin import check_start, flat_particles
from evidentia.latent import diagnostics
from evidentia.latent.climb import Block, Climbed, climb, initial_state, particles, progress_of, trajectory
from evidentia.latent.families import Gain
from evidentia.latent.model import LatentModel
from evidentia.latent.problem import Positions, Problem, check_density, check_mini_batches
from evidentia.latent.result import LatentFit, LatentTrajectory
from evidentia.latent.start import Start, from_laplace, from_prior
from evidentia.system.sharing import check_not_forked


@dataclass(frozen=True, eq=False, kw_only=True)
class ParticleMethod:
    """Particles of the latent variables given θ; θ follows the mean of their gradients.

    Attributes:
        num_particles: particles N.
        step_size: of the particles' Langevin steps, h.
        optimizer: any optax transformation for θ; `optax.sgd(step_size)` if not given.
        bounds: (lower, upper), pytrees like θ or numbers, to which θ is clipped after each step,
            on its unconstrained scale: those of a positive parameter of a NumPyro function are
            bounds of its logarithm.
        normalise_gradient: divide the gradient of θ by its norm, over all of θ.
        tolerance: stop early if the mean of θ over the last twentieth of the steps differs from
            that over the twentieth before by less than this share of 1 + |θ|, in each number. None
            to make all steps.
    """

    num_particles: int = 100
    step_size: float = 1e-2
    optimizer: Any = None
    bounds: tuple[Any, Any] | None = None
    normalise_gradient: bool = False
    tolerance: float | None = None

    # Overridden by some methods.
    has_weights = False
    batch_size = None

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 1)
        check_positive("step_size", self.step_size)
        if not (hasattr(self.transformation, "init") and hasattr(self.transformation, "update")):
            raise ConfigurationError(
                f"optimizer must be an optax transformation such as optax.adam(1e-2); got {self.optimizer!r}."
            )
        if self.bounds is not None and not (isinstance(self.bounds, tuple) and len(self.bounds) == 2):
            raise ConfigurationError(f"bounds must be a pair (lower, upper); got {self.bounds!r}.")
        if self.tolerance is not None and not as_number(self.tolerance) > 0:
            raise ConfigurationError(f"tolerance must be positive, or None; got {self.tolerance}.")
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size, 1)

    @property
    def transformation(self) -> Any:
        """The optimizer of θ: the one given, or gradient steps."""
        return self.optimizer or optax.sgd(self.step_size)

    def fit(
        self,
        latent_model: LatentModel,
        theta0: Any,
        *,
        particles0: Any = None,
        log_evidence0: float | None = None,
        data: Any = None,
        num_steps: int,
        seed: int = 0,
        progress: bool | Callable[[Update], None] = False,
    ) -> LatentFit:
        """Choose θ by maximum marginal likelihood.

        Args:
            latent_model: the joint log density.
            theta0: the initial θ.
            particles0: the initial particles, a pytree of arrays (particles, …), whose number
                overrides `num_particles`; `SOUL` uses the first. By default draws from the
                model's prior, or, for a method with weights, from the posterior given θ₀.
            log_evidence0: log Z(θ₀) in nats, if known; only a method with weights can follow it
                to other θ.
            data: passed to the model's functions: a pytree of arrays with observations on the
                leading axis.
            num_steps: steps of θ.
            seed: the same seed gives the same numbers on the same machine.
            progress: True for a bar on standard error, or a function called with an `Update`
                after every twentieth of the steps.

        Returns:
            θ, its path, the particles and their weights. After Ctrl-C the result so far, with
            `completed=False`.

        Raises:
            ModelError: `latent_model` is not a `LatentModel`, or does not return a scalar.
            ConfigurationError: no initial particles, arrays that do not fit, mini-batches without
                `log_prior`.
            EstimationError: the log joint density is not finite at the start, or θ or all
                particles left the finite range; its `fit` holds the result of the steps before.
        """
        started = time.perf_counter()
        check_count("num_steps", num_steps, 1)
        check_not_forked()
        check_seed(seed)
        key_start, key_init, key_steps, key_check = jax.random.split(jax.random.key(seed), 4)
        problem, theta0, start = self._prepared(latent_model, theta0, particles0, data, key_start)
        if log_evidence0 is not None:
            start = start._replace(log_evidence=float(log_evidence0), variance=0.0)
        state = initial_state(self, problem, key_init, theta0, start.positions)
        check_start(state.at, "log_joint")
        with reporter(progress, latent_model.name) as report:

            def show(blocks: list[Block]) -> None:
                seconds = time.perf_counter() - started
                report(progress_of(blocks, start, num_steps, seconds))

            climbed = climb(self, problem, key_steps, state, num_steps, show)
        if climbed.stopped is not None and not climbed.blocks:
            raise climbed.stopped
        path = trajectory(problem, theta0, start, climbed.blocks)
        diagnosis = self._diagnosis(problem, path, theta0, start, climbed, key_check)
        found = self._result(problem, path, climbed, diagnosis, seed, started)
        if isinstance(climbed.stopped, EstimationError):
            climbed.stopped.fit = found
            raise climbed.stopped
        if climbed.stopped is not None:
            warn([f"stopped after {found.num_steps} of {num_steps} steps."])
        warn([f"{latent_model.name}: {sign}" for sign in found.signs.values()], DiagnosticWarning)
        return found

    def _prepared(
        self, model: LatentModel, theta0: Any, particles0: Any, data: Any, key: Array
    ) -> tuple[Problem, Any, Start]:
        """The problem, the unconstrained θ₀ in its box, and the initial particles, all checked."""
        if not isinstance(model, LatentModel):
            given = type(model).__name__
            raise ModelError(f"latent_model must be an evidentia.latent.LatentModel; got {given}.")
        for place, leaf in jax.tree.leaves_with_path(data):
            if np.ndim(leaf) and jnp.asarray(leaf).dtype.itemsize == 4:
                check_digits(np.asarray(leaf), f"data{jax.tree_util.keystr(place)}")
        data = jax.tree.map(jnp.asarray, data)
        check_mini_batches(self.batch_size, model, data)
        theta0, particles0 = model.unconstrain(theta0, particles0, data)
        theta0 = self.inside(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), theta0))
        start = self._start(model, theta0, particles0, data, key)
        problem = Problem(model, start.example, data, self.batch_size)
        check_density(problem, theta0, start.positions[0])
        return problem, theta0, start

    def _result(
        self,
        problem: Problem,
        path: LatentTrajectory,
        climbed: Climbed,
        diagnosis: Diagnosis,
        seed: int,
        started: float,
    ) -> LatentFit:
        """The steps so far as a result."""
        positions, log_weights = particles(self, problem, climbed.state)
        return LatentFit(
            theta=jax.tree.map(lambda leaf: leaf[-1], path.theta),
            trajectory=path,
            particles=positions,
            log_weights=log_weights,
            method=self,
            model_name=problem.model.name,
            seed=seed,
            seconds=time.perf_counter() - started,
            num_steps=len(path) - 1,
            completed=climbed.stopped is None,
            diagnostics=diagnosis.measured,
            signs=diagnosis.signs,
        )

    def _diagnosis(
        self,
        problem: Problem,
        path: LatentTrajectory,
        theta0: Any,
        start: Start,
        climbed: Climbed,
        key: Array,
    ) -> Diagnosis:
        """What the checks found; a run that was stopped has no second estimate."""
        found = [diagnostics.of_steps(climbed.step_shares, self.has_weights, self.variance_of_short_steps)]
        if self.has_weights:
            positions, _ = self.particles(climbed.state)
            found.append(diagnostics.of_weights(path, start, len(positions)))
            if climbed.stopped is None:
                thetas, near = (theta0, climbed.state.theta), (start.positions, positions)
                found.append(diagnostics.of_second_estimate(problem, thetas, near, path, key))
        measured = {name: value for one in found for name, value in one.measured.items()}
        return Diagnosis(measured, {name: sign for one in found for name, sign in one.signs.items()})

    def _start(self, model: LatentModel, theta: Any, particles0: Any, data: Any, key: Array) -> Start:
        """The particles given, or draws from the prior or the posterior given θ₀."""
        if particles0 is not None:
            return Start(*flat_particles("particles0", particles0))
        if model.sample_prior is None:
            raise ConfigurationError(
                "particles0 must be given, a pytree of arrays (particles, …): the model has no sample_prior that says what its latent "
                "variables look like."
            )
        draw = from_laplace if self.has_weights else from_prior
        return draw(model, theta, data, self.num_particles, key)

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> Any:
        """The state before the first step; pure."""
        raise NotImplementedError

    def update(self, problem: Problem, key: Array, state: Any) -> tuple[Any, Gain]:
        """The state after a step, and its gain in log evidence, NaN without weights; pure."""
        raise NotImplementedError

    @property
    def variance_of_short_steps(self) -> float:
        """The variance of the particles over that of the posterior, as steps get short."""
        return 1.0

    def stable_curvature(self, state: Any) -> float:
        """The largest curvature of log_joint in x at which the steps do not diverge, 2 / h.

        On a Gaussian with curvature L, a step multiplies the distance from the mean by 1 - h L.
        """
        return 2 / self.step_size

    def particles(self, state: Any) -> tuple[Positions, Float[Array, " particles"]]:
        """Flat particles of a state and their normalised log weights."""
        positions = state.at.position
        return positions, jnp.full(positions.shape[0], -np.log(positions.shape[0]))

    def ascend(self, theta: Any, optimizer_state: Any, gradient: Any) -> tuple[Any, Any]:
        """θ and the optimiser's state after a step along the gradient of log Z, inside the box."""
        if self.normalise_gradient:
            norm = jnp.linalg.norm(ravel_pytree(gradient)[0])
            gradient = jax.tree.map(
                lambda leaf: leaf / jnp.maximum(norm, jnp.finfo(leaf.dtype).tiny), gradient
            )
        downhill = jax.tree.map(jnp.negative, gradient)  # optax descends
        updates, optimizer_state = self.transformation.update(downhill, optimizer_state, theta)
        return self.inside(optax.apply_updates(theta, updates)), optimizer_state

    def inside(self, theta: Any) -> Any:
        """θ in its box."""
        if self.bounds is None:
            return theta
        lower, upper = (_like(theta, bound) for bound in self.bounds)
        return jax.tree.map(jnp.clip, theta, lower, upper)


def _like(theta: Any, bound: Any) -> Any:
    """A bound of each number of θ. Raises ConfigurationError if it has another structure."""
    if isinstance(bound, int | float | np.generic | np.ndarray | jax.Array) and np.ndim(bound) == 0:
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, float(bound)), theta)
    if jax.tree.structure(bound) != jax.tree.structure(theta):
        raise ConfigurationError(f"bounds must hold numbers, or pytrees like theta0; got {bound!r}.")
    return bound
