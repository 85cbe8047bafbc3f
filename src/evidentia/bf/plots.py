"""Pictures of Bayes factors: prior and posterior of an effect, robustness, and growing data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from evidentia.display import words
from evidentia.display.axes import axes_or_new
from evidentia.display.plots import COLORS, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS, MOST_MODELS, MOST_EFFECTS = 400, 20, 40
SHOWN = 0.002  # quantiles of the posterior between which it is drawn, widened by a third
LIMITS = tuple(sorted({math.log(least) for least in words.GRADES}))


def draw_effect(result: Any, ax: Axes | None = None) -> Axes:
    """Prior and posterior of the effect under H₁, their densities at the null value, the wheel."""
    ax = axes_or_new(ax, 6.5, 4.2)
    posterior = result.posterior
    values = _values(posterior)
    ax.plot(values, posterior.prior_density(values), color=COLORS[6], linestyle="--", label="prior under H1")
    ax.plot(values, posterior.density(values), color=COLORS[0], label="posterior under H1")
    if posterior.tells_ratio:
        at_null = np.array([posterior.null])
        for density, color in ((posterior.prior_density, COLORS[6]), (posterior.density, COLORS[0])):
            ax.plot(at_null, density(at_null), "o", color=color, markersize=6, zorder=3)
    low, high = posterior.interval
    top = ax.get_ylim()[1]
    ax.plot([low, high], [1.06 * top] * 2, color=COLORS[0], linewidth=2)
    ax.plot([posterior.median], [1.06 * top], "|", color=COLORS[0], markersize=10, markeredgewidth=2)
    ax.set_ylim(0, 1.55 * top)  # room for the bar below the legend and the wheel
    ax.set_xlabel(f"{posterior.name}; bar: median and 95% interval")
    ax.set_ylabel("density")
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    ax.set_title(
        verbatim(f"{result.test}: BF10 = {words.number(result.log_bf10)}"), loc="left", fontsize="medium"
    )
    _draw_wheel(ax, result.log_bf10)
    return ax


def draw_robustness(curve: Any, ax: Axes | None = None) -> Axes:
    """BF₁₀ against the width of the prior, with the named widths."""
    ax = axes_or_new(ax, 6.5, 4.2)
    ax.plot(curve.scale, curve.log_bf10, color=COLORS[0])
    markers = zip(curve.marked.items(), ("o", "s", "^", "D", "v"), strict=False)
    for (name, (scale, log_bf10)), marker in markers:
        color = COLORS[1] if name == "yours" else COLORS[0]
        label = f"{name} ({scale:.3g}): BF10 = {words.number(log_bf10)}"
        ax.plot([scale], [log_bf10], marker, color=color, label=label, markersize=6)
    ax.set_xscale("log")
    ax.set_xlabel(f"{curve.what} of the prior")
    _grades(ax, curve.log_bf10)
    ax.legend(frameon=False, fontsize="small")
    return ax


def draw_sequential(curve: Any, ax: Axes | None = None) -> Axes:
    """BF₁₀ against the number of observations, between the grades of evidence."""
    ax = axes_or_new(ax, 6.5, 4.2)
    marker = "o" if len(curve.num_observations) < 60 else ""
    ax.plot(curve.num_observations, curve.log_bf10, color=COLORS[0], marker=marker, markersize=3)
    _count(ax)
    _grades(ax, curve.log_bf10)
    return ax


def draw_curves(curves: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Several curves against the width of the prior or the number of observations."""
    ax = axes_or_new(ax, 6.5, 4.2)
    for (name, curve), color in zip(curves.items(), cycle(COLORS), strict=False):
        is_sequence = hasattr(curve, "num_observations")
        places = curve.num_observations if is_sequence else curve.scale
        marker = "o" if is_sequence and len(places) < 60 else ""
        ax.plot(places, curve.log_bf10, color=color, marker=marker, markersize=3, label=verbatim(name))
        for scale, log_bf10 in () if is_sequence else curve.marked.values():
            ax.plot([scale], [log_bf10], "o", color=color, markersize=4)
    first = next(iter(curves.values()))
    if hasattr(first, "num_observations"):
        _count(ax)
    else:
        ax.set_xscale("log")
        ax.set_xlabel(f"{first.what} of the prior; dots: {', '.join(first.marked)}")
    _grades(ax, np.concatenate([curve.log_bf10 for curve in curves.values()]))
    ax.legend(frameon=False, fontsize="small")
    return ax


