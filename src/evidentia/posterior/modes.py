"""Search for the modes of a posterior, from any starting points.

Far from a mode, L-BFGS climbs towards it (`climb`); near it, Newton's method finds it and its
precision (`newton`). Prior draws are mostly far from the posterior of many rows, and 10⁶ rows are
too many to visit often. `find_modes` therefore searches with some of the rows, from prior draws
that these make likely, and then refines the modes with all rows.

Derivatives are computed in float64: at 10⁶ rows a float32 Hessian loses directions that only the
prior informs.

Source: Nocedal and Wright (2006), Numerical Optimization, sections 3.1 and 3.3 (sufficient
increase, line search); Dauphin et al. (2014), Advances in Neural Information Processing Systems
27, Algorithm 1 (saddles); Zhu, Byrd, Lu, Nocedal (1997), ACM Transactions on Mathematical Software
23, 550 (L-BFGS-B; SciPy's).
"""

from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import Expansion, LocalGaussian, is_definite, local_gaussian
from evidentia.posterior.rows import Rows, Window
from evidentia.posterior.symmetry import fold_onto
from evidentia.posterior.target import expand_prior
from evidentia.system.interruption import check

FINE_TOLERANCE = 1e-6  # for the modes that `find_modes` returns
NUM_DRAWS = 1024  # prior draws
PATIENCE = 20  # climbs
NUM_STARTS = 10  # starting points of the search, chosen from these draws
FEW_ROWS = 2000  # rows used in the search
MIN_LOG_MASS = -12.0  # relative to the largest mode, in nats; smaller modes are left out

Vector = Float[np.ndarray, " parameters"]


def find_modes(model: BoundModel, rows: Rows, key: Array) -> tuple[LocalGaussian, ...]:
    """Distinct posterior modes with definite curvature, largest first; empty if none is found.

    If the model has symmetries, each mode is one of many copies, and its log mass is
    that of this copy alone.
    """
    few = few_of(model, rows)
    starts = np.asarray(model.starts) if model.starts else likely_draws(model, few, key)
    return refined_modes_above(model, rows, few, starts)


def refined_modes_above(
    model: BoundModel, rows: Rows, few: Window, starts: Float[np.ndarray, "starts parameters"]
) -> tuple[LocalGaussian, ...]:
    """Distinct modes above the starts, found with few of the rows, refined with all."""
    guesses = modes_above(model, few, starts)
    if few.num_observations == rows.num_observations:
        return guesses
    growth = rows.num_observations / few.num_observations
    return distinct(model, [_with_all_rows(model, rows, guess, growth) for guess in guesses])


