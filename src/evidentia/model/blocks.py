"""Functions of many positions, in blocks of few sizes, so that few programs are compiled."""

from collections.abc import Callable
from typing import Any

import numpy as np

BLOCK = 512  # largest number of positions at a time, whose distances to all components are in the cache


def in_blocks(function: Callable[..., Any], *arrays: Any, most: int = BLOCK, least: int = 1) -> np.ndarray:
    """A function of arrays with the same leading axis, along which they are split.

    Blocks have `least` to `most` entries, both powers of two, as are all sizes. The last block is
    filled up with copies of its last entry. With `least` equal to `most` there is one program: for
    functions whose compilation takes longer than a block.
    """
    on_host, count = [np.asarray(array) for array in arrays], len(arrays[0])
    size = max(least, min(most, 1 << (count - 1).bit_length()))
    found = []
    for start in range(0, count, size):
        blocks = [array[start : start + size] for array in on_host]
        found.append(np.asarray(function(*(filled(block, size) for block in blocks)))[: len(blocks[0])])
    return np.concatenate(found)


def filled(block: Any, size: int) -> np.ndarray:
    """The block with copies of its last entry, up to `size` entries."""
    block = np.asarray(block)
    return np.pad(block, [(0, size - len(block))] + [(0, 0)] * (block.ndim - 1), "edge")
