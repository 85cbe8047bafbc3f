"""The picture of a regression's coefficients, and their names in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from matplotlib.figure import Figure

from evidentia.display.plots import COLORS, verbatim
from evidentia.posterior.summary import ParameterSummary

ROW = 0.42  # inches


def natural(name: str) -> str:
    """The name of a coefficient in words.

    Example:
        >>> natural("species[T.Gentoo]"), natural("sex[T.male]:year")
        ('species = Gentoo', 'sex = male × year')
    """
    parts = re.split(r":(?![^\[]*\])", name) if "[" in name else [name]
    return " × ".join(re.sub(r"\[(?:T\.)?(.*)\]$", r" = \1", part) for part in parts)


def draw_coefficients(summaries: Sequence[ParameterSummary]) -> Figure:
    """The median, 50% and 90% interval of each coefficient, with 0, on an axis of its own.

    On one axis, the widest interval would hide the others.
    """
    height = ROW * len(summaries) + 0.5
    figure = Figure(figsize=(8, height))
    axes = figure.subplots(len(summaries), 1, squeeze=False)[:, 0]
    figure.subplots_adjust(left=0.34, right=0.98, top=1 - 0.35 / height, bottom=0.3 / height, hspace=1.1)
    for ax, one in zip(axes, summaries, strict=True):
        low, lower, median, upper, high = one.quantiles
        ax.axvline(0.0, color="black", linewidth=1, linestyle="--")
        ax.hlines(0, low, high, color=COLORS[0], linewidth=1.2, label="90% interval")
        ax.hlines(0, lower, upper, color=COLORS[0], linewidth=4, label="50% interval")
        ax.plot(median, 0, "o", color="white", markeredgecolor=COLORS[0], markersize=5, label="median")
        ax.set_yticks([0], [verbatim(natural(one.name))])
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=7, length=2, pad=1)
        ax.locator_params(axis="x", nbins=6)
        for side in ("top", "left", "right"):
            ax.spines[side].set_visible(False)
    axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=8)
    return figure
