"""Whether a change of the parameters leaves prior and likelihood as they are.

Candidates are screened at one random position each, by a program that the checks of the model have
compiled; those that pass are confirmed in float64 at several.
"""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from evidentia.model.probe import NUM_NEAR, NUM_POSITIONS, Values
from evidentia.model.program import Densities, Observations
from evidentia.system.compilation import in_float64

INFLUENCE = 1e-6  # smallest relative change of a row's log-likelihood that counts
SHIFT = 0.5  # of a coordinate, to see its influence
SCREENED = 1e-4  # relative difference that float32 may have
CONFIRMED = 1e-9  # and float64
NUM_CONFIRMED = 4  # positions

Index = dict[str, np.ndarray]  # these coordinates in the shape of each parameter


def influential(evaluate, positions) -> np.ndarray:
    """Whether each coordinate changes the log-likelihood of some row, at one position."""
    far, size = _far(), positions.shape[1]
    before, found = _heights(evaluate(positions[far]))[:, 1:], []
    for start in range(0, size, NUM_POSITIONS):
        moved = positions[far].copy()
        for row, coordinate in enumerate(range(start, min(start + NUM_POSITIONS, size))):
            moved[row, coordinate] += SHIFT
        after = _heights(evaluate(moved))[:, 1:]
        found += [not _is_same(before[row], after[row], INFLUENCE) for row in range(NUM_POSITIONS)]
    return np.array(found[:size])


def screened(evaluate, positions, values, changes) -> list[bool]:
    """Whether log prior and log-likelihoods are the same after each change, at one position."""
    far = _far()
    before, passed = _heights(values)[far], []
    for start in range(0, len(changes), NUM_POSITIONS):
        block, moved = changes[start : start + NUM_POSITIONS], positions[far].copy()
        for row, (order, signs) in enumerate(block):
            moved[row, : len(signs)] = moved[row, : len(signs)][order] * signs
        after = _heights(evaluate(moved))
        passed += [_is_same(before[row], after[row], SCREENED) for row in range(len(block))]
    return passed


def _far() -> np.ndarray:
    """Positions away from zero, each of them twice."""
    return NUM_NEAR + np.arange(NUM_POSITIONS) % (NUM_POSITIONS - NUM_NEAR)


def _heights(values: Values) -> np.ndarray:
    """The log prior density, and the log-likelihood of every row of all batches, by position."""
    prior = sum(value[0] for value in values.prior[1].values())
    rows = np.moveaxis(values.log_likelihoods, 0, 1)
    return np.column_stack([prior, rows.reshape(len(rows), -1)])


def is_confirmed(heights: Callable[[Index], np.ndarray], params: Index, change) -> bool:
    """Whether a change of constrained parameters passes in float64."""
    few = {name: value[NUM_NEAR:][:NUM_CONFIRMED] for name, value in params.items()}
    return _is_same(heights(few), heights(change(few)), CONFIRMED)


def exact_heights(densities: Densities, rows: Observations) -> Callable[[Index], np.ndarray]:
    """As `_heights` in float64, without Jacobians; compiled at the first call."""

    def widen(tree):
        return jax.tree.map(lambda leaf: leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf, tree)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, None))
    def program(params, rows):
        return densities.log_prior_of(params), densities.pointwise(params, rows)

    def heights(params):
        with in_float64(densities.runs_in_float64):
            prior, likelihood = program(widen(params), widen(rows))
            return np.column_stack([np.asarray(prior), np.asarray(likelihood)])

    return heights


def _is_same(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    """Whether heights agree to a relative tolerance, infinite ones exactly."""
    finite = np.isfinite(one)
    is_close = np.abs(one[finite] - other[finite]) <= tolerance * np.maximum(1.0, np.abs(one[finite]))
    return bool(is_close.all()) and np.array_equal(one[~finite], other[~finite], equal_nan=True)
