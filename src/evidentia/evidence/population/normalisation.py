"""A test of a proposal that costs no likelihood: whether its density is that of its draws.

For any normalised density r that lies inside a proposal q, E_q[r(θ) / q(θ)] = 1. Here r has the
same components, slightly narrower. A density that is off by a factor, draws that are too wide or
too narrow, and positions that float32 cannot tell apart all show.
"""

import math

import numpy as np

from evidentia.errors import EstimationError
from evidentia.evidence.population.mixture import Mixture

FEWEST, MOST = 256, 4096  # draws: an error of 1/16 at most, of 1/64 where they cost nothing
WORK = 16_000_000  # of draws times components times squared parameters
TOLERATED = 5.0  # standard errors in both of two tests, as ratios are skewed


def check_density(proposal: Mixture) -> None:
    """Raise EstimationError unless the proposal's density is that of its draws."""
    for seed in range(2):
        mean, error = mean_ratio(proposal, seed)
        if abs(mean - 1.0) <= TOLERATED * error:
            break
    else:
        raise EstimationError(
            f"the density of the draws about the posterior's modes is off: its integral is {mean:.4g} ± {error:.2g} instead of 1. "
            "The posterior is too narrow for float32, which cannot tell its positions apart: centre and scale the parameters, "
            "so that they are about one apart. If they are, this is a fault of the program: please report it."
        )


def mean_ratio(proposal: Mixture, seed: int) -> tuple[float, float]:
    """The mean of r / q over draws of the proposal, with its standard error."""
    size = len(proposal.components[0].centre)
    count = int(np.clip(WORK // (len(proposal.components) * size**2), FEWEST, MOST))
    draws = np.asarray(proposal.draw(np.random.default_rng(seed), count), np.float64)
    # Variances smaller by 1 + 1/√d give ratios with a variance below one in any dimension.
    narrower = 1 + 1 / math.sqrt(size)
    heights = []
    for share, component in zip(proposal.shares, proposal.components, strict=True):
        root = np.linalg.cholesky(component.precision * narrower)
        steps = (draws - component.centre) @ root
        constant = np.log(np.diag(root)).sum() - 0.5 * size * math.log(2 * math.pi)
        heights.append(np.log(share) + constant - 0.5 * np.einsum("ij,ij->i", steps, steps))
    ratios = np.exp(np.logaddexp.reduce(heights, axis=0) - proposal.log_density(draws))
    return float(np.mean(ratios)), float(np.std(ratios) / math.sqrt(count))
