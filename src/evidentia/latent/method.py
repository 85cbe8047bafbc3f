"""What the methods that climb on the marginal likelihood share: their fields, the step of θ, and
`fit`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from evidentia.display.progress import Update
from evidentia.errors import ConfigurationError, check_count
from evidentia.evidence.path.langevin import StepTaken
from evidentia.latent.fit import LatentFit, fit
from evidentia.latent.model import LatentModel
from evidentia.latent.problem import Positions, Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class ParticleMethod:
    """Particles of the latent variables given θ, and steps of θ along the mean of their gradients.

    Attributes:
        num_particles: particles N.
        step_size: of the particles' Langevin steps, h.
        optimizer: any optax transformation for θ; `optax.sgd(step_size)` if not given.
        bounds: (lower, upper), pytrees like θ or numbers: θ is put back into this box after each
            step.
        normalise_gradient: divide the gradient of θ by its norm, over all of θ.
        tolerance: stop early where the mean of θ over a twentieth of the steps differs from that
            over the twentieth before by less than this in each number, as a share of 1 + |θ|. None
            for all steps.
    """

    num_particles: int = 100
    step_size: float = 1e-2
    optimizer: Any = None
    bounds: tuple[Any, Any] | None = None
    normalise_gradient: bool = False
    tolerance: float | None = None

    # What a method may have that not all have.
    needs_posterior_start = False
    batch_size = None

    def __post_init__(self):
        check_count("num_particles", self.num_particles, 1)
        if not self.step_size > 0:
            raise ConfigurationError(f"step_size must be positive; got {self.step_size}.")
        if self.optimizer is None:
            object.__setattr__(self, "optimizer", optax.sgd(self.step_size))
        if not (hasattr(self.optimizer, "init") and hasattr(self.optimizer, "update")):
            raise ConfigurationError(
                f"optimizer must be an optax transformation such as optax.adam(1e-2); got {self.optimizer!r}."
            )
        if self.bounds is not None and not (isinstance(self.bounds, tuple) and len(self.bounds) == 2):
            raise ConfigurationError(f"bounds must be a pair (lower, upper); got {self.bounds!r}.")
        if self.tolerance is not None and not self.tolerance > 0:
            raise ConfigurationError(f"tolerance must be positive, or None; got {self.tolerance}.")
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size, 1)

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
            theta0: where θ begins.
            particles0: where the particles begin, a pytree of arrays (particles, …); their number
                counts, not `num_particles`. If not given, draws of the model's prior, and for a
                method with weights of the posterior given θ₀.
            log_evidence0: log Z(θ₀) in nats, where it is known; only a method with weights knows
                it at other θ too.
            data: what the model's functions are given, a pytree of arrays; observations stand on
                the leading axis.
            num_steps: steps of θ.
            seed: the same seed gives the same numbers on the same machine.
            progress: True for a bar on standard error, or a function that is called with an
                `Update` now and then.

        Returns:
            θ, its way, the particles and their weights. After Ctrl-C what there is by then, with
            `completed=False`.

        Raises:
            ModelError: `latent_model` is none, or does not give one number.
            ConfigurationError: no particles to begin with, arrays that do not fit, mini-batches
                without `log_prior`.
            EstimationError: the log joint density is not finite at the start, or θ or all
                particles left the finite range; then its `fit` is the result of the steps before.
        """
        return fit(
            self,
            latent_model,
            theta0,
            particles0=particles0,
            log_evidence0=log_evidence0,
            data=data,
            num_steps=num_steps,
            seed=seed,
            progress=progress,
        )

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> Any:
        """The state before the first step; pure."""
        raise NotImplementedError

    def update(self, problem: Problem, key: Array, state: Any) -> tuple[Any, StepTaken]:
        """The state after a step, and what the step was worth, NaN where weights are not known;
        pure.
        """
        raise NotImplementedError

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
        updates, optimizer_state = self.optimizer.update(downhill, optimizer_state, theta)
        return self.inside(optax.apply_updates(theta, updates)), optimizer_state

    def inside(self, theta: Any) -> Any:
        """θ in its box."""
        if self.bounds is None:
            return theta
        lower, upper = (_like(theta, bound) for bound in self.bounds)
        return jax.tree.map(jnp.clip, theta, lower, upper)


def unknown() -> StepTaken:
    """Of a step whose weights nobody knows."""
    return StepTaken(jnp.asarray(jnp.nan), jnp.asarray(jnp.nan))


def _like(theta: Any, bound: Any) -> Any:
    is_number = isinstance(bound, int | float)
    return jax.tree.map(lambda leaf: jnp.full_like(leaf, bound), theta) if is_number else bound
