"""A density fitted to posterior draws, and the posterior warped to be like it.

A multivariate Student t, q, has the mean μ and the covariance of draws, so that in the coordinates
z = L⁻¹ (θ - μ), with L Lᵀ the covariance, both have the same location and scale. The posterior is
made symmetric about μ, as q is:

    f(θ) = ½ [f₀(θ) + f₀(2μ - θ)],       ∫ f = ∫ f₀ = Z.

A draw of f₀ or its mirror image is a draw of f, and skewness is gone.

A posterior that is the same in every order of its components, or with other signs, has a copy of
each mode for each (`symmetry`), and q is about one of them. Then

    f₀(θ) = p(D | θ) p(θ) q(θ) / q̄(θ),       q̄ the average of q over the copies of θ,

has the same integral and lies about that copy. A draw of the posterior becomes one of f₀ by taking
one of its copies, with a probability in proportion to q there.

Source: Meng and Schilling (2002), Journal of Computational and Graphical Statistics 11, 552
(Warp-III); Gronau, Wagenmakers, Heck, Matzke (2019), Psychometrika 84, 261.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.errors import EstimationError
from evidentia.kernels.kernel import cholesky
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import FULL_SUM, at_copies, is_summed, mean_over_copies
from evidentia.posterior.gaussian import LocalGaussian, draw_student_t, is_definite, log_student_t
from evidentia.posterior.symmetry import fold, log_num_copies

Positions = Float[np.ndarray, "draws parameters"]
Chains = Float[np.ndarray, "chains draws parameters"]
LogDensity = Callable[[Positions], Float[np.ndarray, " draws"]]


class Target(NamedTuple):
    """An unnormalised density f₀ of real numbers, in nats.

    Attributes:
        log_density: at positions; -inf where it is zero.
        symmetric: the model if its posterior has copies, else None.
        dtype: of the positions at which it is computed: both densities must see the same.
    """

    log_density: LogDensity
    symmetric: BoundModel | None = None
    dtype: type = np.float64

    def folded(self, chains: Chains) -> Chains:
        """The draws, each as the copy that is nearest to the others."""
        if self.symmetric is None:
            return chains
        flat = chains.reshape(-1, chains.shape[-1]).astype(np.float32)
        found, _ = fold(self.symmetric, flat, np.full(len(flat), 1 / len(flat)))  # pyright: ignore[reportArgumentType]
        return np.asarray(found, np.float64).reshape(chains.shape)


class Fit(NamedTuple):
    """The density q fitted to draws."""

    gaussian: LocalGaussian

    def draw(self, generator: np.random.Generator, count: int) -> Positions:
        """Independent draws."""
        return draw_student_t(generator, self.gaussian, count)

    def log_density(self, positions: Positions) -> Float[np.ndarray, " draws"]:
        """Log density at positions."""
        return log_student_t(self.gaussian, positions)

    def near(self, target: Target, positions: Positions, generator: np.random.Generator) -> Positions:
        """A copy of each draw of the posterior, in proportion to q there: a draw of f₀.

        Raises EstimationError if the copies are too many to be listed.
        """
        model = target.symmetric
        if model is None or not model.symmetry:
            return positions
        if not is_summed(model):
            raise EstimationError(
                f"bridge sampling lists all copies of a draw, at most {FULL_SUM:,}; the model's symmetries give each posterior "
                f"mode {math.exp(log_num_copies(model)):,.0f}. Use SGAIS(), which needs no list."
            )
        copies, terms = at_copies(model, self.log_density, jnp.asarray(positions, jnp.float32))
        chosen = np.argmax(terms + generator.gumbel(size=terms.shape), axis=0)
        return copies[chosen, np.arange(len(positions))]

    def log_ratios(self, target: Target, positions: Positions) -> Float[np.ndarray, " draws"]:
        """log f / q at positions; q is the same at both mirror images."""
        mirrored = 2 * self.gaussian.centre - positions
        return np.logaddexp(*(self._plain(target, each) for each in (positions, mirrored))) - np.log(2)

    def _plain(self, target: Target, positions: Positions) -> Float[np.ndarray, " draws"]:
        """log f₀ / q, or p(D | θ) p(θ) / q̄(θ), at positions."""
        rounded = positions.astype(target.dtype)
        if target.symmetric is None:
            log_proposal = self.log_density(rounded.astype(np.float64))
        else:
            log_proposal = mean_over_copies(target.symmetric, self.log_density, rounded)  # pyright: ignore[reportArgumentType]
        return target.log_density(rounded) - log_proposal


def fit(positions: Positions) -> Fit:
    """The density with mean and covariance of draws.

    Raises:
        EstimationError: the covariance is singular.
    """
    covariance = np.atleast_2d(np.cov(positions.T))
    precision = np.linalg.inv(covariance) if is_definite(covariance) else None
    if precision is None or cholesky(precision) is None:  # lost by rounding if units are far apart
        raise EstimationError(
            "the covariance of the posterior draws is singular, on the unconstrained scale: a chain has hardly moved, or "
            "one parameter is a function of others. Use more draws, and check the chains' trace plots; if effects are centred at a "
            "parameter, whose scale can be near zero, write them as scale times standard normal ones, or use SGAIS()."
        )
    return Fit(LocalGaussian(positions.mean(axis=0), precision, 0.0))
