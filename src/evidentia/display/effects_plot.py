"""A plot of effects that vary by group, in order of size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evidentia.display.axes import axes_or_new
from evidentia.display.plots import COLORS, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MOST_NAMED = 60  # groups; the names of more cannot be read


def draw_effects(effects: DataFrame, name: str, ax: Axes | None = None) -> Axes:
    """Plot means with two standard deviations, and behind them two deviations of all groups.

    The deviation s of the groups' law includes their uncertainty, s² = mean of deviation² +
    variance of means.

    Args:
        effects: of `group_effects`.
        name: of the effect, a column of it.
        ax: axes to draw into; a new pyplot figure if not given.
    """
    ordered = effects.sort_values(name)
    mean, deviation = ordered[name].to_numpy(), ordered[f"{name} (sd)"].to_numpy()
    is_named, place = len(mean) <= MOST_NAMED, np.arange(len(mean))
    ax = axes_or_new(ax, 7, max(2.5, 0.6 + 0.2 * len(mean)) if is_named else 5)
    centre, spread = mean.mean(), np.sqrt(np.mean(deviation**2) + mean.var())
    ax.axvspan(centre - 2 * spread, centre + 2 * spread, color=COLORS[6], alpha=0.15, linewidth=0)
    ax.axvline(centre, color=COLORS[6], linestyle="--", linewidth=1)
    if is_named:
        ax.errorbar(mean, place, xerr=2 * deviation, fmt="o", color=COLORS[0], markersize=4, linewidth=1)
        ax.set_yticks(place, [verbatim(str(one)) for one in ordered.index])
        ax.set_ylabel(verbatim(str(effects.index.name)))
    else:
        ax.fill_betweenx(
            place, mean - 2 * deviation, mean + 2 * deviation, color=COLORS[0], alpha=0.25, linewidth=0
        )
        ax.plot(mean, place, color=COLORS[0])
        ax.set_ylabel(f"{len(mean):,} groups of {verbatim(str(effects.index.name))}, in order")
        ax.set_yticks([])
    ax.set_xlabel(f"{verbatim(name)}: mean and two standard deviations")
    ax.set_title("grey: two standard deviations of all groups", loc="left", fontsize="medium")
    ax.set_ylim(-1, len(mean))
    return ax
