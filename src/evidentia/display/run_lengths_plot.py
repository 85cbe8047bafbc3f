"""The picture of run lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from evidentia.display.axes import pair_or_new
from evidentia.display.plots import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 1e-4  # probability of the lightest colour
MOST_CELLS = 400  # of the image in either direction


def draw_run_lengths(
    first: int,
    rows: Float[np.ndarray, " rows"],
    distributions: Sequence[tuple[np.ndarray, np.ndarray]],
    changes: Int[np.ndarray, " changes"],
    axes: tuple[Axes, Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Plot rows, and below the distribution of the run length after each, in a log scale.

    Args:
        first: number of the first row.
        rows: one number of each row.
        distributions: starts of the runs after each row, and their probabilities.
        changes: first rows of segments, to be marked.
        axes: two axes to draw into; a new pyplot figure if not given.

    Returns:
        The two axes.
    """
    from matplotlib.colors import LogNorm

    upper, lower = pair_or_new(axes)
    numbers = first + np.arange(len(rows))
    upper.plot(numbers, rows, ".", color=COLORS[6], markersize=4)
    upper.set_ylabel("row's value")
    longest = 1 + max(numbers[i] - starts[p >= LEAST].min() for i, (starts, p) in enumerate(distributions))
    image, across, up = _image(first, distributions, int(longest))
    mesh = lower.pcolormesh(across, up, image, cmap="viridis_r", norm=LogNorm(LEAST, 1.0), rasterized=True)
    lower.figure.colorbar(mesh, ax=[upper, lower] if axes is None else lower, label="probability", pad=0.02)
    for row in changes[changes >= first]:
        for ax in (upper, lower):
            ax.axvline(row - 0.5, color=COLORS[1], linestyle="--", linewidth=1.2)
    lower.set_ylabel("rows in the current run")
    lower.set_xlabel("row")
    for ax in (upper, lower):
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlim(first - 0.5, first + len(rows) - 0.5)
    return upper, lower


def _image(first, distributions, longest):
    """Probabilities by cell of run lengths and rows, the highest among the cell's rows."""
    across = np.unique(np.linspace(0, len(distributions), MOST_CELLS + 1).round().astype(int))
    up = np.unique(np.linspace(1, longest + 1, MOST_CELLS + 1).round().astype(int))
    image = np.zeros((len(up) - 1, len(across) - 1))
    for i, (starts, probabilities) in enumerate(distributions):
        column = np.searchsorted(across, i, side="right") - 1
        cells = np.searchsorted(up, first + i - starts + 1, side="right") - 1
        inside = cells < len(image)
        summed = np.bincount(cells[inside], probabilities[inside], minlength=len(image))
        image[:, column] = np.maximum(image[:, column], summed)
    return np.where(image >= LEAST, image, np.nan), first + across - 0.5, up - 0.5
