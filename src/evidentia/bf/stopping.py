"""Runs of a t test that is looked at while the data arrive, thousands side by side.

Between two looks come k rows per sample. Their sum and their sum of squares about their own mean
are a normal and a chi-squared number, so that a run costs one draw of each per look.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray


def t_paths(
    generator: np.random.Generator,
    effects: Float[ndarray, " runs"],
    looks: Int[ndarray, " looks"],
    num_samples: int,
) -> Float[ndarray, "looks runs"]:
    """The t statistic at each look, of samples with variance one.

    Args:
        generator: of the draws.
        effects: the effect size of each run.
        looks: rows per sample at each look.
        num_samples: one, or two whose means differ by the effect.
    """
    shape = num_samples, len(effects)
    total, squares = np.zeros(shape), np.zeros(shape)  # of the deviations from the true means
    paths = np.empty((len(looks), len(effects)))
    for place, (count, rows) in enumerate(zip(looks, np.diff(looks, prepend=0), strict=True)):
        added = generator.standard_normal(shape) * np.sqrt(rows)
        total += added
        squares += added**2 / rows
        if rows > 1:
            squares += generator.chisquare(rows - 1, shape)
        variance = (squares - total**2 / count).sum(0) / (num_samples * (count - 1))
        mean = (total[0] - total[1:].sum(0)) / count + effects
        paths[place] = mean / np.sqrt(num_samples * variance / count)
    return paths


def stop(
    paths: Float[ndarray, "looks runs"],
    log_bf10: Callable[[ndarray, int], ndarray],
    looks: Int[ndarray, " looks"],
    thresholds: tuple[float, float],
) -> tuple[Int[ndarray, " runs"], Float[ndarray, " runs"]]:
    """Where each run stops, at a threshold of log BF₁₀ or the last look, and its log BF₁₀."""
    low, high = thresholds
    running = np.arange(paths.shape[1])
    stopped_at = np.full(paths.shape[1], looks[-1])
    reached = np.zeros(paths.shape[1])
    for path, count in zip(paths, looks, strict=True):
        now = log_bf10(path[running], int(count))
        reached[running] = now
        ends = (now >= high) | (now <= low)
        stopped_at[running[ends]] = count
        running = running[~ends]
        if not len(running):
            break
    return stopped_at, reached
