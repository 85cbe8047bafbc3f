"""The many small arrays of a checkpoint in a few large ones.

A stream of ten thousand keys has a hundred thousand arrays of some numbers each. As members of a
file each takes far longer than its numbers, so all arrays of one type are joined.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.checkpoint.packing import as_damaged, pack, unpack


def bundled(content: Any) -> dict[str, Any]:
    """What a checkpoint may hold, as one text and one array for each type of numbers.

    Example:
        >>> bundle = bundled({"a": [np.zeros(2), np.ones((1, 2))]})
        >>> bundle["numbers"]
        {'float64': array([0., 0., 1., 1.])}
        >>> unbundled(bundle, {})
        {'a': [array([0., 0.]), array([[1., 1.]])]}
    """
    arrays: list[ndarray] = []
    skeleton = json.dumps(pack(content, arrays))
    types = sorted({array.dtype.name for array in arrays})
    joined = {
        name: np.concatenate([array.ravel() for array in arrays if array.dtype.name == name])
        for name in types
    }
    shapes = json.dumps([[types.index(array.dtype.name), *array.shape] for array in arrays])
    return {"skeleton": _bytes(skeleton), "shapes": _bytes(shapes), "numbers": joined}


def unbundled(bundle: Mapping[str, Any], records: Mapping[str, type]) -> Any:
    """The content of a bundle. Raises CheckpointError if it is damaged, or of other `records`."""
    with as_damaged():
        numbers: list[ndarray] = list(bundle["numbers"].values())
        places = [0] * len(numbers)
        arrays: list[ndarray] = []
        for kind, *shape in json.loads(bundle["shapes"].tobytes()):
            first, size = places[kind], math.prod(shape)
            arrays.append(numbers[kind][first : first + size].reshape(shape).copy())
            places[kind] = first + size
        return unpack(json.loads(bundle["skeleton"].tobytes()), arrays, records)


def _bytes(text: str) -> ndarray:
    return np.frombuffer(text.encode(), np.uint8)
