"""Groups, and changes of groups, as units of the likelihood: packs of one shape, in one window.

A unit is a group, or the difference of one after new rows and before; a pack has several. A group
takes strips of a few rows, and a unit as many strips as a power of two, so that units in order of
their lengths fill packs without gaps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.data.arrays import with_rows
from evidentia.model.local.groups import COPIES, LEADS
from evidentia.model.local.packs import Packs
from evidentia.online.condensed import Condensed
from evidentia.posterior.rows import Window

WIDTH = 4  # rows in a strip
LEAST_STRIPS, LEAST_PACKS, GROWTH = 2, 64, 4  # of the arrays, which grow: each size is compiled


class Signed(NamedTuple):
    """Rows of groups, whose log-likelihoods are added or subtracted.

    Attributes:
        rows: in any order.
        units: the number of each row's unit.
        signs: 1 or -1; the rows of a unit with one sign are a group.
    """

    rows: Condensed
    units: Int[ndarray, " rows"]
    signs: Float[ndarray, " rows"]


def groups(rows: Condensed, units: Int[ndarray, " rows"]) -> Signed:
    """Groups, which are units."""
    return Signed(rows, units, np.ones(len(units)))


def changes(after: Signed, before: Signed) -> Signed:
    """The changes of groups."""
    units, signs = (np.concatenate([one, other]) for one, other in zip(after[1:], before[1:], strict=True))
    return Signed(
        after.rows.beside(before.rows),
        units,
        np.where(np.arange(len(units)) < len(after.units), 1, -1) * signs,
    )


def windows(*parts: Signed) -> list[Window]:
    """Windows that follow each other in the same arrays, which are padded."""
    strips = _strips(parts)
    layouts = [_layout(part, strips) for part in parts]
    counts = [_counts(part, layout) for part, layout in zip(parts, layouts, strict=True)]
    stops = np.cumsum([len(each) for each in counts]).tolist()
    size = LEAST_PACKS
    while size < stops[-1]:
        size *= GROWTH
    packed = [_arrays(part, layout) for part, layout in zip(parts, layouts, strict=True)]
    arrays = jax.tree.map(lambda *leaves: jnp.asarray(with_rows(np.concatenate(leaves), size)), *packed)
    numbers = tuple(np.concatenate(counts).tolist())
    starts = [0, *stops[:-1]]
    return [Window(arrays, start, stop, counts=numbers) for start, stop in zip(starts, stops, strict=True)]


def packs(part: Signed, is_alone: bool = False) -> dict[str, ndarray]:
    """Arrays of packs on the host; `is_alone` puts each unit, in order, into a pack of its own."""
    return _arrays(part, _layout(part, _strips([part]), is_alone))


def _strips(parts: Sequence[Signed]) -> int:
    """How many strips packs need, in which each unit has its place."""
    needed, found = max(int(_lengths(part)[2].max(initial=1)) for part in parts), LEAST_STRIPS
    while found < needed:
        found *= GROWTH
    return found


def _lengths(part: Signed) -> tuple[ndarray, ndarray, ndarray]:
    """For each row its group; for each group its unit, numbered from 0; and strips of units."""
    keys, group = np.unique(np.stack([part.units, -part.signs], 1), axis=0, return_inverse=True)
    unit = np.unique(keys[:, 0], return_inverse=True)[1]
    strips = -(-np.bincount(group.ravel(), minlength=len(keys)) // WIDTH)
    return group.ravel(), unit, np.bincount(unit, strips).astype(int)


def _layout(part: Signed, strips: int, is_alone: bool = False) -> Packs:
    group, unit, lengths = _lengths(part)
    taken = np.full(len(lengths), strips) if is_alone else 1 << np.ceil(np.log2(lengths)).astype(int)
    order = np.argsort(-taken, kind="stable")
    first = np.empty(len(taken), int)
    first[order] = np.cumsum(taken[order]) - taken[order]
    sizes = np.bincount(group, minlength=len(unit))
    own = -(-sizes // WIDTH)
    # The groups of a unit follow each other.
    before = np.cumsum(own) - own
    first_strip = first[unit] + before - before[np.searchsorted(unit, unit)]
    by_group = np.argsort(group, kind="stable")
    within = np.empty(len(group), int)
    within[by_group] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    strip = first_strip[group] + within // WIDTH
    count = -(-int(taken.sum()) // strips)
    # The number of a group in its pack is that of its first strip.
    group_of_strip = np.zeros((count, strips), np.int32)
    group_of_strip.reshape(-1)[strip] = first_strip[group] % strips
    return Packs((count, strips, WIDTH), strips, strip * WIDTH + within % WIDTH, group_of_strip)


def _arrays(part: Signed, layout: Packs) -> dict[str, ndarray]:
    columns = {**part.rows.arrays, COPIES: part.rows.copies.astype(np.float32)}
    return {**layout.arrays(columns, part.signs), LEADS: layout.leads}


def _counts(part: Signed, layout: Packs) -> Int[ndarray, " packs"]:
    """How many observations the units of each pack add."""
    pack = layout.places // (layout.shape[1] * layout.shape[2])
    return np.rint(np.bincount(pack, part.signs * part.rows.copies, layout.shape[0])).astype(int)
