"""Configurations of methods, and other values, in plain words and JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

if TYPE_CHECKING:
    pass


def configuration_name(method: Any) -> str:
    """The name of a method's type, also of one that was loaded as text.

    Example:
        >>> configuration_name("Mine(num_particles=64)")
        'Mine'
    """
    return method.partition("(")[0] if isinstance(method, str) else type(method).__name__


def configuration(method: Any) -> Any:
    """A method's configuration as a nested dictionary of types and fields.

    Example:
        >>> configuration(ev.SGAIS())["num_particles"]  # doctest: +SKIP
        512
    """
    if dataclasses.is_dataclass(method) and not isinstance(method, type):
        values = {
            entry.name: configuration(getattr(method, entry.name)) for entry in dataclasses.fields(method)
        }
        return {"type": type(method).__name__, **values}
    return method if isinstance(method, bool | int | float | str | None) else repr(method)


def jsonable(value: Any) -> Any:
    """Make a value JSON-compatible: arrays become lists, and non-finite numbers None."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(entry) for entry in value]
    if isinstance(value, np.generic | ndarray):
        return jsonable(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