def draw_effects(table: Any, ax: Axes | None = None) -> Axes:
    """Medians and 95% intervals of effects, the first one on top."""
    shown = table.effects[:MOST_EFFECTS]
    ax = axes_or_new(ax, 6.5, 1.2 + 0.3 * len(shown))
    colors = dict(zip(dict.fromkeys(one.term for one in shown), cycle(COLORS), strict=False))
    for place, one in enumerate(shown):
        ax.plot([one.low, one.high], [place] * 2, color=colors[one.term], linewidth=2)
        ax.plot([one.median], [place], "o", color=colors[one.term], markersize=5)
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    labels = [verbatim(f"{one.term} [{one.level}]" if one.level else one.term) for one in shown]
    ax.set_yticks(range(len(shown)), labels)
    ax.invert_yaxis()
    left_out = len(table.effects) - len(shown)
    ax.set_xlabel("effect: median and 95% interval" + (f"; {left_out:,} more" if left_out else ""))
    of = table.model or "averaged over the models that have them"
    ax.set_title(verbatim(f"Effects, {of}"), loc="left", fontsize="medium")
    return ax


def draw_models(log_evidence: Mapping[str, float], ax: Axes | None = None) -> Axes:
    """The probabilities of models that were equal before the data, the best first."""
    names = sorted(log_evidence, key=lambda name: -log_evidence[name])[:MOST_MODELS]
    every = np.array(list(log_evidence.values()))
    total = float(logsumexp(every))
    shares = np.exp([log_evidence[name] - total for name in names])
    ax = axes_or_new(ax, 6.5, 1.2 + 0.35 * len(names))
    ax.barh(range(len(names)), shares, color=COLORS[0])
    for place, share in enumerate(shares):
        ax.annotate(f" {share:.3f}", (share, place), va="center", fontsize="small")
    ax.set_yticks(range(len(names)), [verbatim(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlim(0, min(1.25 * shares[0], 1.15))
    left_out = len(log_evidence) - len(names)
    ax.set_xlabel("probability" + (f"; {left_out:,} models less probable are not shown" if left_out else ""))
    return ax


def draw_hypotheses(result: Any, ax: Axes | None = None) -> Axes:
    """The probabilities of both hypotheses of a test without one number as its effect."""
    ax = draw_models({name: each["log_evidence"] for name, each in result.evidences().items()}, ax)
    title = f"{result.test}: BF10 = {words.number(result.log_bf10)}"
    ax.set_title(verbatim(title), loc="left", fontsize="medium")
    return ax


def _count(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    ax.set_xlabel("observations")


def _grades(ax: Axes, log_bf10: np.ndarray) -> None:
    """A logarithmic axis of BF₁₀, with the limits between the grades of evidence."""
    known = log_bf10[np.isfinite(log_bf10)]
    reach = [known.min(initial=0.0), known.max(initial=0.0)]
    low, high = min(reach[0], -math.log(3)) - 0.5, max(reach[1], math.log(3)) + 0.5
    far = max(-low, high) > 3 * LIMITS[-1]
    limits = [sign * limit for limit in LIMITS for sign in (-1, 1)]
    if far:  # grades would lie on each other
        limits = [0.0]
    inside = sorted({limit for limit in limits if low <= limit <= high})
    for limit in inside:
        ax.axhline(limit, color="0.8" if limit else "0.4", linewidth=0.8, zorder=0)
    ax.set_ylim(low, high)
    beyond = [power * math.log(10) for power in (*range(-6, -2), *range(3, 7))]
    ticks = [*inside, *(tick for tick in beyond if low <= tick <= high)]
    ticks = ticks if not far else [*np.linspace(low, high, 6)]
    ax.set_yticks(ticks, [_tick(tick) for tick in ticks])
    ax.set_ylabel("BF10 (logarithmic)")


def _tick(log_bf: float) -> str:
    if log_bf < 0 and log_bf > -LIMITS[-1] - 1e-9:
        return f"1/{math.exp(-log_bf):.0f}"
    return f"{math.exp(log_bf):.0f}" if 0 <= log_bf <= LIMITS[-1] + 1e-9 else words.number(log_bf)


def _values(posterior: Any) -> np.ndarray:
    """Effects to draw: where the posterior is, and the null value."""
    low, high = posterior.quantile(SHOWN), posterior.quantile(1 - SHOWN)
    ends = np.array([low, high, *posterior.bounds])
    low, high = min(low, posterior.null), max(high, posterior.null)
    room = (high - low) / 3
    low, high = max(low - room, ends[2]), min(high + room, ends[3])
    inner = 1e-6 * (high - low)  # a density may be infinite at the end of a range
    return np.unique(np.append(np.linspace(low + inner, high - inner, POINTS), posterior.null))


def _draw_wheel(ax: Axes, log_bf10: float) -> None:
    """The share BF₁₀ / (BF₁₀ + 1) as a part of a disc."""
    share = 1 / (1 + math.exp(-min(max(log_bf10, -500.0), 500.0)))
    wheel = ax.inset_axes((0.83, 0.71, 0.16, 0.23))
    wheel.pie(
        [share, 1 - share],
        colors=[COLORS[0], "0.85"],
        startangle=90,
        counterclock=False,
        wedgeprops={"edgecolor": "white", "linewidth": 0.8},
    )
    wheel.set_title("H1 : H0", fontsize="x-small", pad=0)
