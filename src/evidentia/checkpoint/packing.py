"""Lossless packing of nested records to a JSON skeleton and arrays; unpacking runs no stored code.

Supported values: None, booleans, numbers, strings, lists, tuples, dictionaries with string keys,
NumPy and JAX arrays, JAX random keys, and the named tuples and data classes that the reader lists.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import AbstractArray, jaxtyped

from evidentia.errors import CheckpointError
from evidentia.system.sharing import check_not_forked


class UnknownRecordError(LookupError):
    """A named tuple or data class that the reader does not list."""


def pack(value: Any, arrays: list[np.ndarray]) -> Any:
    """Convert a value to JSON, appending its arrays to `arrays` and storing their indices.

    Example:
        >>> pack((1.5, np.zeros(3)), arrays := [])
        {'tuple': [1.5, {'array': 0}]}
        >>> unpack({'tuple': [1.5, {'array': 0}]}, arrays)
        (1.5, array([0., 0., 0.]))
    """
    if isinstance(value, np.bool | np.number):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(float(value))}  # JSON has no such numbers
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | jax.Array):
        return _pack_array(value, arrays)
    if hasattr(value, "_asdict"):
        fields = {name: pack(field, arrays) for name, field in value._asdict().items()}
        return {"record": type(value).__name__, "fields": fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        fields = {name: pack(getattr(value, name), arrays) for name in names}
        return {"record": type(value).__name__, "fields": fields}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [pack(entry, arrays) for entry in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"mapping": {key: pack(entry, arrays) for key, entry in value.items()}}
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def unpack(skeleton: Any, arrays: Sequence[np.ndarray], records: Mapping[str, type] | None = None) -> Any:
    """Rebuild a packed value; `records` maps names to named tuple and data classes."""
    if not isinstance(skeleton, dict):
        return skeleton
    match skeleton:
        case {"float": text}:
            return float(text)
        case {"array": index}:
            return arrays[index]
        case {"device_array": index}:
            check_not_forked()
            return jnp.asarray(arrays[index])
        case {"key": index}:
            check_not_forked()
            return jax.random.wrap_key_data(jnp.asarray(arrays[index]))
        case {"record": name, "fields": fields}:
            if name not in (records or {}):
                raise UnknownRecordError(f"it holds a {name}")
            found = {key: unpack(field, arrays, records) for key, field in fields.items()}
            record = (records or {})[name](**found)
            check_fields(record)
            return record
        case {"tuple": entries}:
            return tuple(unpack(entry, arrays, records) for entry in entries)
        case {"list": entries}:
            return [unpack(entry, arrays, records) for entry in entries]
        case {"mapping": entries}:
            return {key: unpack(entry, arrays, records) for key, entry in entries.items()}
    raise ValueError(f"not a packed value: {sorted(skeleton)}")


@contextmanager
def as_damaged(what: str = "the checkpoint") -> Iterator[None]:
    """Turn every exception while an object is rebuilt from a file into a CheckpointError."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # of any kind, as anything can be missing
        reason = str(error).rstrip(".")
        raise CheckpointError(f"{what} is damaged: {reason}.") from error


def check_fields(record: Any) -> None:
    """Raise TypeError unless each field of a record has its annotated type.

    The shapes in annotations count too: an axis has the same size wherever it is named in a
    record. Integers of more than 64 bits have no type here.
    """
    with jaxtyped("context"):  # in which the names of axes are bound
        for name, hint in _hints(type(record)).items():
            if not _is_a(value := getattr(record, name), hint):
                raise TypeError(f"{name} of {type(record).__name__} is {_described(value)}")


@cache
def _hints(record: type) -> dict[str, Any]:
    hints = get_type_hints(record)
    names = getattr(record, "_fields", None) or [field.name for field in dataclasses.fields(record)]
    return {name: hints[name] for name in names}


def _is_a(value: Any, hint: Any) -> bool:
    """Whether a value has a type, of the kinds that records have."""
    if hint is Any:
        return True
    kind, members = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_a(value, member) for member in members)
    if kind is Literal:
        return value in members
    if kind is tuple:
        if not isinstance(value, tuple):
            return False
        members = members[:1] * len(value) if members[-1:] == (...,) else members
        return len(members) == len(value) and all(map(_is_a, value, members))
    if kind is dict:
        return isinstance(value, dict) and all(_is_a(entry, members[1]) for entry in value.values())
    if kind is not None:  # a generic type, such as Sequence[float]
        return isinstance(value, kind)
    if isinstance(value, bool):  # which Python counts as integers
        return hint is bool
    if isinstance(value, int):
        return hint in (int, float) and abs(value) < 2**63
    if isinstance(value, float) and issubclass(hint, AbstractArray):
        value = np.float64(value)  # which was packed as a number
    return isinstance(value, hint)


def _described(value: Any) -> str:
    is_array = isinstance(value, np.ndarray | jax.Array)
    return f"an array of {value.dtype} of shape {value.shape}" if is_array else f"a {type(value).__name__}"


def _pack_array(value: np.ndarray | jax.Array, arrays: list[np.ndarray]) -> dict[str, int]:
    kind = "array"
    if isinstance(value, jax.Array):
        kind = "device_array"
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            kind, value = "key", jax.random.key_data(value)
    arrays.append(np.asarray(value))
    return {kind: len(arrays) - 1}
