"""The integral over the g's: by even steps for up to four, else by quasi-random points.

Over log g the integrand is analytic within π/2 of the real line and vanishes at both ends: even
steps converge exponentially, and steps twice as long leave the square root of the error.

With more g's than one, the slice along each coordinate through the mode is a density on a grid.
Their product has the integrand's long right and steep left tails, and the g's depend on each other
through the residual variance alone. A polynomial through the slice's quantiles, as a function of
normal scores z, makes the integrand about normal in z: 20 even steps are enough in each direction.
Where they are not, as for nested factors, whose g's stand for each other, two or three g's take
even steps of log g.

With many g's, the same product (with a flattened logarithm, so that its tails are heavier) is the
density of randomised Sobol points, and leaves little for the weights. Independent randomisations
give the error; the number of points doubles until it is small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.polynomial import Chebyshev
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr
from scipy.stats import qmc

LOG_G = np.linspace(-25.0, 60.0, 1701)  # with one g
# Nodes of a slice in widths: on the right the tail falls as a power of g.
STEPS = np.concatenate([-np.geomspace(30, 6, 20)[:-1], np.linspace(-6, 6, 121), np.geomspace(6, 200, 60)[1:]])
FLAT, LOWEST = 0.97, -300.0  # of the logarithm of a slice
RANDOMISATIONS, SMALLEST, LARGEST = 8, 7, 14  # and powers of two of points each
ENOUGH = 2.5e-5  # nats: 10⁻⁴ is promised, and the error of points was found up to four times too small
NEAR_MODE = {"ftol": 1e-6, "gtol": 1e-2}  # which the points need not have to all digits

# Normal scores by the number of g's; how far they reach; degrees of the polynomial.
# Of 40 designs with three g's, random slopes among them, the largest error is 10⁻⁶ nats.
NUM_SCORES = {1: 101, 2: 41, 3: 19, 4: 15}
# Even steps of log g, where scores are too few: 10⁻⁶ nats for any shape, and 10⁻⁵ are reported.
GRIDS = {2: np.arange(-9.0, 30.0, 0.4), 3: np.arange(-7.2, 21.7, 0.6)}
REACH, DEGREES = 5.4, (9, 7, 5, 3, 1)
FINE = 2  # g's, of which the steps have enough distinct values

STEP, SMALLEST_CURVATURE = 0.05, 1e-2  # of numerical second derivatives

Integrand = Callable[[Float[ndarray, "points blocks"]], Float[ndarray, " points"]]


class Found(NamedTuple):
    """The logarithm of an integral, its standard error, and the points that it is the sum of.

    Attributes:
        value: in nats.
        error: in nats.
        log_g: of the points.
        log_weights: of the points, normalised: they are draws of the posterior.
        is_sequence: whether the points are Sobol's, of which the first ones are enough for much.
    """

    value: float
    error: float
    log_g: Float[ndarray, "points blocks"]
    log_weights: Float[ndarray, " points"]
    is_sequence: bool = False


def log_prior(log_g: Float[ndarray, "..."], scale: Float[ndarray, "..."] | float) -> Float[ndarray, "..."]:
    """InverseGamma(1/2, r²/2) of g, as a density of log g."""
    rate = 0.5 * np.square(scale)
    return 0.5 * np.log(rate / np.pi) - 0.5 * log_g - rate * np.exp(-log_g)


def log_integral(integrand: Integrand, count: int) -> Found:
    """log ∫ exp(integrand) over log g of `count` blocks."""
    if count == 0:
        return Found(float(integrand(np.zeros((1, 0)))[0]), 0.0, np.zeros((1, 0)), np.zeros(1))
    if count == 1 and (found := _on_a_line(integrand)).error < ENOUGH:
        return found
    mode, widths = _mode_of(integrand, count)
    slices = [_slice_of(integrand, mode, widths, axis) for axis in range(count)]
    found = _on_scores(integrand, mode, widths, slices) if count in NUM_SCORES else None
    if found is not None and found.error > ENOUGH and count in GRIDS:
        found = _on_a_grid(integrand, GRIDS[count], count)
    if found is None or found.error > ENOUGH:
        return _on_a_sequence(integrand, mode, widths, slices, ENOUGH)
    if count <= FINE:
        return found
    # Few distinct values of each g are enough for the integral, but not as draws.
    points = _on_a_sequence(integrand, mode, widths, slices, np.inf)
    return points._replace(value=found.value, error=found.error)


def _on_a_sequence(
    integrand: Integrand, mode: ndarray, widths: ndarray, slices: list[Slice], enough: float
) -> Found:
    """Randomised Sobol points, until the error is small enough."""
    count = len(mode)
    value, sets = np.nan, []
    for power in range(SMALLEST, LARGEST + 1):
        sets.append(_weighted(integrand, mode, widths, slices, sobol_points(count, power)))
        log_g, log_weights = (np.concatenate(each, axis=1) for each in zip(*sets, strict=True))
        means = logsumexp(log_weights, axis=1) - np.log(2**power)
        total = logsumexp(means)
        shares = np.exp(means - total + np.log(RANDOMISATIONS))
        before, value = value, float(total - np.log(RANDOMISATIONS) + np.log(widths).sum())
        # Eight randomisations tell their spread badly; half as many points are a second opinion.
        change = abs(value - before) if power > SMALLEST else np.inf
        error = max(float(shares.std(ddof=1) / np.sqrt(RANDOMISATIONS)), change)
        if error <= enough or power == LARGEST:
            log_weights = log_weights.ravel() - logsumexp(log_weights)
            return Found(value, error, log_g.reshape(-1, count), log_weights, is_sequence=True)
    raise AssertionError("the largest number of points ends the loop")


def _weighted(
    integrand: Integrand, mode: ndarray, widths: ndarray, slices: list[Slice], points: ndarray
) -> tuple[Float[ndarray, "sets points count"], Float[ndarray, "sets points"]]:
    """Points at their place, and their log weights."""
    flat = points.reshape(-1, points.shape[-1])
    places, logs = zip(*(one.at(flat[:, axis]) for axis, one in enumerate(slices)), strict=True)
    log_g = np.clip(mode + np.column_stack(places) * widths, LOG_G[0], LOG_G[-1])
    log_weights = integrand(log_g) - np.sum(logs, axis=0)
    return log_g.reshape(points.shape), log_weights.reshape(points.shape[:-1])


@lru_cache(maxsize=64)
def sobol_points(count: int, power: int) -> Float[ndarray, "sets points count"]:
    """Points of randomised sets of 2**power: the second halves, but all of the smallest sets."""
    engines = [qmc.Sobol(count, rng=np.random.default_rng([0, one])) for one in range(RANDOMISATIONS)]
    points = np.stack([one.random_base2(power) for one in engines])
    return points if power == SMALLEST else points[:, 2 ** (power - 1) :]


def _on_a_line(integrand: Integrand) -> Found:
    terms = integrand(LOG_G[:, None])
    step = LOG_G[1] - LOG_G[0]
    total = logsumexp(terms)
    fine, rough = total + np.log(step), logsumexp(terms[::2]) + np.log(2 * step)
    return Found(float(fine), float(abs(fine - rough)), LOG_G[:, None], terms - total)


def _on_scores(integrand: Integrand, mode: ndarray, widths: ndarray, slices: list[Slice]) -> Found:
    """Even steps of normal scores in all directions."""
    count = len(mode)
    scores, step = np.linspace(-REACH, REACH, NUM_SCORES[count], retstep=True)
    places, slopes = zip(*(_polynomial(one, scores) for one in slices), strict=True)
    log_g = mode + widths * np.stack(np.meshgrid(*places, indexing="ij"), -1)
    is_inside = ((log_g >= LOG_G[0]) & (log_g <= LOG_G[-1])).all(-1)
    terms = np.where(is_inside, reduce(np.add.outer, np.log(slopes)), -np.inf)
    terms[is_inside] += integrand(log_g[is_inside])
    return _evenly_summed(log_g, terms, count * np.log(step) + np.log(widths).sum())


def _on_a_grid(integrand: Integrand, steps: ndarray, count: int) -> Found:
    """Even steps of every log g; what lies at their ends tells of what is beyond."""
    log_g = np.stack(np.meshgrid(*[steps] * count, indexing="ij"), -1)
    terms = integrand(log_g.reshape(-1, count)).reshape(log_g.shape[:-1])
    found = _evenly_summed(log_g, terms, count * np.log(steps[1] - steps[0]))
    is_end = (log_g == steps[0]).any(-1) | (log_g == steps[-1]).any(-1)
    beyond = float(np.exp(found.log_weights[is_end.ravel()]).sum())
    return found._replace(error=found.error + beyond)


def _evenly_summed(log_g: ndarray, terms: ndarray, log_cell: float) -> Found:
    """The sum over a grid; sums over steps twice as long leave the square root of its error."""
    top, count = terms.max(), terms.ndim
    values = np.exp(terms - top)
    total = values.sum()
    rough = [
        2**count * values[tuple(slice(first, None, 2) for first in firsts)].sum()
        for firsts in product((0, 1), repeat=count)
    ]
    error = float(np.square(np.log(np.array(rough) / total)).max())
    value = float(top + np.log(total) + log_cell)
    return Found(value, error, log_g.reshape(-1, count), (terms - top - np.log(total)).ravel())


def _polynomial(one: Slice, scores: ndarray) -> tuple[ndarray, ndarray]:
    """Quantiles of normal scores, and their slopes: of the highest degree that increases."""
    wide = np.linspace(scores[0], scores[-1], 4 * len(scores))
    quantiles = one.at(ndtr(wide))[0]
    for degree in DEGREES:
        curve = Chebyshev.fit(wide, quantiles, degree)
        slope = curve.deriv()(scores)
        if (slope > 0).all():
            break
    return curve(scores), slope


def _mode_of(integrand: Integrand, count: int) -> tuple[ndarray, ndarray]:
    """The mode, and the width along each coordinate that its curvature gives."""
    shifts = STEP * np.concatenate([np.zeros((1, count)), np.eye(count), -np.eye(count)])

    def negative(log_g: ndarray) -> tuple[float, ndarray]:
        middle, *sides = integrand(log_g + shifts)
        slope = (np.array(sides[:count]) - np.array(sides[count:])) / (2 * STEP)
        return -float(middle), -slope

    bounds = [(LOG_G[0] + STEP, LOG_G[-1] - STEP)] * count
    mode = minimize(
        negative, np.zeros(count), jac=True, method="L-BFGS-B", bounds=bounds, options=NEAR_MODE
    ).x
    middle, *sides = integrand(mode + shifts)
    curvature = (2 * middle - np.array(sides[:count]) - np.array(sides[count:])) / STEP**2
    return mode, 1 / np.sqrt(np.maximum(curvature, SMALLEST_CURVATURE))


class Slice(NamedTuple):
    """A density of one coordinate: piecewise log-linear between nodes."""

    log_density: Float[ndarray, " nodes"]  # normalised
    shares: Float[ndarray, " nodes"]  # below each node

    def at(
        self, uniform: Float[ndarray, " points"]
    ) -> tuple[Float[ndarray, " points"], Float[ndarray, " points"]]:
        """Quantiles, and their log density."""
        panel = np.clip(np.searchsorted(self.shares, uniform, side="right") - 1, 0, len(STEPS) - 2)
        low, width = STEPS[panel], np.diff(STEPS)[panel]
        start, slope = self.log_density[panel], np.diff(self.log_density)[panel] / width
        below = np.maximum(uniform - self.shares[panel], 0.0) * np.exp(-start)
        is_flat = np.abs(slope * below) < 1e-8
        safe = np.where(is_flat, 1.0, slope)
        step = np.where(is_flat, below, np.log1p(np.maximum(safe * below, -1 + 1e-15)) / safe)
        step = np.clip(step, 0.0, width)
        return low + step, start + slope * step


def _slice_of(integrand: Integrand, mode: ndarray, widths: ndarray, axis: int) -> Slice:
    places = mode + STEPS[:, None] * np.where(np.arange(len(mode)) == axis, widths, 0.0)
    is_inside = (places[:, axis] >= LOG_G[0]) & (places[:, axis] <= LOG_G[-1])
    values = np.where(is_inside, integrand(np.clip(places, LOG_G[0], LOG_G[-1])), -np.inf)
    values = np.maximum(FLAT * (values - values.max()), LOWEST)
    width, start, rise = np.diff(STEPS), values[:-1], np.diff(values)
    is_flat = np.abs(rise) < 1e-8
    masses = np.exp(start) * width * np.where(is_flat, 1.0, np.expm1(rise) / np.where(is_flat, 1.0, rise))
    total = masses.sum()
    return Slice(values - np.log(total), np.concatenate([[0.0], np.cumsum(masses) / total]))
