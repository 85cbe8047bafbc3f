"""Rows that depend on each other: hidden Markov chains, local levels, autoregressions."""

from functools import cache, partial

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

import evidentia as ev

from .problem import LOG_TWO_PI, Drawn, log_integral, log_trapezoid, log_uniform, pick, single, wide

CHAINS = ((2, "normal", 9), (3, "categorical", 7), (2, "poisson", 9))  # states, emission, rows
CATEGORIES = 3
LEVELS, AUTOREGRESSIONS = (8, 40), (6, 60)  # rows


# --- Hidden Markov chains ------------------------------------------------------------------------


@cache
def _chain_model(num_states: int, emission: str) -> ev.Model:
    return ev.models.hidden_markov(
        num_states, emission, num_categories=CATEGORIES if emission == "categorical" else None
    )


def hidden_chain(generator: np.random.Generator) -> Drawn:
    """A short chain, whose evidence is a sum over all paths of the states."""
    num_states, emission, rows = pick(generator, CHAINS)
    stay, distance = generator.uniform(0.3, 0.98), log_uniform(generator, -0.5, 1)
    states = np.zeros(rows, int)
    for row in range(1, rows):
        moves = generator.random() > stay
        states[row] = generator.integers(num_states) if moves else states[row - 1]
    if emission == "normal":
        y = generator.normal(distance * states, log_uniform(generator, -0.5, 0.5))
    elif emission == "poisson":
        y = generator.poisson(1 + 3 * distance * states)
    else:
        is_own = generator.random(rows) < generator.uniform(0.4, 0.95)
        y = np.where(is_own, states % CATEGORIES, generator.integers(CATEGORIES, size=rows))
    data = {"y": single(y)}
    drawn = {"states": num_states, "emission": emission, "rows": rows, "stay": stay, "distance": distance}
    truth = chain_log_evidence(data["y"], num_states, emission)
    again = partial(_by_predictives, wide(data["y"]), num_states, emission)
    return Drawn(_chain_model(num_states, emission), data, truth, drawn, again)


def chain_log_evidence(y, num_states: int, emission: str, num_categories: int = CATEGORIES) -> float:
    """log Σ_paths p(path) p(y | path): given a path, all parameters are conjugate.

    The priors are those of `ev.models.hidden_markov`; NaN is a missing value.
    """
    y = wide(y)
    of_values = {"categorical": partial(_categorical, num_categories), "normal": _normal, "poisson": _poisson}
    terms = []
    for states in _paths(num_states, len(y)):
        moves = np.zeros((num_states, num_states))
        np.add.at(moves, (states[:-1], states[1:]), 1)
        log_path = _dirichlet(np.eye(num_states)[states[0]]) + sum(map(_dirichlet, moves))
        of_states = (of_values[emission](y[(states == state) & ~np.isnan(y)]) for state in range(num_states))
        terms.append((log_path if num_states > 1 else 0.0) + sum(of_states))
    return float(logsumexp(terms))


def _paths(num_states: int, rows: int) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(num_states**rows), (num_states,) * rows), axis=1)


def _dirichlet(counts) -> float:
    """log of ∫ Π p_k^{c_k} Dirichlet(p; 1, …, 1) dp."""
    return gammaln(len(counts)) - gammaln(len(counts) + counts.sum()) + gammaln(1 + counts).sum()


def _categorical(num_categories, values) -> float:
    return _dirichlet(np.bincount(values.astype(int), minlength=num_categories).astype(float))


def _poisson(values, shape=1.0, rate=0.1) -> float:
    total, count = values.sum(), len(values)
    prior = shape * np.log(rate) - gammaln(shape)
    return prior + gammaln(shape + total) - (shape + total) * np.log(rate + count) - gammaln(values + 1).sum()


