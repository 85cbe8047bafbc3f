"""The picture of a stream: how well each batch was predicted, probabilities, changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int
from matplotlib.ticker import EngFormatter

from evidentia.display.axes import pair_or_new
from evidentia.display.plots import COLORS, styles, tidy, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 400  # of a curve; each stands for the mean over some batches


class Found(Protocol):
    """A change: its row, an interval for it, and the rows after which it was seen."""

    @property
    def row(self) -> int:
        """The first row after the change."""
        ...

    @property
    def interval(self) -> tuple[int, int]:
        """Rows between which it was."""
        ...

    @property
    def num_observations(self) -> int:
        """The number of rows when it was seen."""
        ...


class StreamCurves(NamedTuple):
    """What is drawn of a stream.

    Attributes:
        num_observations: rows after each batch.
        log_predictive: per row of each batch, in nats, by model.
        probabilities: of the models after each batch, by name; empty for one model.
        changes: that were found.
    """

    num_observations: Int[np.ndarray, " batches"]
    log_predictive: Mapping[str, Float[np.ndarray, " batches"]]
    probabilities: Mapping[str, Float[np.ndarray, " batches"]]
    changes: Sequence[Found] = ()


def draw_stream(curves: StreamCurves, axes: Sequence[Axes] | None = None) -> tuple[Axes, ...]:
    """Plot predictions and, of several models, probabilities against rows, with the changes found.

    A solid line is the row of a change, the area its interval, a dotted line the row at which it
    was seen.

    Args:
        curves: what to draw.
        axes: two axes to draw into, one for one model; a new pyplot figure if not given.

    Returns:
        The axes.
    """
    upper, lower = pair_or_new(axes, least=1)
    if not curves.probabilities and axes is None:
        lower.remove()
        lower = upper
    counts = curves.num_observations
    for (name, values), style in zip(curves.log_predictive.items(), styles(), strict=False):
        upper.plot(*thinned(counts, values), label=verbatim(name), **style)
    for (_, values), style in zip(curves.probabilities.items(), styles(), strict=False):
        lower.plot(*thinned(counts, values), **style)
    found = (upper,) if lower is upper else (upper, lower)
    for ax in found:
        for index, change in enumerate(curves.changes):
            label = "change, and when it was seen" if index == 0 and ax is upper else None
            ax.axvspan(*change.interval, color=COLORS[6], alpha=0.3, linewidth=0)
            ax.axvline(change.row, color="black", linewidth=1.2, label=label)
            ax.axvline(change.num_observations, color="black", linewidth=1.2, linestyle=":")
        ax.set_xlim(0, counts[-1] * 1.01)
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        tidy(ax)
    upper.set_ylabel("log predictive density\nper row (nats)")
    if lower is not upper:
        upper.tick_params(labelbottom=False)
        lower.set_ylabel("model probability")
        lower.set_ylim(-0.03, 1.03)
    lower.set_xlabel("rows")
    upper.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    return found


def thinned(
    counts: Int[np.ndarray, " batches"], values: Float[np.ndarray, " batches"]
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Means over successive batches, as many as a picture can show."""
    size = -(-len(counts) // MOST_POINTS)
    starts = np.arange(0, len(counts), size)
    lengths = np.diff(np.append(starts, len(counts)))
    last = counts[starts + lengths - 1].astype(float)
    return last, np.add.reduceat(values, starts) / lengths
