"""Methods as text and, if all their parts are of this package, as data to rebuild them from."""

import dataclasses
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from evidentia.checkpoint.packing import pack, unpack

PACKAGE = __name__.partition(".")[0]


def pack_method(method: Any) -> dict[str, Any]:
    """Convert a method to JSON: its text and, if it comes back equal, its parts and their classes.

    A user's own class or function cannot be rebuilt without running stored code; nor can an array,
    as arrays of a method have no place in the file.

    Example:
        >>> unpack_method(pack_method(ev.AIS(num_particles=64))).num_particles  # doctest: +SKIP
        64
    """
    packed = {"text": method if isinstance(method, str) else repr(method)}
    arrays: list[np.ndarray] = []
    try:
        whole = {**packed, "classes": dict(_classes(method)), "parts": pack(method, arrays)}
        comes_back = not arrays and _rebuilt(whole) == method
    except Exception:  # of any kind, as the methods of others compare as they like
        return packed
    return whole if comes_back else packed


def unpack_method(packed: dict[str, Any]) -> Any:
    """Rebuild a method; the text of one that has no parts, or whose classes have changed."""
    try:
        return _rebuilt(packed) if "parts" in packed else packed["text"]
    except Exception:  # of any kind: another version may have other classes, fields and checks
        return packed["text"]


def _classes(value: Any) -> Iterator[tuple[str, str]]:
    """The names of the data classes in a value, and their modules."""
    if isinstance(value, tuple | list):
        for entry in value:
            yield from _classes(entry)
    elif dataclasses.is_dataclass(value):
        yield type(value).__name__, type(value).__module__
        for field in dataclasses.fields(value):
            yield from _classes(getattr(value, field.name))


def _rebuilt(packed: dict[str, Any]) -> Any:
    records = {name: _class_of(name, module) for name, module in packed["classes"].items()}
    return unpack(packed["parts"], [], records)


def _class_of(name: str, module: str) -> type:
    """A data class of this package; nothing else is imported because a file names it."""
    if module.partition(".")[0] != PACKAGE:
        raise LookupError(f"{module}.{name} is not a class of {PACKAGE}")
    found = getattr(import_module(module), name)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise LookupError(f"{module}.{name} is not a data class")
    return found
