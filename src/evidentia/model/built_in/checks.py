"""Data checks that the built-in models share."""

from collections.abc import Mapping
from typing import Any

from evidentia.errors import DataError, check_memory
from evidentia.model.probe import NUM_POSITIONS

NUM_ROWS = 1152  # with their derivatives: 3 batches of 64 rows, each held six times


def check_size(given: str, num_parameters: int, num_terms: int = 1) -> None:
    """Raise ConfigurationError if the check of a model would exceed the machine's memory.

    `num_terms` is the number of terms, such as logits, in the log-likelihood of a row.
    """
    size = max(num_parameters, NUM_ROWS * num_terms)
    check_memory(given, f"{NUM_POSITIONS} draws that check the model", NUM_POSITIONS * size * 4)  # float32


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
