"""What ArviZ 0.22 to 0.23 and ArviZ 1 do in different ways. ArviZ is slow to import.

Its `ess`, `rhat` and `summary` are the same in both, and called where they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from jaxtyping import Float
from numpy import ndarray


def inference_data(groups: Mapping[str, Mapping[str, ndarray]], attributes: Mapping[str, Any]) -> Any:
    """Groups of arrays (chains, draws, ...) as a DataTree of ArviZ 1, or InferenceData before it.

    The attributes are those of the whole and of the group `posterior`.
    """
    import arviz

    if _is_split():
        return arviz.from_dict(groups, attrs={"/": attributes, "posterior": attributes})  # pyright: ignore
    return arviz.from_dict(**groups, attrs=attributes, posterior_attrs=attributes)  # pyright: ignore


def posterior_arrays(draws: Any) -> dict[str, ndarray] | None:
    """Arrays (chains, draws, ...) of the group `posterior` by name; None if there is none.

    `draws` is InferenceData, a DataTree, or xarray's Dataset of that group.
    """
    group = getattr(draws, "posterior", draws)
    variables = getattr(group, "data_vars", None)
    if not isinstance(variables, Mapping):
        return None
    axes = "chain", "draw"
    return {
        str(name): variable.transpose(*axes, ...).values
        for name, variable in variables.items()
        if set(axes) <= set(variable.dims)
    }


def pareto_shape(log_weights: Float[ndarray, " particles"]) -> float:
    """Shape k of the generalised Pareto distribution fitted to the largest of finite weights.

    Infinite if it cannot be fitted: fewer than five weights in the tail, or all the same.
    """
    try:
        if _is_split():
            array_stats = import_module("arviz_stats.base").array_stats  # which ArviZ 1 brings along
            shape = float(array_stats.psislw(-log_weights)[1])  # it takes log-likelihoods, as for LOO
        else:
            from arviz import psislw  # pyright: ignore

            shape = float(psislw(log_weights)[1])
    except (ValueError, IndexError):  # too few, or equal
        return math.inf
    return math.inf if math.isnan(shape) else shape


def _is_split() -> bool:
    """Whether this is ArviZ 1, which consists of several packages."""
    return int(version("arviz").partition(".")[0]) >= 1
