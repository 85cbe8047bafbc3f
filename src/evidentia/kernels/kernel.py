"""The protocol of a Markov move, which custom kernels implement too.

A kernel is a small frozen data class. `move` is pure, and its caller compiles it: it takes a key,
the particles, the density to leave invariant and its scale, and returns the moved particles. A
kernel knows neither data nor model.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, check_hashable
from evidentia.kernels.scale import Scale

Positions = Float[Array, "particles parameters"]
LogDensity = Callable[[Float[Array, " parameters"]], Float[Array, ""]]
Gradient = Callable[[Array, Positions], Positions]


class Density(NamedTuple):
    """The density that a move leaves invariant.

    Attributes:
        log_density: the exact log density of one particle, in nats up to a constant,
            differentiable by `jax.grad`.
        gradient: `(key, positions) -> gradients`, an unbiased estimate of the gradient of the log
            density at every particle.
    """

    log_density: LogDensity
    gradient: Gradient


class Moved(NamedTuple):
    """Particles after a move, and log weight increments in nats (0 for an invariant density)."""

    positions: Positions
    log_weights: Float[Array, " particles"] | float = 0.0


@runtime_checkable
class Kernel(Protocol):
    """A Markov move.

    Attributes:
        needs: which part of the `Density` it uses, "log_density" or "gradient". A method chooses
            its gradient estimator accordingly, and passes exact densities only to kernels that
            need them.
        is_scaled: whether its steps are in units of `scale.factor`. If so, mixture particles are
            first relabelled to a common order of components, so that their covariance is
            meaningful.
        is_reweighting: whether it returns log weight increments. The scale then comes from the
            curvature of the density, since the covariance of the moving particles would bias their
            weights.
        differentiates: whether it takes derivatives of the likelihood, which a function outside
            JAX lacks.

    Example:
        >>> import blackjax
        >>> from dataclasses import dataclass
        >>> from evidentia.kernels import Kernel, Moved, whitened
        >>> @dataclass(frozen=True)
        ... class Barker(Kernel):
        ...     step_size: float = 1.0
        ...     num_steps: int = 20
        ...     def move(self, key, positions, density, scale):
        ...         step = blackjax.barker_proposal.build_kernel()
        ...         return Moved(whitened(
        ...             self.num_steps, key, positions, density.log_density, scale,
        ...             blackjax.barker_proposal.init,
        ...             lambda key, state, log_density: step(
        ...                 key, state, log_density, self.step_size)))
    """

    needs: ClassVar[Literal["log_density", "gradient"]] = "log_density"
    is_scaled: ClassVar[bool] = True
    is_reweighting: ClassVar[bool] = False
    differentiates: ClassVar[bool] = False

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """The particles after the move."""
        ...


class GradientKernel(Kernel, Protocol):
    """A move along gradient estimates, without a Metropolis correction."""

    needs: ClassVar[Literal["log_density", "gradient"]] = "gradient"
    differentiates: ClassVar[bool] = True

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """The variance that gradient noise adds in a step, relative to the injected noise.

        `differences` are those between two gradient estimates at the same positions.
        """
        ...


def noise_variance(differences: Positions) -> Float[Array, ""]:
    """Gradient noise variance per coordinate, from differences of two estimates per position."""
    return 0.5 * jnp.mean(differences**2)


KINDS = {
    "log_density": "a move that uses the exact log density, such as kernels.HMC()",
    "gradient": "a move along gradient estimates, such as kernels.BAOAB()",
}


def check_kernel(field: str, kernel: Any, *needs: str) -> None:
    """Raise ConfigurationError unless `kernel` is a move that needs one of `needs`."""
    wanted = " or ".join(KINDS[need] for need in needs)
    given = getattr(kernel, "needs", None)
    if isinstance(kernel, type) or not callable(getattr(kernel, "move", None)) or given not in needs:
        which = f", which needs {'a gradient' if given == 'gradient' else 'a log density'}" if given else ""
        raise ConfigurationError(f"{field} must be {wanted}; got {kernel!r}{which}.")
    check_hashable(field, kernel)
