"""Normal responses given the ratios of deviations: coefficients exact, the scale by a grid.

Let ρ be the deviations of effects that vary, divided by the scale σ of the residuals, and V(ρ) the
rows' covariance divided by σ². With coefficients β ~ N(m, R²) a priori, R XᵀV⁻¹X R = U diag(l) Uᵀ
and t = Uᵀ R XᵀV⁻¹(y - X m),

    log p(y | σ, ρ) = -n log σ - ½ [n log 2π + log |V| + Σ log(1 + l/σ²)
                      + (yᵀV⁻¹y)/σ² - Σ t² / (σ² (σ² + l))],

a function of σ alone once V is factorised, which is summed over a grid of log σ. Coefficients with
other priors are drawn as if these were normal with the same moments, and weighted by the ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.regression.elimination import Eliminated
from evidentia.regression.working import HALF_LOG_2PI, Working

NUM_ZOOMS, ZOOM = 10, 4.0  # towards the peak over log σ
WIDE, NUM_POINTS = 10.0, 121  # deviations on either side of the peak, and points of the grid

LogPrior = Callable[[Float[ndarray, " points"]], Float[ndarray, " points"]]


class Conditional(NamedTuple):
    """The law of scale and coefficients given the ratios of deviations.

    Attributes:
        log_mass: log p(y, ρ), with scale and coefficients integrated out.
        log_scales, shares: the grid of log σ, and the probability of each cell.
        curvatures, slopes: l and t.
        to_coefficients: R U.
        centre: m.
    """

    log_mass: float
    log_scales: Float[ndarray, " points"]
    shares: Float[ndarray, " points"]
    curvatures: Float[ndarray, " coefficients"]
    slopes: Float[ndarray, " coefficients"]
    to_coefficients: Float[ndarray, "coefficients coefficients"]
    centre: Float[ndarray, " coefficients"]

    def draw(
        self, generator: np.random.Generator, count: int
    ) -> tuple[Float[ndarray, " draws"], Float[ndarray, "draws coefficients"]]:
        """Draws of σ and β."""
        chosen = generator.choice(len(self.shares), count, p=self.shares)
        within = (generator.random(count) - 0.5) * (self.log_scales[1] - self.log_scales[0])
        scales = np.exp(self.log_scales[chosen] + within)
        precisions = 1 + self.curvatures / scales[:, None] ** 2
        means = self.slopes / scales[:, None] ** 2 / precisions
        steps = means + generator.standard_normal(means.shape) / np.sqrt(precisions)
        return scales, self.centre + steps @ self.to_coefficients.T


def conditional(eliminated: Eliminated, num_rows: int, working: Working, log_prior: LogPrior) -> Conditional:
    """The law given the ratios at which effects were eliminated.

    Args:
        eliminated: of the columns of the coefficients, and y as the last one.
        num_rows: n.
        working: the law of the coefficients.
        log_prior: of log σ and the ratios, at values of log σ.
    """
    gram, mean, width = eliminated.gram, working.mean, working.deviations
    moved = np.append(-mean, 1.0)  # y - X m, in terms of the columns
    squares = moved @ gram @ moved
    curvatures, directions = np.linalg.eigh(width[:, None] * gram[:-1, :-1] * width)
    curvatures = np.maximum(curvatures, 0.0)
    slopes = directions.T @ (width * (gram[:-1] @ moved))

    def log_density(log_scales: Float[ndarray, " points"]) -> Float[ndarray, " points"]:
        variances = np.exp(2 * log_scales)[:, None]
        fit = np.sum(slopes**2 / (variances + curvatures), axis=1)
        log_dets = np.sum(np.log1p(curvatures / variances), axis=1)
        rest = num_rows * (2 * HALF_LOG_2PI + 2 * log_scales) + eliminated.log_det + log_dets
        return log_prior(log_scales) - 0.5 * (rest + (squares - fit) / variances[:, 0])

    residual = squares - np.sum(slopes**2 / np.maximum(curvatures, 1e-300) * (curvatures > 0))
    start = float(0.5 * np.log(max(residual, 1e-12 * squares) / num_rows))
    points = _about_peak(log_density, start, num_rows)
    heights = log_density(points)
    log_mass = weights.log_sum_exp(heights) + float(np.log(points[1] - points[0]))
    shares = np.exp(weights.normalise(heights))
    to_coefficients = width[:, None] * directions
    return Conditional(log_mass, points, shares, curvatures, slopes, to_coefficients, mean)


def _about_peak(
    log_density: Callable[[Float[ndarray, " points"]], Float[ndarray, " points"]],
    start: float,
    num_rows: int,
) -> Float[ndarray, " points"]:
    """A grid of log σ that covers its density, by its curvature at the peak.

    The curvature is at least that of the number of rows, 2n, up to the prior's.
    """
    centre, half = start, 8.0
    steps = np.linspace(-1.0, 1.0, 33)
    for _ in range(NUM_ZOOMS):
        if half <= 1 / np.sqrt(2 * num_rows):
            break
        centre = centre + half * steps[np.argmax(log_density(centre + half * steps))]
        half /= ZOOM
    width = 1 / np.sqrt(2 * num_rows)
    below, here, above = log_density(centre + width * np.array([-1.0, 0.0, 1.0]))
    curvature = max((2 * here - below - above) / width**2, 0.1 / width**2)
    return centre + WIDE / np.sqrt(curvature) * np.linspace(-1.0, 1.0, NUM_POINTS)
