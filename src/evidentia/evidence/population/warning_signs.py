"""Signs that a log evidence or its standard error may be wrong, from the steps of a run.

Each sign has a name, a threshold and a sentence that says what to do. Most concern the annealed
path, since its start or the last redraw by importance sampling; others the weights of that redraw.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from evidentia.evidence.method import Diagnosis, Estimate
from evidentia.evidence.population import importance
from evidentia.evidence.population.chunks import ChunkInfo, Redraw
from evidentia.evidence.population.moves import PathSettings, StepInfo, moved_once, prepared_move
from evidentia.evidence.population.particles import Population, from_prior
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Rows, Window
from evidentia.posterior.target import posterior
from evidentia.weights import MAX_PARETO_SHAPE

MIN_ESS = 0.15  # fraction of the particles after reweighting; the default path stays above 0.35
MAX_CORRELATION = 0.8  # of a coordinate before and after a move; about 0.2 for BAOAB on a Gaussian
MAX_NOISE_SHARE = 0.25  # inflates the variance of the particles by about this fraction
MAX_HEIGHT_SPREAD = 3.0  # in units of a Gaussian's; 1 to 1.5 on skewed posteriors with one mode
MAX_RESERVOIR_ERROR = 0.5  # nats; above it, the moves are visibly wrong
MAX_LOST = 0.05  # fraction of the particles moved to where the likelihood of earlier rows is zero
SMALLER_CHUNKS = "a smaller chunk_size"
MAX_UNSEEN = 0.05  # share of the posterior, and so nats, that modes not found may have
# Joint standard errors between estimates that should agree; path and redraw differed on 84 drawn
# problems by at most 3.0.
MAX_DIFFERENCE = 4.0
# The same by which draws that are not used may exceed a path: on 13 drawn problems they had less
# evidence than the path, on four funnels and spikes 2.9 to 11 joint standard errors more.
MAX_EXCESS = 2.5
# Of the draws from a proposal: 0.02 to 0.04 on funnels with up to half a nat missing. So low were
# nine of some 250 drawn problems, too, whose errors were at most 2.6 standard errors.
MIN_EFFECTIVE = 0.04
MAX_DRIFT = 4.0  # standard errors; no sign in 42 runs that were right; 5.5 and more where a nat was missing
LEAST_DRIFT = 0.1  # nats, the smallest error that matters
MAX_PATH_ERROR = 0.7  # nats; 1 if one of some runs has all their evidence, else at most 0.5 as measured
MAX_CHANGE = 5.0  # standard errors, by chance in one run of two million; at most 2 on 45 families


def measure(steps: Sequence[StepInfo], height_spread: float) -> dict[str, float]:
    """Diagnostics of a path by name; NaN for what did not occur."""
    moves = last_moves(steps)
    return {
        "smallest_ess": min((step.ess for step in steps if not math.isnan(step.ess)), default=math.nan),
        "move_correlation": correlation_of(steps),
        "gradient_noise_share": float(np.median([move.noise_share for move in moves])) if moves else math.nan,
        "height_spread": height_spread,
        "lost_particles": max((step.lost for step in steps), default=0.0),
    }


def last_moves(steps: Sequence[StepInfo]) -> list[StepInfo]:
    """The last ten steps with a move, which show the state of the path at its end."""
    return [step for step in steps if not math.isnan(step.correlation)][-10:]


def correlation_of(steps: Sequence[StepInfo]) -> float:
    """The median autocorrelation of a path's last moves; NaN without a move."""
    moves = last_moves(steps)
    return float(np.median([move.correlation for move in moves])) if moves else math.nan


def diagnose_path(
    steps: Sequence[StepInfo], height_spread: float, ess_remedy: str = SMALLER_CHUNKS
) -> Diagnosis:
    """Diagnostics of a path and their signs (`measure`, `signs_of_path`)."""
    measured = measure(steps, height_spread)
    return Diagnosis(measured, signs_of_path(measured, ess_remedy))


def compare_with_path(info: ChunkInfo, *, effective: float) -> Diagnosis:
    """Whether a redraw agrees with the path whose particles it is made from and checked by.

    If the redraw has less evidence than the path, it misses some of the posterior. If it has more,
    the path does, and particles that miss a part cannot tell whether a redraw has all of it; nor
    can those that do not move. Even weights can: of the draws, `effective` is the fraction that is
    effective, less than 0.25 where arms or modes were missed.
    """
    path, redraw = info.path, info.estimate
    path_error, correlation = math.sqrt(path.variance), correlation_of(info.steps)
    error = math.sqrt(path.variance + redraw.variance)
    difference = (redraw.raw - path.raw) / error if error > 0 else 0.0
    measured = {"path_difference": difference, "path_error": path_error}
    is_uncertain = difference > MAX_DIFFERENCE or path_error > MAX_PATH_ERROR or correlation > MAX_CORRELATION
    if difference > -MAX_DIFFERENCE and not (is_uncertain and effective < importance.GOOD):
        return Diagnosis(measured)
    shown = "the draws from the proposal that its particles gave have"
    return Diagnosis(measured, _path_contradicts(path, redraw, shown))


