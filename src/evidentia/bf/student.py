"""The likelihood of an effect size given a t statistic.

With means, and variances under 1/σ², integrated out, a t statistic has a non-central t law. In
units of that of no effect, with μ = δ √N and x = t / √(ν + t²),

    L(δ) = e^(-μ²/2) I(μ x) / I(0),     I(a) = ∫₀^∞ u^ν exp(-u²/2 + a u) du

(Rouder et al. 2009; Gronau, Ly and Wagenmakers 2020, Eq. 3). The integrand of I over log u is
concave. In units of its width about its maximum, v = sinh w, it is summed in even steps of w.
"""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.interpolate import CubicSpline

STEP = 0.1
MOST_VALUES = 2**13  # of the integrand, held at once: what a cache has room for
KNOTS = 0.05  # of log u, between which a width is interpolated


def log_likelihood(effect: ndarray, t: float, freedom: float, size: float) -> ndarray:
    """log L of effect sizes, in nats.

    Args:
        effect: δ, of any shape.
        t: the statistic.
        freedom: ν, its degrees of freedom.
        size: N, the rows of one sample; of two samples, n m / (n + m).
    """
    exponent, peak = _highest(np.asarray(effect, float), t, freedom, size)
    return exponent + _log_width(peak, freedom) - _log_width(_peak(np.zeros(()), freedom), freedom)


def log_likelihoods(
    effects: Float[ndarray, " effects"], t: Float[ndarray, " statistics"], freedom: float, size: float
) -> Float[ndarray, "statistics effects"]:
    """log L of each effect size given each of many t statistics with the same rows, to 10⁻⁷ nats.

    The width of the integrand is a smooth function of log u at its maximum, here a cubic spline.
    """
    exponent, peak = _highest(effects, t[:, None], freedom, size)
    log_peak = np.log(peak)
    low, high = log_peak.min(), log_peak.max()
    knots = np.linspace(low, high, max(int((high - low) / KNOTS), 4))
    log_width = CubicSpline(knots, _log_width(np.exp(knots), freedom))
    return exponent + log_width(log_peak) - _log_width(_peak(np.zeros(()), freedom), freedom)


def _highest(effect: ndarray, t: ndarray | float, freedom: float, size: float) -> tuple[ndarray, ndarray]:
    """The logarithm of the integrand's maximum, relative to that of no effect, and u there."""
    mu = effect * np.sqrt(size)
    tilt = mu * (t / np.hypot(np.sqrt(freedom), t))
    peak = _peak(tilt, freedom)
    # -μ²/2 + u²/2 at the peak u; two large numbers where the tilt is positive, whose difference is
    # -μ²/2 ν/(ν + t²) + (u² - a²)/2 with u² - a u = ν + 1.
    inside = -0.5 * mu**2 * (freedom / (freedom + t**2)) + (freedom + 1) * (peak + tilt) / (2 * peak)
    exponent = np.where(tilt > 0, inside, -0.5 * mu**2 + 0.5 * peak**2)
    at_zero = _peak(np.zeros(()), freedom)
    return exponent - 0.5 * at_zero**2 + (freedom + 1) * np.log(peak / at_zero), peak


def _peak(tilt: ndarray, freedom: float) -> ndarray:
    """u at the maximum over log u: the positive root of u² - a u = ν + 1."""
    root = np.sqrt(tilt**2 + 4 * (freedom + 1))
    return np.where(tilt < 0, 2 * (freedom + 1) / (root + np.abs(tilt)), (root + tilt) / 2)


def _log_width(peak: ndarray, freedom: float) -> Float[ndarray, "..."]:
    """log ∫ of the integrand over log u, relative to its maximum."""
    # The left tail is that of a gamma law below a peak of nine at most; the right one is normal.
    left = 9 + 40 * np.sqrt(81 + freedom + 1) / (freedom + 1)
    place = np.arange(-np.arcsinh(left), np.arcsinh(9.0), STEP)
    flat = np.ravel(peak)
    parts = np.array_split(flat, -(-flat.size * len(place) // MOST_VALUES))
    summed = [_summed(part, freedom, place) for part in parts]
    return np.concatenate(summed).reshape(np.shape(peak))


def _summed(peak: Float[ndarray, " peaks"], freedom: float, place: ndarray) -> Float[ndarray, " peaks"]:
    width = 1 / np.sqrt(peak**2 + freedom + 1)
    step = np.sinh(place) * width[:, None]
    grown = np.expm1(step)
    step -= grown
    step *= freedom + 1
    grown *= peak[:, None]
    np.square(grown, out=grown)
    grown *= 0.5
    step -= grown
    return np.log(width * (np.exp(step, out=step) @ np.cosh(place)))
