"""Signs that a log evidence or its standard error may be wrong, from what the steps of a run showed.

Each sign has a name, a threshold and a sentence that says what to do. Most speak of the annealed path; a run whose last
particles were drawn anew by importance sampling does not rest on it, but on the weights of the draws.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evidentia.evidence.moves import StepInfo
from evidentia.evidence.population import Population
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums

MIN_ESS = 0.15  # of the particles, after reweighting; the default path keeps above 0.35
MAX_CORRELATION = 0.8  # of a coordinate before and after a move; on a Gaussian that of BAOAB is about 0.2
MAX_NOISE_SHARE = 0.25  # widens the variance of the particles by about as much
MAX_PARETO_SHAPE = 0.7  # of the largest weights: beyond, their mean does not settle (`weights.pareto_shape`)
MAX_HEIGHT_SPREAD = 3.0  # in units of a Gaussian's; 1 to 1.5 on skewed posteriors with one mode
MAX_RESERVOIR_ERROR = 0.5  # nats: beyond, moves go visibly astray
FEW = 32  # particles whose log density shows the heights
RECENT = 10  # moves that tell what the moves are like now


def measure(steps: Sequence[StepInfo], height_spread: float) -> dict[str, float]:
    """The numbers that the signs are read from, by name; NaN for what did not occur."""
    moves = [step for step in steps if not math.isnan(step.correlation)][-RECENT:]
    nan = float("nan")
    return {
        "smallest_ess": min((step.ess for step in steps if not math.isnan(step.ess)), default=nan),
        "move_correlation": float(np.median([move.correlation for move in moves])) if moves else nan,
        "gradient_noise_share": float(np.median([move.noise_share for move in moves])) if moves else nan,
        "height_spread": height_spread,
    }


def signs_of_draws(measured: Mapping[str, float]) -> dict[str, str]:
    """What is wrong with particles drawn anew, by a short name, with a sentence that says what to do."""
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
    """What is wrong with the annealed path, by a short name, each with a sentence that says what to do.

    `ess_remedy` is what helps, beside more particles, where their weights are uneven: below `min_ess` of the particles.
    """
    found = {}
    if measured["smallest_ess"] < min_ess:
        found["ESS collapsed"] = (
            f"the effective sample size fell to {100 * measured['smallest_ess']:.0f}% of the particles: the log evidence "
            f"rests on a few of them. Take more particles, or {ess_remedy}."
        )
    if measured["move_correlation"] > MAX_CORRELATION:
        found["moves do not decorrelate"] = (
            f"after a move a coordinate has a correlation of {measured['move_correlation']:.2f} with itself before: the "
            "particles hardly move, and the log evidence may be too low. Give the kernel more steps (num_steps)."
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
    return found


def signs_of_reservoir(measured: Mapping[str, float]) -> dict[str, str]:
    """What is wrong with a sample that stands for the rows of a stream, with a sentence that says what to do."""
    error = measured["reservoir_standard_error"]
    if not error > MAX_RESERVOIR_ERROR:
        return {}
    sentence = (
        f"the rows that are kept leave the log-likelihood of all rows uncertain by {error:.2g} nats, and the particles follow "
        "it: the log evidence may be too low by as much. Take a larger reservoir_size."
    )
    return {"small reservoir": sentence}


def height_spread(model: BoundModel, rows: Rows, population: Population) -> float:
    """Standard deviation of the log posterior density over particles, in units of √(d/2), which a Gaussian has.

    It is taken over a few particles that stand for all: -2 log density is χ² with d degrees of freedom on a Gaussian.
    """
    share = np.exp(population.log_weights - np.max(population.log_weights))
    places = (np.arange(FEW) + 0.5) / FEW
    few = np.searchsorted(np.cumsum(share) / np.sum(share), places)
    positions = population.positions[np.minimum(few, len(share) - 1)]
    deviations, _ = log_likelihood_sums(model, positions, rows)
    heights = deviations + model.log_priors(positions)
    heights = heights[np.isfinite(heights)]
    return float(np.std(heights) / math.sqrt(positions.shape[1] / 2)) if len(heights) else float("nan")