def contradict_path(path: Estimate, attempt: Estimate) -> Diagnosis:
    """Whether draws that are not used show that the path, which stands, misses a part.

    They are too few, or their proposal lacks a part, but the mean of their weights is unbiased all
    the same: it exceeds the evidence by a factor c with a probability of at most 1/c (Markov).
    """
    error = math.sqrt(path.variance + attempt.variance)
    excess = (attempt.raw - path.raw) / error if error > 0 else 0.0
    shown = "draws from the proposal that its particles gave, which are not used, have"
    return Diagnosis({}, _path_contradicts(path, attempt, shown) if excess > MAX_EXCESS else {})


def compare_runs(pooled: Estimate) -> Diagnosis:
    """Whether runs along the path agree that were pooled, as moves left particles correlated."""
    error = math.sqrt(pooled.variance)
    if not error > MAX_PATH_ERROR:
        return Diagnosis({})
    sentence = (
        f"the path from the prior was repeated, and one of its runs has nearly all of the evidence ({pooled.raw:.1f} ± {error:.1f}): moves do not lead "
        "the particles through all of the posterior, and the log evidence may be far too low. Use more particles, or compare "
        "with NestedSampling()."
    )
    return Diagnosis({}, {"runs differ": sentence})


def _path_contradicts(path: Estimate, draws: Estimate, shown: str) -> dict[str, str]:
    """The sign of a path whose particles have not been everywhere."""
    sentence = (
        f"the path from the prior has a log evidence of {path.raw:.1f} ± {math.sqrt(path.variance):.1f}, and {shown} "
        f"{draws.raw:.1f} ± {math.sqrt(draws.variance):.1f}: moves have not led the particles through all of the posterior, and the log "
        "evidence may be too low. Use more particles, or compare with NestedSampling()."
    )
    return {"path contradicts": sentence}


def heavy_weights(shape: float, remedy: str) -> str:
    """The sentence on importance weights with a large Pareto shape."""
    return (
        f"the largest importance weights have a Pareto shape of {shape:.2f}: the proposal has lighter tails than the "
        f"posterior, and the log evidence may be too low by more than the standard error suggests. {remedy}"
    )


def measure_redraw(redraw: Redraw) -> dict[str, float]:
    """Diagnostics of the last redraw, for `signs_of_draws`."""
    of_weights = {"pareto_shape": redraw.pareto_shape, "effective_draws": redraw.effective}
    return of_weights | {"unseen": redraw.unseen, "unchecked": float(not redraw.is_checked)}


def signs_of_draws(measured: Mapping[str, float]) -> dict[str, str]:
    """Signs in the weights of redrawn particles: sentences with advice, by short name."""
    found = {}
    if measured["pareto_shape"] > MAX_PARETO_SHAPE:
        remedy = "Use more particles, or compare with refresh=False."
        found["heavy weights"] = heavy_weights(measured["pareto_shape"], remedy)
    if measured["effective_draws"] < MIN_EFFECTIVE:
        found["poor proposal"] = (
            f"of the draws from the proposal {100 * measured['effective_draws']:.1f}% are effective: it fits the posterior poorly, and the log "
            "evidence may be too low by more than the standard error suggests. Use more particles, or compare with NestedSampling()."
        )
    if measured["unseen"] > MAX_UNSEEN:
        found["modes not found"] = (
            f"about {100 * measured['unseen']:.0f}% of the posterior is in regions without particles: many of the regions with particles "
            "were reached from a single starting particle, so that others were probably not reached at all. The log evidence is "
            "too low. Use more particles, or compare with NestedSampling()."
        )
    if measured["unchecked"]:
        found["irregular posterior"] = (
            "the posterior is not Gaussian about its modes, and no particles have shown that the proposal covers it at this "
            "number of rows: the log evidence may be too low. Compare with refresh=False, or with fewer rows."
        )
    return found


def signs_of_path(
    measured: Mapping[str, float], ess_remedy: str = SMALLER_CHUNKS, min_ess: float = MIN_ESS
) -> dict[str, str]:
    """Signs in the annealed path: sentences with advice, by short name.

    `ess_remedy` is a remedy, besides more particles, if the effective sample size is below the
    fraction `min_ess`.
    """
    found = {}
    if measured["smallest_ess"] < min_ess:
        found["ESS collapsed"] = (
            f"the effective sample size fell to {100 * measured['smallest_ess']:.0f}% of the particles: the log evidence "
            f"rests on a few of them. Use more particles, or {ess_remedy}."
        )
    if measured["move_correlation"] > MAX_CORRELATION:
        found["moves do not decorrelate"] = (
            f"the lag-one autocorrelation of a move is {measured['move_correlation']:.2f}: the particles hardly move, and the "
            "log evidence may be too low. Give the kernel more steps (num_steps)."
        )
    if measured["gradient_noise_share"] > MAX_NOISE_SHARE:
        found["mini-batch noise"] = (
            f"the gradient noise is {measured['gradient_noise_share']:.2g} times the noise that the kernel adds: the "
            "particles spread too far, and the log evidence is too low. Use a larger batch_size, or "
            "gradients.ControlVariate()."
        )
    if measured["height_spread"] > MAX_HEIGHT_SPREAD:
        found["modes of different height"] = (
            f"the log posterior density varies {measured['height_spread']:.1f} times as much over the particles as for a "
            "Gaussian: some are stuck in modes that should have died out. Run other seeds, use more particles, and "
            "compare; the highest log evidence is the most credible."
        )
    if measured["lost_particles"] > MAX_LOST:
        found["hard boundary"] = (
            f"moves carried {100 * measured['lost_particles']:.0f}% of the particles to where earlier rows have a "
            "log-likelihood of -inf: gradients do not detect such a boundary, and the log evidence is too low. Reparametrize "
            "the model so that its likelihood is positive everywhere."
        )
    return found


