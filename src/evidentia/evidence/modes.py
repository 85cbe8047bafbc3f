"""The modes of a posterior, found from draws of the prior.

Most draws of the prior are far from the posterior of many rows, and 10⁶ rows are too many to look for it. So the search is
on some of the rows, from draws of the prior that these make likely: first uphill, then by Newton's method. The modes that
it leads to are where Newton's method starts on all rows.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.proposal import MIN_LOG_MASS
from evidentia.laplace import LocalGaussian, climb, laplace_approximation
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.symmetry import relabel

NUM_DRAWS = 1024  # of the prior, of which
NUM_STARTS = 10  # are what the search starts from
FEW_ROWS = 2000  # that modes are searched on, spread evenly over all rows, which may be sorted
TOLERANCE = 1e-6  # squared distance of a mode that is returned, in posterior standard deviations


def find_modes(model: BoundModel, rows: Rows, key: Array) -> tuple[LocalGaussian, ...]:
    """The modes of the posterior of `rows`, the largest first, each once; empty if none with definite curvature was found.

    Of interchangeable components each mode is in one order of many, and its log mass is that of this order alone. Modes
    that are smaller than the largest by 12 nats are left out.
    """
    few = evenly_spaced(rows, FEW_ROWS)
    tops = [climb(model, few, start) for start in likely_draws(model, few, key)]
    guesses = _distinct(model, _newton(model, few, tops))
    if few.size == rows.size:
        return guesses
    growth = rows.size / few.size
    found = [_at_all_rows(model, rows, guess.mode, growth * guess.precision) for guess in guesses]
    return _distinct(model, found)


def _newton(model: BoundModel, rows: Rows, tops: Iterable[np.ndarray]) -> list[LocalGaussian]:
    """The modes near the tops; what is within a standard deviation of a mode is not searched from again."""
    modes: list[LocalGaussian] = []
    for top in tops:
        if not any(_is_same(model, top, mode) for mode in modes):
            found = laplace_approximation(model, rows, top, tolerance=TOLERANCE)
            modes += [] if found is None else [found]
    return modes


def _at_all_rows(model: BoundModel, rows: Rows, start, precision) -> LocalGaussian | None:
    found = laplace_approximation(model, rows, start, precision, TOLERANCE)
    return found or laplace_approximation(model, rows, climb(model, rows, start), tolerance=TOLERANCE)


def evenly_spaced(rows: Rows, count: int) -> Rows:
    """`count` of the rows; all of them where there are no more."""
    if rows.size <= count:
        return rows
    index = np.linspace(rows.start, rows.stop - 1, count).astype(int)
    return Rows(jax.tree.map(lambda leaf: leaf[index], rows.arrays), 0, count)


def likely_draws(model: BoundModel, rows: Rows, key: Array) -> Float[np.ndarray, "starts parameters"]:
    """Different draws of the prior, chosen by their likelihood to a power at which a few times as many count."""
    key_draw, key_choose = jax.random.split(key)
    positions = model.sample_prior(key_draw, NUM_DRAWS)
    log_likelihoods, _ = log_likelihood_sums(model, positions, rows)
    log_likelihoods = np.where(np.isnan(log_likelihoods), -np.inf, log_likelihoods)
    possible = int(np.sum(log_likelihoods > -np.inf))
    if possible == 0:
        return np.empty((0, positions.shape[1]))
    temperature = weights.next_temperature(np.zeros(NUM_DRAWS), log_likelihoods, 0.0, 2.0 * NUM_STARTS)
    log_shares = temperature * log_likelihoods
    # The largest of these are drawn without replacement, in proportion to their shares (Gumbel's trick).
    order = np.argsort(-(log_shares + np.asarray(jax.random.gumbel(key_choose, (NUM_DRAWS,)))))
    return np.asarray(positions)[order[: min(NUM_STARTS, possible)]]


def _distinct(model: BoundModel, found: Iterable[LocalGaussian | None]) -> tuple[LocalGaussian, ...]:
    """Each mode once, the largest first; copies with interchangeable components in another order are the same mode."""
    modes: list[LocalGaussian] = []
    for mode in sorted((mode for mode in found if mode is not None), key=lambda mode: -mode.log_mass):
        is_large = not modes or mode.log_mass - modes[0].log_mass > MIN_LOG_MASS
        if is_large and not any(_is_same(model, mode.mode, other) for other in modes):
            modes.append(mode)
    return tuple(modes)


def _is_same(model: BoundModel, position: Float[np.ndarray, " parameters"], mode: LocalGaussian) -> bool:
    """Whether it is within a standard deviation of the mode, with components in the order that is nearest."""
    if model.exchangeable:
        both = jnp.asarray(np.stack([mode.mode, position]), jnp.float32)
        position = np.asarray(relabel(model, both, np.array([1.0, 0.0]))[1], np.float64)
    step = position - mode.mode
    return bool(step @ mode.precision @ step <= 1)
