"""Observed values that broadcasting repeats.

A mean of shape (n, 1) and n values make log-probabilities of shape (n, n), whose sum counts each
value n times: JAX and NumPyro add them up, and no number of the result shows it. A site may have
parameters of fewer entries than its values, but not of more; a single value, such as the zero of a
soft constraint, may have any number of log-probabilities.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from evidentia.errors import ModelError
from evidentia.model.program import log_prob

Shape = tuple[int, ...]


def check_not_repeated(message: Mapping[str, Any], rows: Any) -> None:
    """Raise ModelError if an observed site has more log-probabilities than values.

    Args:
        message: a sample statement of NumPyro's trace.
        rows: the data with which the program was called, for their shapes.
    """
    value, distribution = jnp.shape(message["value"]), message["fn"]
    if math.prod(value) <= 1:
        return
    try:
        drawn = jnp.broadcast_shapes(distribution.shape(), value)
    except ValueError:  # a distribution of one's own, whose values have other shapes than it says
        return
    batch, found = drawn[: len(drawn) - distribution.event_dim], jnp.shape(log_prob(message))
    by_scale = message["scale"] is not None and math.prod(found) > math.prod(batch)
    if by_scale or math.prod(drawn) > math.prod(value):
        other = "its scale" if by_scale else f"its distribution of shape {distribution.shape()}"
        raise ModelError(
            f"broadcasting repeats the values of the observed site {message['name']!r}{_called_with(rows)}: they have shape {value}, and "
            f"with {other} {found if by_scale else drawn}, so the likelihood would count each value several times. "
            f"{thin_arrays(rows) or 'Check the shapes in the model.'} If that is meant, repeat the values yourself: "
            "obs=jnp.broadcast_to(values, shape)."
        )


def _called_with(rows: Mapping[str, Any]) -> str:
    lengths = {jnp.shape(each)[:1] for each in rows.values()} - {()}
    return f" (called with {lengths.pop()[0]} rows)" if len(lengths) == 1 else ""


def thin_arrays(rows: Any) -> str:
    """The arrays with an axis of length one, which broadcasting stretches; or an empty text."""
    paths, _ = jax.tree_util.tree_flatten_with_path(rows)
    thin = {_name(path): jnp.shape(leaf) for path, leaf in paths if _is_thin(jnp.shape(leaf))}
    listed = ", ".join(f"{name} has shape {shape}" for name, shape in thin.items())
    return f"{listed}: drop the axis of length 1, with .squeeze()." if thin else ""


def _name(path: tuple[Any, ...]) -> str:
    return str(getattr(path[0], "key", f"data[{getattr(path[0], 'idx', '')}]")) if path else "data"


def _is_thin(shape: Shape) -> bool:
    return len(shape) > 1 and 1 in shape and math.prod(shape) > 1