def signs_of_reservoir(measured: Mapping[str, float]) -> dict[str, str]:
    """Signs in the reservoir of a stream: sentences with advice, by short name."""
    error = measured["reservoir_standard_error"]
    if not error > MAX_RESERVOIR_ERROR:
        return {}
    sentence = (
        f"the rows kept in the reservoir determine the log-likelihood of all rows only to {error:.2g} nats: the log evidence "
        "may be too low by as much. Use a larger reservoir_size."
    )
    return {"small reservoir": sentence}


def height_spread(model: BoundModel, rows: Rows, population: Population) -> float:
    """Standard deviation of the log posterior over particles, relative to a Gaussian's √(d/2).

    It uses 32 particles, chosen systematically. For a Gaussian, -2 log density is χ² with d
    degrees of freedom.
    """
    share = np.exp(population.log_weights - np.max(population.log_weights))
    places = (np.arange(32) + 0.5) / 32
    few = np.searchsorted(np.cumsum(share) / np.sum(share), places)
    positions = population.positions[np.minimum(few, len(share) - 1)]
    deviations, _ = rows.log_likelihoods(model, positions)
    heights = deviations + model.log_priors(positions)
    heights = heights[np.isfinite(heights)]
    return float(np.std(heights) / math.sqrt(positions.shape[1] / 2)) if len(heights) else math.nan


def diagnose_drift(steps: Sequence[StepInfo]) -> Diagnosis:
    """Whether moves that leave each tempered posterior invariant change the log-likelihood.

    They do not if the particles represent it. So the sum of these changes over the path, each
    times its step in temperature, is the part of the log evidence that particles have not reached
    when they are reweighted, as far as the moves show it.
    """
    drift, error = sum(step.drift for step in steps), math.sqrt(sum(step.drift_variance for step in steps))
    if error == 0.0:
        return Diagnosis({"drift": math.nan})
    signs = {}
    if abs(drift) > max(LEAST_DRIFT, MAX_DRIFT * error):
        signs["moves drift"] = (
            f"moves that leave the tempered posteriors invariant change the log-likelihood, by {drift:+.2g} ± {error:.1g} nats over the path: "
            "the particles do not represent them, and the log evidence is wrong by this or more. Use more particles, a larger "
            "target_ess, or SGAIS()."
        )
    return Diagnosis({"drift": drift}, signs)


def diagnose_moves(settings: PathSettings, model: BoundModel, rows: Window, num_particles: int) -> Diagnosis:
    """Whether moves that should keep their density change the prior; NaN if others are made.

    The prior is the one density of a path of which independent draws are known. A kernel that does
    not keep its density, as without its Metropolis correction, shows in nothing else: neither in
    weights nor in a second run.
    """
    kernel: Any = settings.exact_kernel or settings.kernel
    is_exact = kernel.needs == "log_density" and not kernel.is_reweighting
    change = change_by_moves(settings, model, rows, num_particles) if is_exact else math.nan
    signs = {}
    if abs(change) > MAX_CHANGE:
        signs["moves change the prior"] = (
            f"moves of draws from the prior change their mean log density by {change:+.0f} standard errors: {kernel!r} does not keep "
            "the density that it is given, and the log evidence may be wrong by any amount. Use a kernel with a Metropolis "
            "correction, such as kernels.HMC()."
        )
    return Diagnosis({"prior_change": change}, signs)


def change_by_moves(settings: PathSettings, model: BoundModel, rows: Window, num_particles: int) -> float:
    """The change of the mean log prior density when prior draws are moved, in standard errors.

    NaN if float32 does not have all of the prior, or the density is the same at all draws. An
    error below a hundredth of the density's standard deviation counts as that.
    """
    length = settings.chain_length
    start = from_prior(model, jax.random.key(0), num_particles)
    nothing = posterior(rows.part(0, 0))
    population, ready = prepared_move(settings, model, start, start.log_weights, nothing)
    moved, *_ = moved_once(model, ready, population, length)
    before, after = (
        np.asarray(model.log_priors(positions), np.float64)
        for positions in (population.positions, moved.positions[length - 1 :: length])
    )
    change, spread = after - before, np.std(before)
    if start.log_evidence != 0.0 or not np.isfinite(spread) or spread == 0.0:
        return math.nan
    error = np.std(change) / math.sqrt(num_particles)
    return float(np.mean(change) / max(error, 0.01 * spread))