def _normal(values, precision=0.25, shape=1.0, scale=1.0) -> float:
    """Normal values with the mean and variance of a normal-inverse-gamma prior."""
    count = len(values)
    if not count:
        return 0.0
    mean, after = values.mean(), precision + count
    squares = np.sum((values - mean) ** 2) + precision * count * mean**2 / after
    new_shape, new_scale = shape + count / 2, scale + squares / 2
    constant = 0.5 * np.log(precision / after) - 0.5 * count * LOG_TWO_PI
    ratio = gammaln(new_shape) - gammaln(shape) + shape * np.log(scale) - new_shape * np.log(new_scale)
    return constant + ratio


def _by_predictives(y: np.ndarray, num_states: int, emission: str) -> float:
    """The same sum, row by row: urns for the path, and posterior predictives for its values."""
    paths = _paths(num_states, len(y))
    every, total = np.arange(len(paths)), np.full(len(paths), -np.log(num_states))
    moves = np.ones((len(paths), num_states, num_states))
    # Of the values in each state: number, sum, sum of squares, and how often each category.
    sums, seen = np.zeros((3, len(paths), num_states)), np.ones((len(paths), num_states, CATEGORIES))
    for row, value in enumerate(y):
        state = paths[:, row]
        if row:
            from_here = moves[every, paths[:, row - 1]]
            total += np.log(from_here[every, state] / from_here.sum(1))
            moves[every, paths[:, row - 1], state] += 1
        count, first, second = sums[:, every, state]
        if emission == "categorical":
            counts = seen[every, state]
            total += np.log(counts[:, int(value)] / counts.sum(1))
            seen[every, state, int(value)] += 1
        elif emission == "poisson":
            rate = 0.1 + count
            total += stats.nbinom.logpmf(int(value), 1 + first, rate / (rate + 1))
        else:
            precision, shape = 0.25 + count, 1 + count / 2
            scale = 1 + 0.5 * (second - first**2 / precision)
            width = np.sqrt(scale / shape * (1 + 1 / precision))
            total += stats.t.logpdf(value, 2 * shape, first / precision, width)
        sums[:, every, state] += np.array([1.0, value, value**2])[:, None]
    return float(logsumexp(total))


# --- Local levels --------------------------------------------------------------------------------


@cache
def _level_model() -> ev.Model:
    return ev.models.state_space()


