"""Pictures of weighted draws: pairs, traces, prior against posterior, the run that made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.display.axes import pair_or_new
from evidentia.display.plots import COLORS, draw_trajectory, tidy, verbatim
from evidentia.posterior.summary import quantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUM_BINS, MOST_BINS = 24, 240
MOST_COLUMNS = 3  # of axes
LEAST_ESS = 200  # below which contours would show the noise of the draws
LEAST_WEIGHT = 0.01  # of a point shown, relative to the mean: the others have 1% of the weight together
WIDE = 100.0  # nats between log-likelihoods, beyond which their scale is logarithmic

Scalars = Mapping[str, ndarray]  # arrays (particles,) by name


def draw_corner(scalars: Scalars, weights: Float[ndarray, " particles"]) -> Figure:
    """Plot all pairs of scalars and the distribution of each, with median and 95% interval.

    Only particles that `matter` are shown, within limits that hold 99% of the weight. Contours
    need an effective sample size of `LEAST_ESS`; of fewer draws, points are shown.
    """
    from corner import corner

    is_smooth = 1 / np.sum(weights**2) >= LEAST_ESS
    shown = matter(weights)
    samples, weights = np.column_stack(list(scalars.values())).astype(np.float64)[shown], weights[shown]
    ranges = [central(column, weights, 0.99) for column in samples.T]
    return corner(
        samples, weights=weights, range=ranges, labels=[verbatim(name) for name in scalars],
        quantiles=(0.025, 0.5, 0.975), color=COLORS[0], bins=NUM_BINS,
        labelpad=0.05, plot_contours=is_smooth, plot_density=is_smooth, plot_datapoints=not is_smooth,
        data_kwargs={"alpha": 0.6}, hist_kwargs={"linewidth": 1.2},
    )  # fmt: skip


def draw_trace(
    scalars: Scalars, weights: Float[ndarray, " particles"], log_likelihood: Float[ndarray, " particles"]
) -> ndarray:
    """Plot scalars against the log-likelihood of the particle; dark ones have large weights.

    Only particles that `matter` are shown: the others would stretch the axes.
    """
    figure, axes = _grid(len(scalars), height=2.6)
    order = np.argsort(weights)[np.sum(~matter(weights)) :]  # large weights on top
    nats = (log_likelihood - log_likelihood.max())[order]
    shade = weights[order] / weights.max()
    points = None
    for ax, (name, values) in zip(axes, scalars.items(), strict=True):
        points = ax.scatter(nats, values[order], c=shade, s=9, cmap="cividis_r", vmin=0, vmax=1, linewidths=0)
        if np.ptp(nats) > WIDE:
            ax.set_xscale("symlog", linthresh=1)
        ax.set_ylabel(verbatim(name))
        tidy(ax)
    figure.supxlabel("log-likelihood (nats, relative to the largest)", fontsize="medium")
    if points is not None and shade[0] < 0.99:
        figure.colorbar(points, ax=list(axes), label="weight, relative to the largest")
    return axes


def draw_prior_posterior(
    prior: Scalars, posterior: Scalars, weights: Float[ndarray, " particles"]
) -> ndarray:
    """Plot the prior and posterior density of each scalar, as histograms.

    The limits hold the posterior and the central 95% of the prior. No bin is beyond the draws,
    such as below zero for a scale.
    """
    figure, axes = _grid(len(posterior), height=2.4)
    for ax, (name, values) in zip(axes, posterior.items(), strict=True):
        before = prior[name]
        even = np.full(len(before), 1 / len(before))
        inside = central(values, weights, 0.999)
        wide = central(before, even, 0.95)
        limits = min(inside[0], wide[0]), max(inside[1], wide[1])
        _density(ax, before, even, limits, label="prior", color=COLORS[6], linestyle="--")
        _density(ax, values, weights, inside, label="posterior", color=COLORS[0], linestyle="-")
        ax.set_xlim(*limits)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(verbatim(name))
        tidy(ax)
    for ax in axes[::MOST_COLUMNS]:
        ax.set_ylabel("density")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return axes


def draw_run(trajectory: Any, title: str) -> tuple[Axes, Axes]:
    """Plot log evidence per observation and the standard error, against the number of rows."""
    upper, lower = pair_or_new(None)
    draw_trajectory(trajectory, title, upper)
    upper.set_xlabel("")
    lower.plot(trajectory.num_observations, trajectory.standard_error, color=COLORS[0])
    lower.set_ylabel("standard error of the\nlog evidence (nats)")
    lower.set_xlabel("number of observations")
    lower.set_ylim(bottom=0)
    tidy(lower)
    return upper, lower


def matter(weights: Float[ndarray, " particles"]) -> Bool[ndarray, " particles"]:
    """Which particles have more than `LEAST_WEIGHT` of the mean weight."""
    return weights > LEAST_WEIGHT / len(weights)


def draw_nested_run(
    log_weights: Float[ndarray, " particles"],
    log_likelihood: Float[ndarray, " particles"],
    log_evidence: float,
    error: float,
    title: str,
) -> tuple[Axes, Axes]:
    """Plot the log-likelihood and the evidence so far against the prior mass that is left.

    A particle of weight Wᵢ stands for the prior mass Wᵢ Z / Lᵢ; those with a likelihood of zero
    are left out. The band is two standard errors of the whole run, of which a part is
    known at each step as its information is.
    """
    order = np.argsort(log_likelihood)
    order = order[log_likelihood[order] > -np.inf]
    height, log_share = log_likelihood[order], log_weights[order]
    # As logarithms: far down, weights are below the smallest number, and masses are not.
    shrunk = -np.logaddexp.accumulate((log_share + log_evidence - height)[::-1])[::-1]
    evidence = np.minimum(np.cumsum(np.exp(log_share)), 1.0)
    upper, lower = pair_or_new(None)
    upper.plot(shrunk, height - height.max(), color=COLORS[0])
    upper.set_yscale("symlog", linthresh=1)
    upper.set_ylabel("log-likelihood\n(nats, relative to the largest)")
    upper.set_title(verbatim(title), loc="left", fontsize="medium")
    lower.plot(shrunk, evidence, color=COLORS[0])
    band = evidence * np.exp(-2 * error), evidence * np.exp(2 * error)
    lower.fill_between(shrunk, *band, color=COLORS[0], alpha=0.25, linewidth=0)
    lower.set_ylabel("evidence so far,\nrelative to the estimate")
    lower.set_xlabel("−log of the prior mass left (nats)")
    lower.set_ylim(bottom=0)
    for ax in (upper, lower):
        tidy(ax)
    return upper, lower


def central(values: ndarray, weights: Float[ndarray, " particles"], share: float) -> tuple[float, float]:
    """Limits of the central share of the weight, a twentieth wider; of a constant, about it."""
    ends = (1 - share) / 2, (1 + share) / 2
    low, high = quantiles(np.asarray(values, np.float64)[:, None], weights, ends)[:, 0]
    margin = 0.05 * (high - low) or 0.1 * abs(low) or 1.0
    return float(low - margin), float(high + margin)


def _density(
    ax: Axes,
    values: ndarray,
    weights: Float[ndarray, " particles"],
    limits: tuple[float, float],
    **style: Any,
) -> None:
    """A histogram within limits whose area is the weight within them."""
    ends = max(limits[0], float(np.min(values))), min(limits[1], float(np.max(values)))
    heights, edges = np.histogram(values, _num_bins(values, weights, ends), ends, weights=weights)
    ax.stairs(heights / np.diff(edges), edges, linewidth=1.4, **style)


def _num_bins(values: ndarray, weights: Float[ndarray, " particles"], ends: tuple[float, float]) -> int:
    """Bins of the width 2 IQR / ESS^(1/3), so that a long tail does not widen those of the peak.

    Source: Freedman and Diaconis (1981), Zeitschrift für Wahrscheinlichkeitstheorie 57, 453.
    """
    lower, upper = quantiles(np.asarray(values, np.float64)[:, None], weights, (0.25, 0.75))[:, 0]
    width = 2 * (upper - lower) * np.sum(weights**2) ** (1 / 3)
    wanted = (ends[1] - ends[0]) / width if width > 0 else 0.0
    return int(np.clip(np.ceil(wanted), NUM_BINS, MOST_BINS))


def _grid(count: int, height: float) -> tuple[Figure, ndarray]:
    """A figure with axes for this many scalars, at most `MOST_COLUMNS` in a row."""
    import matplotlib.pyplot

    columns = min(count, MOST_COLUMNS)
    rows = -(-count // columns)
    size = 3.2 * columns + 1, height * rows + 0.6
    figure, axes = matplotlib.pyplot.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained"
    )
    for ax in axes.flat[count:]:
        ax.remove()
    return figure, axes.flat[:count]
