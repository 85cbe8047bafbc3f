"""What ArviZ 0.22 to 0.23 and ArviZ 1 do in different ways. ArviZ is slow to import.

Its `ess`, `rhat` and `summary` are the same in both, and called where they are needed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

NOT_IN_FROM_DICT = ("log_prior",)  # of ArviZ before 1
MOST_TICKS = 12
MOST_PREDICTED = 50  # data sets in a picture


def inference_data(groups: Mapping[str, Mapping[str, ndarray]], attributes: Mapping[str, Any]) -> Any:
    """Groups of arrays (chains, draws, ...) as a DataTree of ArviZ 1, or InferenceData before it.

    The attributes are those of the whole and of the group `posterior`.
    """
    import arviz

    if _is_split():
        places = {"/", "posterior"} & {"/", *groups}
        return arviz.from_dict(groups, attrs=dict.fromkeys(places, attributes))  # pyright: ignore
    more = {name: values for name, values in groups.items() if name in NOT_IN_FROM_DICT}
    others = {name: values for name, values in groups.items() if name not in more}
    found = arviz.from_dict(**others, attrs=attributes, posterior_attrs=attributes)  # pyright: ignore
    for name, values in more.items():
        found.add_groups({name: arviz.dict_to_dataset(dict(values))})  # pyright: ignore
    return found


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


def predictive_check(predicted: Mapping[str, ndarray], observed: Mapping[str, ndarray], seed: int) -> Any:
    """ArviZ's plot of predictions (draws, rows, ...) beside the observations: Matplotlib's axes.

    Categories are shown by their places in sorted order, with their names below.
    """
    import arviz
    from matplotlib import MatplotlibDeprecationWarning

    levels = {
        name: np.unique(np.concatenate([observed[name].astype(str), values.astype(str).ravel()]))
        for name, values in predicted.items()
        if values.dtype.kind not in "biuf"
    }

    def numbers(name: str, values: ndarray) -> ndarray:
        return np.searchsorted(levels[name], values.astype(str)) if name in levels else values

    groups = {
        "posterior_predictive": {name: numbers(name, values)[None] for name, values in predicted.items()},
        "observed_data": {name: numbers(name, values) for name, values in observed.items()},
    }
    data = inference_data(groups, {})
    with warnings.catch_warnings():
        # ArviZ 0.x calls what Matplotlib 3.11 deprecates; ArviZ 1 suggests other plots for counts.
        warnings.simplefilter("ignore", MatplotlibDeprecationWarning)
        warnings.filterwarnings("ignore", "Variables .* look (discrete|binary)", UserWarning)
        if _is_split():
            is_real = all(values.dtype.kind == "f" for values in predicted.values())
            made = arviz.plot_ppc_dist(  # pyright: ignore
                data,
                backend="matplotlib",
                kind="kde" if is_real else "ecdf",
                num_samples=min(MOST_PREDICTED, *(len(values) for values in predicted.values())),
                visuals={"title": False, "remove_axis": False},
            )
            axes = made.viz["figure"].item().axes
        else:
            axes = np.ravel(arviz.plot_ppc(data, random_seed=seed))  # pyright: ignore
    for ax, name in zip(axes, predicted, strict=False):
        ax.set_xlabel(name)
        shown = groups["posterior_predictive"][name]
        is_cumulative = _is_split() and shown.dtype.kind != "f"
        of_bars = "share" if name in levels else "density"
        ax.set_ylabel("share at or below" if is_cumulative else of_bars)
        low, high = shown.min(), shown.max()
        if shown.dtype.kind == "f":
            ax.set_xlim(*_limits(shown, groups["observed_data"][name]))
        elif high - low < MOST_TICKS:
            places = np.arange(int(low), int(high) + 1)
            ax.set_xticks(
                places if is_cumulative else places + 0.5, levels[name][places] if name in levels else places
            )
    axes[0].figure.set_layout_engine("constrained")
    return np.array(axes, dtype=object)


def _limits(draws: ndarray, observed: ndarray) -> tuple[float, float]:
    """Limits of all observations and of the central 99% of draws: a few may be far away."""
    low, high = np.quantile(draws, (0.005, 0.995))
    low, high = min(low, np.min(observed)), max(high, np.max(observed))
    margin = 0.05 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


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
