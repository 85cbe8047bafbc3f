"""Plots of evidence; each function returns the given axes or those of a new pyplot figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from evidentia.display.axes import axes_or_new, pair_or_new
from evidentia.display.text import is_count
from evidentia.posterior.summary import ParameterSummary
from evidentia.weights import model_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe and Ito (2008), "Color universal design", without yellow; line styles differ as well.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
LINE_STYLES = ("-", "--", "-.", ":")
MOST_LETTERS = 60  # of a name in a picture, eight inches wide


def nats(value: float, _: float) -> str:
    """A number of nats at a tick of a symlog axis, for `set_major_formatter`."""
    return f"{value:,.0f}".replace("-", "−")


def verbatim(name: str) -> str:
    """A name of the user's, in which Matplotlib would read mathematics between dollars.

    Of one that is too long for a picture, the beginning and the end.
    """
    half = MOST_LETTERS // 2
    shown = name if len(name) <= MOST_LETTERS else f"{name[:half]} … {name[-half:]}"
    return shown.replace("$", r"\$")


def draw_trajectory(trajectory: Any, title: str, ax: Axes | None = None) -> Axes:
    """Plot log evidence per observation, with two standard errors, against the number of rows.

    If all data are one observation, as of a plain function, it is that of all data.

    Args:
        trajectory: an `evidentia.Trajectory`.
        title: title of the plot.
        ax: axes to draw into; a new pyplot figure if not given.
    """
    ax = axes_or_new(ax, 7, 4.2)
    counts = trajectory.num_observations
    value, error = trajectory.log_evidence / counts, trajectory.standard_error / counts
    ax.plot(counts, value, color=COLORS[0], marker="o" if len(counts) < 30 else "", markersize=4)
    ax.fill_between(counts, value - 2 * error, value + 2 * error, color=COLORS[0], alpha=0.25, linewidth=0)
    ax.set_ylabel("log evidence per observation (nats)")
    ax.set_title(verbatim(title), loc="left", fontsize="medium")
    _plain_numbers(ax.yaxis)
    _count_axis(ax, counts)
    if not is_count(counts[-1]):
        ax.set_ylabel("log evidence (nats)")
        ax.set_xlabel("all data")
        ax.set_xticks([])
        ax.set_xticks([], minor=True)
        ax.errorbar(counts, value, 2 * error, color=COLORS[0], capsize=4)
    return ax


def draw_comparison(
    trajectories: Mapping[str, Any],
    prior_probability: Float[np.ndarray, " models"],
    axes: Sequence[Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Plot log Bayes factors and model probabilities against the number of observations.

    The log Bayes factors are against the first model. Once they exceed 20 nats, their scale is
    linear from -1 to 1 and logarithmic beyond. Bands are two standard errors. Only numbers of
    observations at which every trajectory has an entry are shown.

    Args:
        trajectories: `evidentia.Trajectory` by name, for the same data, best model first.
        prior_probability: prior probabilities of the models.
        axes: two axes to draw into; a new pyplot figure if not given.

    Returns:
        The two axes.
    """
    upper, lower = pair_or_new(axes)
    paths = list(trajectories.values())
    counts = reduce(np.intersect1d, [path.num_observations for path in paths])
    rows = [np.searchsorted(path.num_observations, counts) for path in paths]
    log_evidence = np.stack([path.log_evidence[row] for path, row in zip(paths, rows, strict=True)])
    errors = np.stack([path.standard_error[row] for path, row in zip(paths, rows, strict=True)])
    probability, probability_error = np.stack(
        [model_probabilities(*column, prior_probability) for column in zip(log_evidence.T, errors.T, strict=True)],
        axis=-1,
    )  # fmt: skip
    factor = log_evidence - log_evidence[0]
    factor_error = np.hypot(errors, errors[0])
    factor_error[0] = 0.0
    for i, (name, style) in enumerate(zip(trajectories, styles(), strict=False)):
        _line_with_band(upper, counts, factor[i], factor_error[i], label=verbatim(name), **style)
        _line_with_band(lower, counts, probability[i], probability_error[i], limits=(0, 1), **style)
    _factor_axis(upper, factor)
    lower.set_ylabel("model probability")
    lower.set_ylim(-0.03, 1.03)
    long = max(len(name) for name in trajectories) > 24
    upper.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=1 if long else 3, frameon=False)
    _count_axis(upper, counts)
    _count_axis(lower, counts)
    upper.set_xlabel("")
    return upper, lower


