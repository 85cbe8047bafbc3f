"""Pictures of design analyses: shares of runs against n, or Bayes factors of a fixed design."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from evidentia.display import words
from evidentia.display.axes import axes_or_new
from evidentia.display.plots import COLORS, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUM_BINS = 60
LIMIT = 0.005  # of the runs on each side lie beyond what is drawn


def draw_design(design: Any, ax: Axes | None = None) -> Axes:
    """Shares at each threshold against n, or the Bayes factors of a fixed design."""
    ax = axes_or_new(ax, 6.5, 4.2)
    if design.is_sequential:
        _draw_shares(design, ax)
    else:
        _draw_factors(design, ax)
    ax.set_title(verbatim(f"t test, {design.test}: {design.prior}"), loc="left", fontsize="medium")
    return ax


def _draw_shares(design: Any, ax: Axes) -> None:
    low, high = map(words.threshold, design.thresholds)
    for outcome, style in ((design.one, "-"), (design.zero, "--")):
        curve = outcome.to_pandas()
        for column, color, said in (
            ("upper", COLORS[0], f"BF10 ≥ {high}"),
            ("lower", COLORS[1], f"BF10 ≤ {low}"),
        ):
            label = verbatim(f"{said}, if {outcome.claim}")
            ax.plot(curve["n"], curve[column], color=color, linestyle=style, label=label)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("n per sample" if design.test == "two samples" else "n")
    ax.set_ylabel("share of runs that have stopped")
    ax.legend(frameon=False, fontsize="small", loc="center right")


def _draw_factors(design: Any, ax: Axes) -> None:
    both = np.concatenate([design.one.log_bf10, design.zero.log_bf10])
    bounds = [math.log(bound) for bound in design.thresholds if 0 < bound < math.inf]
    low, high = min([*bounds, np.quantile(both, LIMIT)]), max([*bounds, np.quantile(both, 1 - LIMIT)])
    bins = np.linspace(low - 0.2, high + 0.2, NUM_BINS)
    for outcome, color in ((design.one, COLORS[0]), (design.zero, COLORS[1])):
        weights = np.full(len(outcome.log_bf10), 1 / len(outcome.log_bf10))
        ax.hist(
            outcome.log_bf10,
            bins=bins.tolist(),
            weights=weights,
            color=color,
            alpha=0.5,
            label=verbatim(outcome.claim),
        )
    for bound in bounds:
        ax.axvline(bound, color="0.4", linewidth=0.8)
    grades = [sign * math.log(least) for least in words.GRADES for sign in (-1, 1)]
    ticks = [0.0, *bounds, *(grade for grade in grades if bins[0] < grade < bins[-1])]
    labels = {words.threshold(math.exp(tick)): tick for tick in ticks}
    ax.set_xticks([*labels.values()], [*labels])
    ax.set_xlabel(f"BF10 (logarithmic) with n = {design.looks[0]:,}")
    ax.set_ylabel("share of runs")
    ax.legend(frameon=False, fontsize="small")
