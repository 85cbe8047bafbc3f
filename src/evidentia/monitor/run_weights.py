"""The arithmetic of run lengths: the weight of each run, from its log predictive density.

A change may follow every row with probability h, the hazard; the rows of a segment, its run, are
independent of others. Let wₜ(s) = p(the current run began with row s, rows up to t). Then

    wₜ₊₁(s) = (1-h) wₜ(s) p(yₜ₊₁ | yₛ … yₜ),        wₜ₊₁(t+1) = h Σₛ wₜ(s) p(yₜ₊₁),

and Σₛ wₜ(s) is the evidence of the rows up to t: the sum over all partitions of them into
segments. Several hazards have weights of their own, which add up.

Source: Adams and MacKay (2007), "Bayesian online changepoint detection", arXiv:0710.3742, Eq. 3.
There the run length is zero at a row between segments; here it counts the rows of the current
segment, the last row included.

Pruning. The run s is left out for a run r that dominates it: with parameters θ,

    p(future | run s) = ∫ p(future | θ) π_s(θ) dθ ≤ R p(future | run r),   R = sup_θ π_s(θ)/π_r(θ).

r is one of the next later runs, whose rows are among those of s, or a new one that begins with the
next row, whose π is the prior. R is closed-form in conjugate models. So each run has three
weights: below, in which runs left out add nothing; above, in which r takes R times their weight;
and the estimate, in which it takes their weight. The exact weight of all rows is between the first
two for every future, and so is the estimate, as R ≥ 1. (The bounds by domination are ours.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.monitor.hazards import Hazards

BELOW, ESTIMATE, ABOVE = 0, 1, 2


class RunWeights(NamedTuple):
    """The runs that may be the current one, oldest first.

    Attributes:
        starts: int64, the first row of each run, counted from 0.
        log_weights: float64, nats: below, estimate and above, of each run and hazard; relative to
            the evidence, so that the exponentials of the estimates add up to one.
        log_new: float64, nats: the same three, of a run that begins with the next row.
        log_evidence: of all rows, in nats: the estimate.
    """

    starts: Int[ndarray, " runs"]
    log_weights: Float[ndarray, "3 runs hazards"]
    log_new: Float[ndarray, "3 hazards"]
    log_evidence: float

    @property
    def probabilities(self) -> Float[ndarray, " runs"]:
        """Probability that each run is the current one."""
        return np.exp(self.log_weights[ESTIMATE]).sum(1)

    @property
    def hazard_probabilities(self) -> Float[ndarray, " hazards"]:
        """Posterior probability of each hazard."""
        if not len(self.starts):
            return np.exp(self.log_new[ESTIMATE])
        return np.exp(self.log_weights[ESTIMATE]).sum(0)

    @property
    def log_evidence_bounds(self) -> tuple[float, float]:
        """The exact log evidence is between these, in nats."""
        if not len(self.starts):
            return 0.0, 0.0
        low, _, high = log_sum(self.log_weights.reshape(3, -1), axis=1).tolist()
        return self.log_evidence + min(low, 0.0), self.log_evidence + max(high, 0.0)


def init(hazards: Hazards) -> RunWeights:
    """Before any row: the first run begins with row 0."""
    return RunWeights(
        np.empty(0, np.int64), np.empty((3, 0, len(hazards.values))), np.tile(hazards.log_prior, (3, 1)), 0.0
    )


def step(
    weights: RunWeights, hazards: Hazards, row: int, log_predictives: Float[ndarray, " runs_and_new"]
) -> tuple[RunWeights, float]:
    """The weights after row number `row`, and its log predictive density in nats.

    `log_predictives` has the density of the row in each run, and last in the one that it begins.
    """
    grown = weights.log_weights
    if len(weights.starts):
        grown = grown + hazards.log_survival
    grown = np.concatenate([grown, weights.log_new[:, None]], axis=1) + log_predictives[:, None]
    total = float(log_sum(grown[ESTIMATE].ravel()))
    grown -= total
    new = log_sum(grown, axis=1) + hazards.log_change
    starts = np.append(weights.starts, np.int64(row))
    return RunWeights(starts, grown, new, weights.log_evidence + total), total


def pruned(
    weights: RunWeights, hazards: Hazards, log_ratios: Float[ndarray, "dominating runs"]
) -> tuple[RunWeights, int]:
    """Leave out the run that adds least to the weight above; also returns its index.

    Args:
        weights: at least two runs.
        hazards: as in `step`.
        log_ratios: log R in nats: first of each run over the prior, then of each over the next
            later run, over that after it, and so on; infinite where there is none.

    If every bound is infinite, the least probable run is left out, for a new one.
    """
    mass = log_sum(weights.log_weights[ESTIMATE], axis=1)
    later, least = log_ratios.argmin(0), log_ratios.min(0)
    out = int(np.lexsort((mass, mass + least))[0])
    given = np.array([-math.inf, 0.0, least[out]])[:, None] + weights.log_weights[:, out]
    kept, new = weights.log_weights.copy(), weights.log_new
    if later[out]:
        kept[:, out + later[out]] = np.logaddexp(kept[:, out + later[out]], given)
    else:
        new = np.logaddexp(new, given + hazards.log_survival)
    kept = np.delete(kept, out, axis=1)
    return weights._replace(starts=np.delete(weights.starts, out), log_weights=kept, log_new=new), out


def log_sum(values: ndarray, axis: int | None = None) -> ndarray:
    """log Σ exp, where infinities may be all there is; faster than SciPy's on small arrays."""
    highest = np.max(values, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        summed = np.log(np.exp(values - shift).sum(axis=axis, keepdims=True)) + shift
    return summed.reshape(()) if axis is None else np.squeeze(summed, axis)
