"""Lossless packing of nested records to a JSON skeleton and arrays; unpacking runs no stored code.

Supported values: None, booleans, numbers, strings, lists, tuples, dictionaries with string keys,
NumPy and JAX arrays, JAX random keys, and the named tuples and data classes that the reader lists.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


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
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.bool | np.number):
        return value.item()
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
        case {"array": index}:
            return arrays[index]
        case {"device_array": index}:
            return jnp.asarray(arrays[index])
        case {"key": index}:
            return jax.random.wrap_key_data(jnp.asarray(arrays[index]))
        case {"record": name, "fields": fields}:
            if name not in (records or {}):
                raise UnknownRecordError(f"it holds a {name}")
            found = {key: unpack(field, arrays, records) for key, field in fields.items()}
            return (records or {})[name](**found)
        case {"tuple": entries}:
            return tuple(unpack(entry, arrays, records) for entry in entries)
        case {"list": entries}:
            return [unpack(entry, arrays, records) for entry in entries]
        case {"mapping": entries}:
            return {key: unpack(entry, arrays, records) for key, entry in entries.items()}
    raise ValueError(f"not a packed value: {sorted(skeleton)}")


def _pack_array(value: np.ndarray | jax.Array, arrays: list[np.ndarray]) -> dict[str, int]:
    kind = "array"
    if isinstance(value, jax.Array):
        kind = "device_array"
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            kind, value = "key", jax.random.key_data(value)
    arrays.append(np.asarray(value))
    return {kind: len(arrays) - 1}
