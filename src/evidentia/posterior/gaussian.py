"""Second-order expansions of log-likelihood sums, and the Gaussians and Student t's of them.

Everything is in float64 on the host: at 10⁶ rows, a direction that only the prior informs has
precision one, others 10⁹.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from evidentia.kernels.kernel import cholesky

Number = Any  # a float64 NumPy array on the host, or a JAX array inside a compiled program


class Expansion(NamedTuple):
    """Value (nats), gradient and Hessian at a centre: a quadratic function of the position."""

    centre: Float[Number, " parameters"]
    value: Float[Number, ""]
    gradient: Float[Number, " parameters"]
    hessian: Float[Number, "parameters parameters"]

    def rise(self, position: Float[Number, "*particles parameters"]) -> Float[Number, " *particles"]:
        """The value minus that at the centre, which is large and would cost digits in float32."""
        step = position - self.centre
        return step @ self.gradient + 0.5 * ((step @ self.hessian) * step).sum(-1)

    def slope(
        self, position: Float[Number, "*particles parameters"]
    ) -> Float[Number, "*particles parameters"]:
        """The gradient at positions."""
        return self.gradient + (position - self.centre) @ self.hessian

    def about(self, centre: Float[Number, " parameters"]) -> "Expansion":
        """The same quadratic about another centre."""
        return Expansion(centre, self.value + self.rise(centre), self.slope(centre), self.hessian)

    def plus(self, other: "Expansion", weight: Float[Number, ""] | float = 1.0) -> "Expansion":
        """`self + weight * other`, for two expansions about the same centre."""
        sums = (a + weight * b for a, b in zip(self[1:], other[1:], strict=True))
        return Expansion(self.centre, *sums)

    def narrowed(self) -> "Expansion":
        """The same expansion in float32, for the device."""
        return Expansion(*(np.asarray(part, np.float32) for part in self))


Draws = Float[np.ndarray, "draws parameters"]


class LocalGaussian(NamedTuple):
    """A Gaussian that is like the posterior about one of its modes.

    Attributes:
        centre: the mode, unless moved to the mean (`means`) or learnt (`adapt`).
        precision: at a mode the negative Hessian of the log-posterior.
        log_mass: log of the integral of likelihood times prior in the approximation at the mode,
            in nats; zero for a Gaussian that was fitted to draws.
        expansion: that of the log-likelihood of all rows about the mode, if known.
    """

    centre: Float[np.ndarray, " parameters"]
    precision: Float[np.ndarray, "parameters parameters"]
    log_mass: float
    expansion: Expansion | None = None

    def draw(self, generator: np.random.Generator, count: int) -> Draws:
        """Independent draws from the Gaussian."""
        return self.centre + _steps(generator, self, count)

    def distances(self, positions: Draws) -> Float[np.ndarray, " draws"]:
        """Distances of positions from the centre, in standard deviations."""
        steps = positions - self.centre
        return np.sqrt(np.einsum("pi,ij,pj->p", steps, self.precision, steps))


def local_gaussian(likelihood: Expansion, prior: Expansion) -> LocalGaussian | None:
    """The Gaussian of a posterior, from expansions about its mode; None if it is not definite."""
    precision = -(likelihood.hessian + prior.hessian)
    if not is_definite(precision):
        return None
    log_determinant = np.linalg.slogdet(precision)[1]
    log_posterior = float(likelihood.value + prior.value)
    log_mass = log_posterior + 0.5 * (len(precision) * math.log(2 * math.pi) - log_determinant)
    return LocalGaussian(likelihood.centre, precision, float(log_mass), likelihood)


def degrees_of_freedom(num_parameters: int) -> int:
    """Degrees of freedom of the Student t, growing with the number of parameters.

    Heavy tails in many dimensions would put most draws too far out. On a Gaussian posterior, the
    draws are worth 0.99 of their number with 1 parameter and 0.95 with 44.
    """
    return 10 + 2 * num_parameters


def draw_student_t(generator: np.random.Generator, gaussian: LocalGaussian, count: int) -> Draws:
    """Draws from the multivariate Student t about the centre, scaled by the inverse precision.

    Its tails are heavier than a Gaussian's, so importance weights stay bounded on heavy-tailed
    posteriors.
    """
    freedom = degrees_of_freedom(len(gaussian.centre))
    stretch = np.sqrt(generator.chisquare(freedom, count) / freedom)
    return gaussian.centre + _steps(generator, gaussian, count) / stretch[:, None]


def log_student_t(gaussian: LocalGaussian, positions: Draws) -> Float[np.ndarray, " draws"]:
    """Log density at positions of the distribution of `draw_student_t`."""
    size = len(gaussian.centre)
    freedom, root = degrees_of_freedom(size), np.linalg.cholesky(gaussian.precision)
    steps = positions @ root  # in one array, as for a second one memory takes longer than the product
    steps -= gaussian.centre @ root
    distance = np.einsum("ij,ij->i", steps, steps)  # several times as fast as a sum of squares
    constant = (
        math.lgamma((freedom + size) / 2) - math.lgamma(freedom / 2) - 0.5 * size * math.log(freedom * np.pi)
    )
    return constant + np.log(np.diag(root)).sum() - 0.5 * (freedom + size) * np.log1p(distance / freedom)


def is_definite(matrix: Float[np.ndarray, "parameters parameters"]) -> bool:
    """Whether a matrix is finite and positive definite, by more than rounding, in any units.

    With u half of `eps`, a matrix of n rows has a Cholesky factor, in these units and in others,
    if the smallest eigenvalue of its correlations is above n (n + 1) u (Higham, 2002, Accuracy and
    Stability of Numerical Algorithms, theorem 10.7). Twice that is taken off, as this one rounds.
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not np.isfinite(matrix).all() or not scale.all():
        return False
    size = len(matrix)
    rounding = size * (size + 1) * np.finfo(float).eps
    return cholesky(matrix / np.outer(scale, scale) - rounding * np.eye(size)) is not None


def _steps(generator: np.random.Generator, gaussian: LocalGaussian, count: int) -> Draws:
    normal = generator.standard_normal((count, len(gaussian.centre)))
    # precision = R Rᵀ, so R⁻ᵀ z has the inverse precision as its covariance.
    return np.linalg.solve(np.linalg.cholesky(gaussian.precision).T, normal.T).T