def few_of(model: BoundModel, rows: Rows) -> Window:
    """The rows for a search, spread evenly."""
    few, count = rows.sample(FEW_ROWS), getattr(model.densities.pointwise, "num_rows", None)
    if count is None:
        return few
    held = jax.tree.map(lambda leaf: np.asarray(leaf[few.start : few.stop]), few.arrays)  # without padding
    return few.sample(max(100, FEW_ROWS * few.size // count(held)))  # packs of rows


def modes_above(
    model: BoundModel, rows: Rows, starts: Float[np.ndarray, "starts parameters"]
) -> tuple[LocalGaussian, ...]:
    """Distinct modes reached by climbing from the starts, largest first.

    The search ends early when `PATIENCE` climbs in a row have led to modes found before.
    """
    found: list[LocalGaussian] = []
    in_vain = 0
    for start in starts:
        top = climb(model, rows, start)
        in_vain += 1
        if not any(is_same(model, top, mode) for mode in found):
            mode = newton(model, rows, top, tolerance=FINE_TOLERANCE)
            if mode is not None:
                found, in_vain = [*found, mode], 0
        if in_vain == PATIENCE:
            break
    return distinct(model, found)


def distinct(model: BoundModel, found: Iterable[LocalGaussian | None]) -> tuple[LocalGaussian, ...]:
    """Each mode once, largest first, without the smallest (`MIN_LOG_MASS`).

    Two modes are the same within a standard deviation, in any of their copies.
    """
    modes: list[LocalGaussian] = []
    for mode in sorted((mode for mode in found if mode is not None), key=lambda mode: -mode.log_mass):
        is_large = not modes or mode.log_mass - modes[0].log_mass > MIN_LOG_MASS
        if is_large and not any(is_same(model, mode.centre, other) for other in modes):
            modes.append(mode)
    return tuple(modes)


def is_same(model: BoundModel, position: Vector, mode: LocalGaussian) -> bool:
    """Whether a position is within a standard deviation of a mode, in its nearest copy."""
    copy = fold_onto(model, mode.centre, position[None])
    return bool(mode.distances(copy)[0] <= 1)


def likely_draws(model: BoundModel, rows: Rows, key: Array) -> Float[np.ndarray, "starts parameters"]:
    """Distinct prior draws, chosen with probabilities proportional to a power of their likelihood.

    The power leaves an effective sample size of twice the number of draws chosen.
    """
    key_draw, key_choose = jax.random.split(key)
    positions = model.sample_prior(key_draw, NUM_DRAWS)
    log_likelihoods, _ = rows.log_likelihoods(model, positions)
    log_likelihoods = np.where(np.isnan(log_likelihoods), -np.inf, log_likelihoods)
    possible = int(np.sum(log_likelihoods > -np.inf))
    if possible == 0:
        return np.empty((0, positions.shape[1]))
    temperature = weights.next_temperature(np.zeros(NUM_DRAWS), log_likelihoods, 0.0, 2.0 * NUM_STARTS)
    log_shares = temperature * log_likelihoods
    # Sampling without replacement with these shares: the largest after Gumbel noise.
    order = np.argsort(-(log_shares + np.asarray(jax.random.gumbel(key_choose, (NUM_DRAWS,)))))
    return np.asarray(positions, np.float64)[order[: min(NUM_STARTS, possible)]]


def climb(model: BoundModel, rows: Rows, start: Vector) -> Vector:
    """A position near a mode, reached from any position with a finite log-posterior.

    Far from a mode, Newton's steps fail where the log-posterior is not concave or a likelihood
    overflows: of twelve starts of a Poisson regression, one converges; with L-BFGS all do.
    """
    from scipy.optimize import minimize  # slow to import, and only some searches need it

    def depth(position):
        point = _look(model, rows, position)
        is_finite = np.isfinite(point.log_posterior) and np.isfinite(point.gradient).all()
        return (-point.log_posterior, -point.gradient) if is_finite else (1e300, np.zeros_like(position))

    options = {"maxiter": 300, "ftol": 1e-6}  # of the log-posterior; Newton's method does the rest
    return minimize(depth, np.asarray(start, np.float64), jac=True, method="L-BFGS-B", options=options).x


def newton(
    model: BoundModel,
    rows: Rows,
    start: Vector,
    precision: Float[np.ndarray, "parameters parameters"] | None = None,
    tolerance: float = 0.01,
) -> LocalGaussian | None:
    """The mode near `start`; None if it is not found or the curvature there is not definite.

    Steps that do not lead uphill are halved until they do. Where the Hessian is indefinite,
    absolute eigenvalues are used, so that a step leads away from a saddle. An approximate
    `precision` (that of fewer rows, scaled) saves Hessians: it is kept while each step shortens
    the distance by three quarters. At the end, the squared distance to the mode, in posterior
    standard deviations, is below `tolerance`, and the log mass has at most half that error.
    """
    metric, precise = precision, None
    here = _look(model, rows, np.asarray(start, np.float64))
    if not np.isfinite(here.log_posterior):
        return None
    for _ in range(50):
        check()
        if metric is None:
            precise = _expand(model, rows, here.position)
            metric = -(precise[0].hessian + precise[1].hessian)
            if not np.isfinite(metric).all():
                return None
            metric = _absolute(metric)
        step = _solved(metric, here.gradient)
        distance = np.nan if step is None else float(here.gradient @ step)
        if step is None or not np.isfinite(distance):
            return None
        if distance < tolerance:
            return local_gaussian(*(precise or _expand(model, rows, here.position)))
        there = _uphill(model, rows, here, step, distance)
        if there is None:
            if precise is not None:
                return None
            metric = None
        else:
            left = float(there.gradient @ np.linalg.solve(metric, there.gradient))
            here, precise = there, None
            metric = metric if left < distance / 4 else None
    return None


def _expand(model: BoundModel, rows: Rows, position: Vector) -> tuple[Expansion, Expansion]:
    """The log-likelihood of all rows and the log prior, expanded about a position."""
    return rows.expand(model, position), expand_prior(model, position)


class _Point(NamedTuple):
    position: Vector
    log_posterior: float
    gradient: Vector


def _look(model: BoundModel, rows: Rows, position: Vector) -> _Point:
    likelihood = rows.expand(model, position, hessian=False)
    prior = expand_prior(model, position)
    return _Point(position, float(likelihood.value + prior.value), likelihood.gradient + prior.gradient)


def _uphill(model: BoundModel, rows: Rows, here: _Point, step: Vector, distance: float) -> _Point | None:
    """The first point uphill enough, after the step or its halvings; None if there is none."""
    rounding = 1e-10 * abs(here.log_posterior)
    for share in 0.5 ** np.arange(10):
        there = _look(model, rows, here.position + share * step)
        if there.log_posterior > here.log_posterior + 1e-4 * share * distance - rounding:
            return there
    return None


def _with_all_rows(
    model: BoundModel, rows: Rows, guess: LocalGaussian, growth: float
) -> LocalGaussian | None:
    found = newton(model, rows, guess.centre, growth * guess.precision, FINE_TOLERANCE)
    return found or newton(model, rows, climb(model, rows, guess.centre), tolerance=FINE_TOLERANCE)


def _solved(matrix: np.ndarray, vector: Vector) -> Vector | None:
    """The solution of a linear system; None if the matrix is singular.

    The Hessian is zero where the log-posterior is constant to the last digit, as far out on the
    unconstrained scale of a uniform prior.
    """
    try:
        return np.linalg.solve(matrix, vector)
    except np.linalg.LinAlgError:
        return None


def _absolute(matrix: np.ndarray) -> np.ndarray:
    """The matrix with absolute eigenvalues, at least a millionth of the largest."""
    if is_definite(matrix):
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    sizes = np.abs(values)
    return (vectors * np.maximum(sizes, 1e-6 * sizes.max())) @ vectors.T
