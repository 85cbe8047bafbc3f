"""Rows of a table in packs of whole groups, all of one shape.

Groups may have ten rows or ten thousand. Each is cut into strips of a few rows, the last one
padded with copies of a row that do not count, and whole groups are put into packs of as many
strips as the largest needs. Groups of one size make packs of one group and one strip.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

PRESENT = "evidentia_present"  # arrays of packs: whether a place holds a row
GROUP_OF_STRIP = "evidentia_group_of_strip"  # and the number of each strip's group in its pack
SIGNS = "evidentia_signs"  # (packs, groups): what the log-likelihood of a group counts: 1; 0 if there is none
PER_STRIP = 4  # work for a strip beside that for its rows, in rows


def are_packs(arrays: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether arrays are those of packs, not of rows."""
    return isinstance(arrays, Mapping) and PRESENT in arrays


class Packs(NamedTuple):
    """How rows are laid out as (packs, strips, width).

    Attributes:
        shape: numbers of packs, strips in each, and rows in a strip.
        groups: the most groups in a pack.
        places: of each row in the flattened layout.
        group_of_strip: for each pack and strip, the number of its group within the pack.
    """

    shape: tuple[int, int, int]
    groups: int
    places: Int[ndarray, " rows"]
    group_of_strip: Int[ndarray, "packs strips"]

    @property
    def group_of_row(self) -> Int[ndarray, " rows"]:
        """The number of each row's group among those of all packs, in order."""
        strip = self.places // self.shape[2]
        return strip // self.shape[1] * self.groups + self.group_of_strip.reshape(-1)[strip]

    @property
    def leads(self) -> Bool[ndarray, "packs strips width"]:
        """True in the first row of each group."""
        found = np.zeros(self.shape, bool)
        found.reshape(-1)[self.places[np.unique(self.group_of_row, return_index=True)[1]]] = True
        return found

    def arrays(self, rows: Mapping[str, ndarray], signs: Any = 1.0) -> dict[str, ndarray]:
        """Arrays of rows in this layout, with `PRESENT`, `GROUP_OF_STRIP` and `SIGNS`.

        `signs` are those of each row's group.
        """
        present = np.zeros(np.prod(self.shape), bool)
        present[self.places] = True
        of_groups = np.zeros((self.shape[0], self.groups), np.float32)
        of_groups.reshape(-1)[self.group_of_row] = signs
        packed = {
            PRESENT: present.reshape(self.shape),
            GROUP_OF_STRIP: self.group_of_strip,
            SIGNS: of_groups,
        }
        for name, array in rows.items():
            filled = np.repeat(array[:1], len(present), axis=0)  # a possible row, where none is
            filled[self.places] = array
            packed[name] = filled.reshape(*self.shape, *array.shape[1:])
        return packed


def packs_of(codes: Int[ndarray, " rows"]) -> Packs:
    """The layout of rows whose groups are numbered from 0."""
    sizes = np.bincount(codes)
    width = min(_widths(int(sizes.max())), key=lambda width: np.sum(-(-sizes // width)) * (width + PER_STRIP))
    lengths = -(-sizes // width)
    pack, first_strip, group, num_packs = _packed(lengths)
    shape = num_packs, int(lengths.max()), width
    order = np.argsort(codes, kind="stable")
    within = np.empty(len(codes), int)  # the number of a row in its group
    within[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    strip = pack[codes] * shape[1] + first_strip[codes] + within // width
    group_of_strip = np.zeros(shape[:2], np.int32)
    group_of_strip.reshape(-1)[strip] = group[codes]
    return Packs(shape, int(group.max()) + 1, strip * width + within % width, group_of_strip)


def _widths(largest: int) -> list[int]:
    return [*(1 << np.arange((largest - 1).bit_length())).tolist(), largest]


def _packed(lengths: Int[ndarray, " groups"]) -> tuple[ndarray, ndarray, ndarray, int]:
    """For each group its pack, its first strip and its number there; and how many packs there are.

    Longest first, each into the pack that it fills best.
    """
    capacity = int(lengths.max())
    places = np.zeros((3, len(lengths)), int)
    counts: list[int] = []
    room: list[tuple[int, int]] = []  # strips left and pack, sorted; full packs are left out
    for index in np.argsort(-lengths, kind="stable"):
        length = int(lengths[index])
        found = bisect.bisect_left(room, (length, 0))
        if found == len(room):
            left, pack = capacity, len(counts)
            counts.append(0)
        else:
            left, pack = room.pop(found)
        places[:, index] = pack, capacity - left, counts[pack]
        counts[pack] += 1
        if left > length:
            bisect.insort(room, (left - length, pack))
    return places[0], places[1], places[2], len(counts)
