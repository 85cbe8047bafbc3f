"""Data checks that the built-in models share."""

from collections.abc import Mapping
from typing import Any

from evidentia.errors import DataError


def check_arrays(data: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise DataError unless `data` has exactly the names and the per-row shapes in `shapes`."""
    needed = ", ".join(f"{name!r}: {_written(shape)}" for name, shape in shapes.items())
    if not isinstance(data, Mapping):
        raise DataError(f"the model needs data as a mapping {{{needed}}}; got {type(data).__name__}.")
    if set(data) != set(shapes):
        raise DataError(
            f"the model needs data {{{needed}}}; got the names {', '.join(map(repr, data)) or 'none'}."
        )
    for name, shape in shapes.items():
        if data[name].shape[1:] != shape:
            raise DataError(f"data[{name!r}] must have shape {_written(shape)}; got {data[name].shape}.")


def _written(shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(map(str, shape))})" if shape else "(n,)"
