"""The protocol of a Markov move, which custom kernels implement too.

A kernel is a small frozen data class. `move` is pure, and its caller compiles it: it takes a key,
the particles, the density to leave invariant and its scale, and returns the moved particles. A
kernel knows neither data nor model.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, check_hashable

AGREEMENT = 2.0  # factor by which the mean squared distance may differ from a Gaussian's


class Scale(NamedTuple):
    """`factor` is L, with L Lᵀ the covariance of the density; `num_observations` counts rows."""

    factor: Float[Array, "parameters parameters"]
    num_observations: float


def posterior_scale(
    positions: Float[np.ndarray, "particles parameters"],
    weights: Float[np.ndarray, " particles"],
    precision: Float[np.ndarray, "parameters parameters"] | None,
    num_observations: float,
) -> Scale:
    """Scale of a density from its weighted particles and, if known, the curvature at their mean.

    The inverse of `precision`, the negative Hessian of the log density, is a covariance without
    sampling error. That of M particles in d dimensions has whitened variances between
    (1 - √(d/M))² and (1 + √(d/M))², and particles moved by it stay too narrow where it is.
    The curvature is trusted if it is positive definite and the particles' mean squared distance
    under it is that of a Gaussian to within a factor of `AGREEMENT`. Both are factored in float64:
    softmax and other models with directions that only the prior informs have correlations within
    10⁻⁶ of one at 10⁶ rows.
    """
    deviations = positions - weights @ positions
    factor = _particle_factor(deviations, weights)
    if precision is not None and (root := cholesky(precision)) is not None:
        distance = weights @ np.sum((deviations @ root) ** 2, axis=1) / len(precision)
        if 1 / AGREEMENT < distance < AGREEMENT:
            factor = np.linalg.inv(root).T
    # A float, since an integer above 2³¹ cannot be put on the device.
    return Scale(jnp.asarray(factor.astype(np.float32)), float(num_observations))


def _particle_factor(deviations: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Cholesky factor of the weighted covariance; diagonal below four particles per parameter."""
    count, size = deviations.shape
    covariance = (deviations * weights[:, None]).T @ deviations
    spread = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float32).tiny))
    if count < 4 * size:
        return np.diag(spread)
    # The ridge matters only when particles coincide: 1e-9 is far below any true eigenvalue.
    correlation = covariance / np.outer(spread, spread) + 1e-9 * np.eye(size)
    return spread[:, None] * np.linalg.cholesky(correlation)


def cholesky(matrix: np.ndarray) -> np.ndarray | None:
    """The lower Cholesky factor; None if the matrix is not positive definite."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None


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
