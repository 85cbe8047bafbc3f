"""Signs that a log evidence or its standard error may be wrong, found in what the steps of a run
showed.

Each sign has a name, a threshold and a sentence that says what to do. Most concern the annealed
path; a run whose last particles were drawn anew by importance sampling rests on the weights of
these draws instead.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evidentia.evidence.path.moves import StepInfo
from evidentia.evidence.path.population import Population
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Rows

MIN_ESS = 0.15  # of the particles, after reweighting; the default path keeps above 0.35
MAX_CORRELATION = 0.8  # of a coordinate before and after a move; on a Gaussian that of BAOAB is about 0.2
MAX_NOISE_SHARE = 0.25  # widens the variance of the particles by about as much
MAX_PARETO_SHAPE = 0.7  # of the largest weights: beyond, their mean does not settle (`weights.pareto_shape`)
MAX_HEIGHT_SPREAD = 3.0  # in units of a Gaussian's; 1 to 1.5 on skewed posteriors with one mode
MAX_RESERVOIR_ERROR = 0.5  # nats: beyond, the moves are visibly wrong
MAX_LOST = 0.05  # of the particles, moved to where the likelihood of earlier rows is zero
FEW = 32  # particles whose log density shows the heights
RECENT = 10  # moves that show the present state of the path


def measure(steps: Sequence[StepInfo], height_spread: float) -> dict[str, float]:
    """The diagnostics of a path by name; NaN for what did not occur."""
    moves = [step for step in steps if not math.isnan(step.correlation)][-RECENT:]
    nan = float("nan")
    return {
        "smallest_ess": min((step.ess for step in steps if not math.isnan(step.ess)), default=nan),
        "move_correlation": float(np.median([move.correlation for move in moves])) if moves else nan,
        "gradient_noise_share": float(np.median([move.noise_share for move in moves])) if moves else nan,
        "height_spread": height_spread,
        "lost_particles": max((step.lost for step in steps), default=0.0),
    }


def signs_of_draws(measured: Mapping[str, float]) -> dict[str, str]:
    """Signs in the weights of particles drawn anew, by a short name, each with a sentence that
    says what to do.
    """
    if not measured["pareto_shape"] > MAX_PARETO_SHAPE:
        return {}
    sentence = (
        f"the largest importance weights have a Pareto shape of {measured['pareto_shape']:.2f}: the proposal has lighter "
        "tails than the posterior, and the log evidence may be too low by more than the standard error says. Take more "
        "particles, or compare with refresh=False."
    )
    return {"heavy weights": sentence}


def signs_of_path(
    measured: Mapping[str, float], ess_remedy: str = "resample=True", min_ess: float = MIN_ESS
) -> dict[str, str]:
    """Signs in the annealed path, by a short name, each with a sentence that says what to do.

    `ess_remedy` is what helps, beside more particles, where the effective sample size is below
    `min_ess` of them.
    """
    found = {}
    if measured["smallest_ess"] < min_ess:
        found["ESS collapsed"] = (
            f"the effective sample size fell to {100 * measured['smallest_ess']:.0f}% of the particles: the log evidence "
            f"rests on a few of them. Take more particles, or {ess_remedy}."
        )
    if measured["move_correlation"] > MAX_CORRELATION:
        found["moves do not decorrelate"] = (
            f"the lag-one autocorrelation of a move is {measured['move_correlation']:.2f}: the particles hardly move, and the "
            "log evidence may be too low. Give the kernel more steps (num_steps)."
        )
    if measured["gradient_noise_share"] > MAX_NOISE_SHARE:
        found["mini-batch noise"] = (
            f"the gradient's noise is {measured['gradient_noise_share']:.2g} times the noise that the kernel adds: the "
            "particles spread too far, and the log evidence is too low. Take a larger batch_size, or "
            "gradients.ControlVariate()."
        )
    if measured["height_spread"] > MAX_HEIGHT_SPREAD:
        found["modes of different height"] = (
            f"the log posterior density varies {measured['height_spread']:.1f} times as much over the particles as it "
            "would over a Gaussian: some are stuck in modes that should have died out. Run other seeds, take more "
            "particles, and compare; the highest log evidence is the most credible."
        )
    if measured["lost_particles"] > MAX_LOST:
        found["hard boundary"] = (
            f"moves carried {100 * measured['lost_particles']:.0f}% of the particles to where rows already taken in have a "
            "log-likelihood of -inf: gradients do not see such a boundary, and the log evidence is too low. Parametrise the "
            "model so that its likelihood is positive everywhere."
        )
    return found


def signs_of_reservoir(measured: Mapping[str, float]) -> dict[str, str]:
    """Signs in a sample that stands for the rows of a stream, with a sentence that says what to
    do.
    """
    error = measured["reservoir_standard_error"]
    if not error > MAX_RESERVOIR_ERROR:
        return {}
    sentence = (
        f"the rows kept in the reservoir determine the log-likelihood of all rows to {error:.2g} nats only: the log evidence "
        "may be too low by as much. Take a larger reservoir_size."
    )
    return {"small reservoir": sentence}


def height_spread(model: BoundModel, rows: Rows, population: Population) -> float:
    """Standard deviation of the log posterior density over particles, in units of √(d/2), which a
    Gaussian has.

    It is taken over a few particles, chosen systematically. On a Gaussian -2 log density is χ²
    with d degrees of freedom.
    """
    share = np.exp(population.log_weights - np.max(population.log_weights))
    places = (np.arange(FEW) + 0.5) / FEW
    few = np.searchsorted(np.cumsum(share) / np.sum(share), places)
    positions = population.positions[np.minimum(few, len(share) - 1)]
    deviations, _ = rows.log_likelihoods(model, positions)
    heights = deviations + model.log_priors(positions)
    heights = heights[np.isfinite(heights)]
    return float(np.std(heights) / math.sqrt(positions.shape[1] / 2)) if len(heights) else float("nan")
