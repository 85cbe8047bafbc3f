"""Whether moves keep the prior, the one density of a path of which independent draws are known.

The particles of a path follow wherever a kernel takes them. One that does not keep its density, as
without its Metropolis correction, shows in nothing else: neither in weights nor in a second run.
"""

import math
from typing import Any

import jax
import numpy as np

from evidentia.evidence.method import Diagnosis
from evidentia.evidence.population.moves import PathSettings, moved_once, prepared_move
from evidentia.evidence.population.particles import from_prior
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window
from evidentia.posterior.target import posterior

MAX_CHANGE = 5.0  # standard errors, by chance in one run of two million; at most 2 on 45 families
NOTHING = 0.01  # standard deviations of the log density: a smaller error of its change counts as this


def diagnose_moves(settings: PathSettings, model: BoundModel, rows: Window, num_particles: int) -> Diagnosis:
    """Whether moves that should keep their density change the prior; NaN if others are made."""
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

    NaN if float32 does not have all of the prior, or the density is the same at all draws.
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
    return float(np.mean(change) / max(error, NOTHING * spread))
