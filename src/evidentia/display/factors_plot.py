"""The picture of Bayes factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from evidentia.display.axes import axes_or_new
from evidentia.display.plots import COLORS, nats, tidy, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_factors(
    names: Sequence[str],
    factors: Float[np.ndarray, " models"],
    errors: Float[np.ndarray, " models"],
    ax: Axes | None = None,
) -> Axes:
    """Plot log Bayes factors against the best model, the first, with two standard errors.

    Once they exceed 20 nats, their scale is linear from -1 to 1 and logarithmic beyond.

    Args:
        names: of the models, best first.
        factors: in nats.
        errors: of them, in nats; NaN draws no bar.
        ax: axes to draw into; a new pyplot figure if not given.

    Returns:
        The axes.
    """
    ax = axes_or_new(ax, 7, 1.2 + 0.35 * len(names))
    places = np.arange(len(names))
    ax.errorbar(factors, places, xerr=2 * np.nan_to_num(errors), fmt="o", capsize=3, color=COLORS[0])
    ax.axvline(0.0, color="black", linewidth=1, linestyle="--")
    if np.min(factors) < -20:
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter(nats)
    ax.set_yticks(places, [verbatim(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.margins(x=0.08)
    ax.set_xlabel("log Bayes factor against the best (nats)")
    tidy(ax)
    return ax