def draw_sensitivity(
    factors: Float[np.ndarray, " widths"],
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    label: str,
    ax: Axes | None = None,
) -> Axes:
    """Plot changes, with two standard errors, against the width of the priors.

    Args:
        factors: widths, relative to the model's own.
        curves: changes in nats and their standard errors by name.
        label: of the changes.
        ax: axes to draw into; a new pyplot figure if not given.
    """
    ax = axes_or_new(ax, 7, 4.2)
    for (name, (value, error)), style in zip(curves.items(), styles(), strict=False):
        _line_with_band(ax, factors, value, error, label=verbatim(name), **style)
    ax.set_xscale("log", base=2)
    ax.set_xticks(factors, [f"{factor:.2g}" for factor in factors])
    ax.set_xlabel("width of the priors, relative to the model's own")
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, -1.0), max(high, 1.0))  # less than a nat looks like little
    ax.set_ylabel(label)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    tidy(ax)
    return ax


def draw_fit(fit: Any, ax: Axes | None = None) -> Axes:
    """Plot the observed mean of each group of rows and the 95% interval that the model predicts.

    Means outside of their interval are drawn as crosses.

    Args:
        fit: an `evidentia.regression.prediction.GroupedFit`.
        ax: axes to draw into; a new pyplot figure if not given.
    """
    ax = axes_or_new(ax, 7, 5)
    for (label, observed), style in zip(fit.observed.items(), styles(), strict=False):
        predicted, outside, color = fit.predicted[label], fit.outside(label), style["color"]
        ax.vlines(predicted, fit.low[label], fit.high[label], color=color, alpha=0.3, linewidth=5)
        ax.plot(
            predicted[~outside], observed[~outside], "o", color=color, markersize=4, label=verbatim(label)
        )
        ax.plot(predicted[outside], observed[outside], "x", color=color, markersize=8, markeredgewidth=2)
    ends = ax.get_xlim()
    ax.plot(ends, ends, color="black", linewidth=1, linestyle="--", label="equal")
    ax.set_xlim(*ends)
    ax.set_xlabel("predicted mean")
    ax.set_ylabel("observed mean, and 95% of predicted ones")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    tidy(ax)
    return ax


def draw_posterior(summaries: Sequence[ParameterSummary], limit: int = 50, ax: Axes | None = None) -> Axes:
    """Plot the median, 50% and 90% interval of every scalar parameter.

    Args:
        summaries: with the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95.
        limit: maximum number of scalars to draw; the label says if more are left out.
        ax: axes to draw into; a new pyplot figure of suitable height if not given.
    """
    total, summaries = len(summaries), summaries[:limit]
    ax = axes_or_new(ax, 7, posterior_height(len(summaries)))
    low, lower, median, upper, high = np.array([summary.quantiles for summary in summaries]).reshape(-1, 5).T
    place = np.arange(len(summaries))
    ax.hlines(place, low, high, color=COLORS[0], linewidth=1.2, label="90% interval")
    ax.hlines(place, lower, upper, color=COLORS[0], linewidth=4, label="50% interval")
    ax.plot(median, place, "o", color="white", markeredgecolor=COLORS[0], markersize=5, label="median")
    ax.set_yticks(place, [verbatim(summary.name) for summary in summaries])
    ax.set_ylim(len(summaries) - 0.4, -0.6)
    left_out = f" (the first {limit} of {total})" if total > limit else ""
    ax.set_xlabel(f"parameter value{left_out}")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    tidy(ax)
    ax.grid(axis="y", visible=False)
    return ax


