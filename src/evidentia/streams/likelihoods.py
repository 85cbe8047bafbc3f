"""Log-likelihoods of many small data sets of any lengths, by a few compiled programs.

The rows of each data set are cut into pieces of a few fixed lengths. A program takes a fixed
number of pieces, each with its own positions, and works through as many of them as there are: no
number of data sets and no length compiles anything new. The host adds the pieces in float64.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.data.arrays import num_rows, with_rows
from evidentia.model.bound import MOST_IN_FLOAT32, BoundModel
from evidentia.system.compilation import compiled
from evidentia.system.interruption import check

LENGTHS = 256, 64, 16  # rows of a piece
PIECES = 64  # of a program

Positions = Float[np.ndarray, "datasets draws parameters"]
OfDraws = Float[np.ndarray, "datasets draws"]


def log_likelihoods(model: BoundModel, positions: Positions, datasets: Sequence[Any]) -> OfDraws:
    """Sum of the log-likelihoods of each data set's rows at its positions, in nats, float64."""
    found = np.zeros(positions.shape[:2])
    pieces: dict[int, list[tuple[int, Any, int]]] = {length: [] for length in LENGTHS}
    for index, rows in enumerate(datasets):
        first, left = 0, num_rows(rows)
        while left:
            length = next((each for each in LENGTHS if each <= left), LENGTHS[-1])
            size = min(length, left)
            pieces[length].append((index, _cut(rows, first, size, length), size))
            first, left = first + size, left - size
    for group in pieces.values():
        for start in range(0, len(group), PIECES):
            check()
            which, parts, sizes = zip(*group[start : start + PIECES], strict=True)
            sums = _sums_of_pieces(model, positions, which, parts, sizes)
            np.add.at(found, np.asarray(which), sums)
    return found


def log_priors(model: BoundModel, positions: Positions) -> OfDraws:
    """Log prior densities at positions, in nats, float64."""
    found = np.zeros(positions.shape[:2])
    for start in range(0, len(positions), PIECES):
        block = positions[start : start + PIECES]
        values = _priors(model, with_rows(block, PIECES), len(block))
        found[start : start + PIECES] = np.asarray(values)[: len(block)]
    for index in np.flatnonzero(np.abs(np.where(np.isfinite(found), found, 0.0)).max(1) > MOST_IN_FLOAT32):
        found[index] = model.log_priors(jnp.asarray(positions[index]))
    return found


def _cut(rows: Any, first: int, size: int, length: int) -> Any:
    cut = jax.tree.map(lambda leaf: leaf[first : first + size], rows)
    return cut if size == length else jax.tree.map(lambda leaf: with_rows(leaf, length), cut)


def _sums_of_pieces(model, positions, which, parts, sizes) -> np.ndarray:
    count = len(which)
    chosen = [*which, *[which[-1]] * (PIECES - count)]
    filled = [*parts, *[parts[-1]] * (PIECES - count)]
    rows = jax.tree.map(lambda *leaves: np.stack(leaves), *filled)
    sizes = np.array([*sizes, *[1] * (PIECES - count)], np.int32)
    return np.asarray(_program(model, positions[chosen], rows, sizes, count), np.float64)[:count]


# A loop computes the same for a data set wherever it stands; elements of one large array may be
# rounded differently.


@compiled(static_argnames="model")
def _program(model, positions, rows, sizes, count):
    length = jax.tree.leaves(rows)[0].shape[1]

    def one(index, found):
        piece = jax.tree.map(lambda leaf: leaf[index], rows)
        is_row = jnp.arange(length) < sizes[index]

        def at(position):
            return jnp.sum(model.log_likelihood(position, piece), where=is_row)

        return found.at[index].set(jax.vmap(at)(positions[index]))

    return jax.lax.fori_loop(0, count, one, jnp.zeros(positions.shape[:2], positions.dtype))


@compiled(static_argnames="model")
def _priors(model, positions, count):
    def one(index, found):
        return found.at[index].set(jax.vmap(model.log_prior)(positions[index]))

    return jax.lax.fori_loop(0, count, one, jnp.zeros(positions.shape[:2], positions.dtype))
