"""The protocol of a Markov move, which a kernel of your own implements too.

A kernel is a small frozen data class. `move` is pure, and is compiled by its caller: it takes a
key, the particles, the density to leave invariant and its scale, and returns the particles after
the move. A kernel knows no data and no model.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError
from evidentia.kernels.scale import Scale

Positions = Float[Array, "particles parameters"]
LogDensity = Callable[[Float[Array, " parameters"]], Float[Array, ""]]
Gradient = Callable[[Array, Positions], Positions]


class Density(NamedTuple):
    """The density that a move leaves invariant.

    Attributes:
        log_density: the exact log density of one particle, in nats up to a constant, which
            `jax.grad` can differentiate.
        gradient: `(key, positions) -> gradients`, an unbiased estimate of the gradient of the log
            density at every particle.
    """

    log_density: LogDensity
    gradient: Gradient


class Moved(NamedTuple):
    """Particles after a move, and the increments of their log weights, in nats: zero if the move
    leaves the density as it is.
    """

    positions: Positions
    log_weights: Float[Array, " particles"] | float = 0.0


class Kernel(Protocol):
    """A Markov move.

    Attributes:
        needs: which part of the `Density` it uses, "log_density" or "gradient". A method chooses
            its estimator of the gradient accordingly, and passes exact densities only to kernels
            that need them.
        is_scaled: whether its steps are measured in units of `scale.factor`. Particles of a
            mixture are then brought into the same order of components before the move, so that
            their spread means something.
        is_reweighting: whether it returns increments of the log weights. The scale is then taken
            from the curvature of the density, since the covariance of the moving particles would
            bias their weights.

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
        ...             self.num_steps, key, positions, density.log_density, scale, blackjax.barker_proposal.init,
        ...             lambda key, state, log_density: step(key, state, log_density, self.step_size)))
    """

    needs: ClassVar[Literal["log_density", "gradient"]] = "log_density"
    is_scaled: ClassVar[bool] = True
    is_reweighting: ClassVar[bool] = False

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """The particles after the move."""
        ...


class GradientKernel(Kernel, Protocol):
    """A move along estimates of the gradient, without Metropolis' correction."""

    needs: ClassVar[Literal["log_density", "gradient"]] = "gradient"

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """The variance that the gradient's noise adds in a step, as a share of the variance that
        the kernel adds itself.

        `differences` are those of two estimates of the gradient at the same positions.
        """
        ...


def noise_variance(differences: Positions) -> Float[Array, ""]:
    """Variance of the noise in one coordinate of a gradient, from the differences of two estimates
    at the same positions.
    """
    return 0.5 * jnp.mean(differences**2)


KINDS = {
    "log_density": "a move under an exact log density, such as kernels.HMC()",
    "gradient": "a move along gradient estimates, such as kernels.BAOAB()",
}


def check_kernel(field: str, kernel: Any, *needs: str) -> None:
    """Raise ConfigurationError unless `kernel` is a move that needs one of `needs`."""
    wanted = " or ".join(KINDS[need] for need in needs)
    given = getattr(kernel, "needs", None)
    if isinstance(kernel, type) or not callable(getattr(kernel, "move", None)) or given not in needs:
        which = f", which needs {'a gradient' if given == 'gradient' else 'a log density'}" if given else ""
        raise ConfigurationError(f"{field} must be {wanted}; got {kernel!r}{which}.")
    try:
        hash(kernel)
    except TypeError:
        raise ConfigurationError(
            f"{field} must be hashable, such as a frozen data class; got {kernel!r}."
        ) from None