def draw_bounds(bounds: Any, title: str, ax: Axes | None = None) -> Axes:
    """Plot the forward and reverse estimates, the bounds and, if known, the exact value.

    Error bars are two standard errors. Values are in nats relative to the midpoint of the bounds,
    which the axis label gives.

    Args:
        bounds: a `Sandwich`.
        title: title of the plot.
        ax: axes to draw into; a new pyplot figure if not given.
    """
    ax = axes_or_new(ax, 7, 2.6)
    middle = 0.5 * (bounds.lower + bounds.upper)
    ax.axvspan(
        bounds.lower - middle, bounds.upper - middle, color=COLORS[5], alpha=0.25, linewidth=0, label="bounds"
    )
    for height, (side, color) in enumerate(((bounds.reverse, COLORS[1]), (bounds.forward, COLORS[0]))):
        value, error = side.log_evidence - middle, 2 * side.standard_error
        ax.errorbar(value, height, xerr=error, fmt="o", color=color, capsize=4, markersize=6)
    if bounds.exact is not None:
        ax.axvline(bounds.exact - middle, color="black", linestyle="--", linewidth=1.2, label="exact")
    ax.set_yticks([0, 1], ["reverse\n(from above)", "forward\n(from below)"])
    ax.set_ylim(-0.6, 1.6)
    ax.set_xlabel(f"log evidence (nats from {middle:,.2f})".replace("-", "−"))
    ax.set_title(verbatim(title), loc="left", fontsize="medium", pad=24)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 0.97), ncols=2, frameon=False)
    _plain_numbers(ax.xaxis)
    tidy(ax)
    ax.grid(axis="y", visible=False)
    return ax


def posterior_height(num_scalars: int) -> float:
    """Height in inches at which this many rows of `draw_posterior` are legible."""
    return 1.3 + 0.21 * num_scalars


def _line_with_band(ax, counts, value, error, *, limits=(-np.inf, np.inf), **style) -> None:
    label = style.pop("label", None)
    ax.plot(counts, value, label=label, marker="o" if len(counts) < 30 else "", markersize=4, **style)
    band = np.clip([value - 2 * error, value + 2 * error], *limits)
    ax.fill_between(counts, *band, color=style["color"], alpha=0.2, linewidth=0)


def styles() -> Iterator[dict[str, Any]]:
    """A colour and a line style for each of any number of curves."""
    for index, color in enumerate(cycle(COLORS)):
        yield {"color": color, "linestyle": LINE_STYLES[index % len(LINE_STYLES)]}


def _factor_axis(ax: Axes, factor: np.ndarray) -> None:
    ax.set_ylabel("log Bayes factor\nagainst the best (nats)")
    if np.abs(factor).max() > 20:
        ax.set_yscale("symlog", linthresh=1, linscale=0.5)
        ax.set_ylim(1.5 * factor.min(), max(1.0, 1.5 * factor.max()))
        ax.yaxis.set_major_formatter(nats)
    else:
        _plain_numbers(ax.yaxis)


def _count_axis(ax: Axes, counts: np.ndarray) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter  # slow to import

    ax.set_xscale("log")
    ax.set_xlabel("number of observations")
    if len(counts) == 1:
        ax.set_xlim(counts[0] / 2, counts[0] * 2)
    few_decades = counts[-1] < 100 * counts[0]
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few_decades else (1,)))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))  # 500, 2k, 1M
    ax.xaxis.set_minor_formatter(NullFormatter())
    tidy(ax)


def _plain_numbers(axis: Axis) -> None:
    from matplotlib.ticker import ScalarFormatter  # slow to import

    axis.set_major_formatter(ScalarFormatter(useOffset=False))


def tidy(ax: Axes) -> None:
    """Two spines and a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, which="major", color="#808080", alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
