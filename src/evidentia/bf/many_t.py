"""Bayes factors of many t statistics with the same rows, by one rule for the integral over δ."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import logsumexp

from evidentia.bf import student, t_tests
from evidentia.bf.effect import LOW_ORDER, NEAR, RULES, STEPS, Hypotheses, Intervals, check_room
from evidentia.bf.prior import Prior

MOST_VALUES = 2**20  # of the likelihood, held at once


def log_bayes_factors(
    t: Float[ndarray, " statistics"], freedom: float, size: float, prior: Prior, hypotheses: Hypotheses
) -> Float[ndarray, " statistics"]:
    """log BF₁₀ of each t statistic.

    Args:
        t: the statistics.
        freedom: ν, their degrees of freedom.
        size: N, the rows of one sample; of two samples, n m / (n + m).
        prior: of the effect size; renormalised to each hypothesis.
        hypotheses: intervals of the effect size.
    """
    edges = _edges(t, freedom, size, prior, hypotheses)
    points, weights = RULES[LOW_ORDER]
    half = np.diff(edges)[:, None] / 2
    nodes = ((edges[:-1, None] + edges[1:, None]) / 2 + half * points).ravel()
    log_prior = prior.log_density(nodes) + np.log(half * weights).ravel()

    def log_means(intervals: Intervals) -> Float[ndarray, " statistics"]:
        inside = np.any([(nodes > low) & (nodes < high) for low, high in intervals], axis=0)
        inside &= np.isfinite(log_prior)
        check_room(log_prior[inside].max(initial=-np.inf), t_tests.NAME, intervals)
        places, shares = nodes[inside], log_prior[inside]
        parts = np.array_split(t, max(len(t) * len(places) // MOST_VALUES, 1))
        joints = [
            logsumexp(shares + student.log_likelihoods(places, part, freedom, size), axis=1) for part in parts
        ]
        return np.concatenate(joints) - logsumexp(shares)

    return log_means(hypotheses.one) - (log_means(hypotheses.zero) if hypotheses.zero else 0.0)


def _edges(t: ndarray, freedom: float, size: float, prior: Prior, hypotheses: Hypotheses) -> ndarray:
    """Of panels no wider than the likelihood where one has its maximum, about t / √N."""
    scale = np.sqrt(2 * freedom)  # the likelihood's width is √(1 + t² / 2ν) / √N
    ends = scale * np.arcsinh(np.array([t.min(), t.max()]) / scale)
    middle = scale * np.sinh(np.linspace(ends[0], ends[1], int(np.ptp(ends)) + 2) / scale)
    below, above = np.sqrt(1 + middle[[0, -1]] ** 2 / (2 * freedom))
    cuts = np.array([0.0, *filter(np.isfinite, hypotheses.cuts)])[:, None] * np.sqrt(size)
    around = np.concatenate(
        [
            middle[0] - below * STEPS,
            middle,
            middle[-1] + above * STEPS,
            (cuts + np.concatenate([-NEAR, [0.0], NEAR])).ravel(),
        ]
    )
    edges = np.concatenate([prior.edges, around / np.sqrt(size), cuts.ravel() / np.sqrt(size)])
    return np.unique(edges)