def local_level(generator: np.random.Generator) -> Drawn:
    """A random walk with noise, whose two deviations are between 0.03 and 3; values may miss."""
    rows = pick(generator, LEVELS)
    level, noise = log_uniform(generator, -1.5, 0.5, 2)
    y = np.cumsum(level * generator.standard_normal(rows)) + noise * generator.standard_normal(rows)
    data = {"y": single(y + 2 * generator.standard_normal())}
    if generator.random() < 0.3:
        data["y"][rows // 2] = np.nan
    missing = int(np.isnan(data["y"]).sum())
    drawn = {"rows": rows, "level": float(level), "noise": float(noise), "missing": missing}
    truth = _over_log_scales(_level_by_filter, wide(data["y"]), size=320)
    again = partial(_over_log_scales, _level_by_covariance, wide(data["y"]), size=270)
    return Drawn(_level_model(), data, truth, drawn, again)


def _over_log_scales(log_density, y: np.ndarray, size: int) -> float:
    """The trapezoidal rule over the logarithms of both scales; the posterior is smooth in them."""
    logs = np.linspace(-16, 2.2, size)
    grid = np.stack(np.meshgrid(logs, logs, indexing="ij"), axis=-1).reshape(-1, 2)
    return log_trapezoid(log_density(y, grid), (logs[1] - logs[0]) ** 2)


def _log_scales(logs: np.ndarray) -> np.ndarray:
    """log density of the logarithms of scales that are half-normal(1)."""
    return np.sum(0.5 * np.log(2 / np.pi) - 0.5 * np.exp(2 * logs) + logs, axis=-1)


def _level_by_filter(y: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """log joint density at the logarithms (points, 2) of noise and level, by a Kalman filter."""
    noise, level = np.exp(2 * logs.T)
    total, mean, variance = _log_scales(logs), np.zeros(len(logs)), np.full(len(logs), 4.0)
    for value in y:
        if not np.isnan(value):
            of_value = variance + noise
            total -= 0.5 * ((value - mean) ** 2 / of_value + np.log(of_value) + LOG_TWO_PI)
            mean = mean + variance / of_value * (value - mean)
            variance = variance * noise / of_value
        variance = variance + level
    return total


def _level_by_covariance(y: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """The same by Cov(y) = noise² I + level² C + 4 J, with C_st = min(s, t) and J of ones."""
    known = np.flatnonzero(~np.isnan(y))
    spread, vectors = np.linalg.eigh(np.minimum.outer(known, known).astype(float))
    ones, values = vectors.T @ np.ones(len(known)), vectors.T @ y[known]
    noise, level = np.exp(2 * logs.T)
    inverse = 1 / (noise[:, None] + level[:, None] * spread)
    # J is of rank one: the determinant's lemma, and the inverse of Sherman and Morrison.
    along, across = 1 + 4 * (inverse @ ones**2), inverse @ (ones * values)
    square = inverse @ values**2 - 4 * across**2 / along
    log_det = np.log(along) - np.log(inverse).sum(-1)
    return _log_scales(logs) - 0.5 * (square + log_det + len(known) * LOG_TWO_PI)


# --- Autoregressions -----------------------------------------------------------------------------


@cache
def _autoregression_model() -> ev.Model:
    return ev.models.autoregression(1)


def autoregression(generator: np.random.Generator) -> Drawn:
    """A first-order autoregression, also near a unit root; the first value is given."""
    rows = pick(generator, AUTOREGRESSIONS)
    slope, intercept = generator.uniform(-1, 1.02), generator.standard_normal()
    noise, y = log_uniform(generator, -1, 0.5), np.zeros(rows)
    for row in range(1, rows):
        y[row] = intercept * noise + slope * y[row - 1] + noise * generator.standard_normal()
    data = {"y": single(y)}
    before, after = wide(data["y"])[:-1], wide(data["y"])[1:]
    design = np.stack([np.ones(rows - 1), before], axis=1)
    vectors, singular, _ = np.linalg.svd(design, full_matrices=False)
    along = vectors.T @ after
    rest = max(after @ after - along @ along, 0.0)

    def log_density(log_variance):
        """The coefficients are integrated out: after ~ N(0, variance I + X Xᵀ)."""
        variance = np.exp(log_variance)
        of_axes = variance[:, None] + singular**2
        total = -0.5 * ((along**2 / of_axes).sum(1) + np.log(of_axes).sum(1) + rest / variance)
        total -= 0.5 * ((rows - 3) * log_variance + (rows - 1) * LOG_TWO_PI)
        return total + stats.invgamma.logpdf(variance, 1.0) + log_variance

    truth = log_integral(lambda points: log_density(points[:, 0]), (-20.0, 15.0))
    drawn = {"rows": rows, "slope": slope, "intercept": intercept, "noise": noise}
    again = partial(_by_coefficients, design, after)
    return Drawn(_autoregression_model(), data, truth, drawn, again)


def _by_coefficients(design: np.ndarray, after: np.ndarray) -> float:
    """An integral over the coefficients, with the variance integrated out of each of them."""
    shape = 1 + len(after) / 2

    def log_density(points):
        square = ((after - points @ design.T) ** 2).sum(1)
        total = gammaln(shape) - shape * np.log(1 + square / 2) - 0.5 * len(after) * LOG_TWO_PI
        return total + stats.norm.logpdf(points).sum(1)

    return log_integral(log_density, (-8.0, 8.0), (-8.0, 8.0))


FAMILIES = {"hidden chain": hidden_chain, "local level": local_level, "autoregression": autoregression}
