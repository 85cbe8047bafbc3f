"""The picture of a regression's parameters, each on a scale of its own; names in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Shaped
from numpy import ndarray

from evidentia.display.plots import COLORS, verbatim
from evidentia.posterior.summary import ParameterSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CUTS = 0.025, 0.25, 0.5, 0.75, 0.975  # the quantiles that are drawn
ROW, LETTER = 0.42, 0.085  # inches: the height of an axis, and the width of a letter
WIDTH = 8.0
MOST_MARGIN = 0.6  # of the width, for names


def natural(name: str) -> str:
    """The name of a coefficient in words.

    Example:
        >>> natural("species[T.Gentoo]"), natural("sex[T.male]:year")
        ('species = Gentoo', 'sex = male × year')
    """
    parts = re.split(r":(?![^\[]*\])", name) if "[" in name else [name]
    return " × ".join(re.sub(r"\[(?:T\.)?(.*)\]$", r" = \1", part) for part in parts)


def height_of(count: int) -> float:
    """The height in inches of a figure with a number of parameters."""
    return ROW * count + 0.5


def draw_coefficients(
    summaries: Sequence[ParameterSummary], figure: Figure | None = None
) -> Shaped[ndarray, " parameters"]:
    """Plot the median, 50% and 95% interval of each parameter, with 0, on an axis of its own.

    On one axis, the widest interval would hide the others.

    Args:
        summaries: at least one, with the quantiles `CUTS`.
        figure: to draw into, eight inches wide and `height_of` these high; a new pyplot figure if
            not given.

    Returns:
        The axes.
    """
    height = height_of(len(summaries))
    if figure is None:
        import matplotlib.pyplot

        figure = matplotlib.pyplot.figure(figsize=(WIDTH, height))
    names = [verbatim(natural(one.name)) for one in summaries]
    axes = figure.subplots(len(summaries), 1, squeeze=False)[:, 0]
    margin = min((0.25 + LETTER * max(map(len, names))) / WIDTH, MOST_MARGIN)
    figure.subplots_adjust(left=margin, right=0.98, top=1 - 0.35 / height, bottom=0.3 / height, hspace=1.1)
    for ax, one, name in zip(axes, summaries, names, strict=True):
        _draw_one(ax, one, name)
    axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=8)
    return axes


def _draw_one(ax: Axes, one: ParameterSummary, name: str) -> None:
    low, lower, median, upper, high = one.quantiles
    is_far = (low > 0 and low > 3 * (high - low)) or (high < 0 and -high > 3 * (high - low))
    if not is_far:  # else the axis would be empty up to it
        ax.axvline(0.0, color="black", linewidth=1, linestyle="--")
    ax.hlines(0, low, high, color=COLORS[0], linewidth=1.2, label="95% interval")
    ax.hlines(0, lower, upper, color=COLORS[0], linewidth=4, label="50% interval")
    ax.plot(median, 0, "o", color="white", markeredgecolor=COLORS[0], markersize=5, label="median")
    ax.set_yticks([0], [name])
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=7, length=2, pad=1)
    ax.locator_params(axis="x", nbins=6)
    for side in ("top", "left", "right"):
        ax.spines[side].set_visible(False)
