"""The picture of how probable the terms of a formula are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from evidentia.display.axes import axes_or_new
from evidentia.display.plots import COLORS, tidy, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_terms(
    probability: Mapping[str, float],
    error: Mapping[str, float],
    prior: Mapping[str, float],
    ax: Axes | None = None,
) -> Axes:
    """Plot the probability of each term, with two standard errors, the most probable first.

    Strokes are the prior probabilities.

    Args:
        probability: given the data, by term.
        error: its standard error.
        prior: before the data.
        ax: axes to draw into; a new pyplot figure if not given.

    Returns:
        The axes.
    """
    terms = sorted(probability, key=lambda term: -probability[term])
    ax = axes_or_new(ax, 7, 1.2 + 0.3 * len(terms))
    places, values = np.arange(len(terms)), np.array([probability[term] for term in terms])
    errors = 2 * np.nan_to_num([error[term] for term in terms])
    bars = np.minimum(errors, values), np.minimum(errors, 1 - values)  # within 0 and 1
    ax.barh(places, values, height=0.6, color=COLORS[0], alpha=0.8, label="given the data")
    if np.any(errors > 0):
        ax.errorbar(values, places, xerr=np.array(bars), fmt="none", color="black", capsize=3)
    ax.vlines(
        [prior[term] for term in terms],
        places - 0.42,
        places + 0.42,
        color="black",
        linewidth=1.5,
        label="before",
    )
    ax.set_yticks(places, [verbatim(term) for term in terms])
    ax.set_ylim(len(terms) - 0.4, -0.6)
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability that the term is in the model")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    tidy(ax)
    ax.grid(axis="y", visible=False)
    return ax
