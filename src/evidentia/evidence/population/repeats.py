"""A second opinion on a path over few rows, where moves do not lead from mode to mode.

Each run reaches the modes in other proportions, and the genealogy of its particles does not show
by how much these are wrong. A second run does: if the two disagree, there are more. The mean of a
fixed number of evidences is unbiased; that the number depends on the first two makes it slightly
low, by less than its standard error.
"""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

from evidentia import weights
from evidentia.evidence.population.moves import CORRELATED, MOST_MOVES, StepInfo
from evidentia.evidence.population.particles import (
    Population,
    families_of,
    log_evidence_variance,
    origins_of,
    split_key,
    with_families,
)

AGREEMENT = 1.5  # standard errors of a difference
MOST_RUNS = 3


def is_needed(steps: Sequence[StepInfo]) -> bool:
    """Whether `MOST_MOVES`, made while rows are few, left particles correlated at some step."""
    return any(step.num_moves == MOST_MOVES and step.correlation > CORRELATED for step in steps)


def with_second_opinion(first: Population, run: Callable[..., Population]) -> Population:
    """The population of a run pooled with that of `run(key)`, and of more if the two disagree."""
    key, runs = first.key, [first]
    while len(runs) < 2 or (len(runs) < MOST_RUNS and not _agree(runs)):
        key, key_run = split_key(key)
        runs.append(run(key_run))
    return pooled([first._replace(key=key), *runs[1:]])


def _agree(runs: Sequence[Population]) -> bool:
    return len(runs) == 2 and abs(runs[0].log_evidence - runs[1].log_evidence) < AGREEMENT * math.sqrt(
        sum(log_evidence_variance(run) for run in runs)
    )


def pooled(runs: Sequence[Population]) -> Population:
    """As many particles as one run has, resampled from all, with the mean of their evidences.

    The variance is that between the runs, or that within them if it is larger.
    """
    log_evidences = np.array([run.log_evidence for run in runs])
    share = np.exp(weights.normalise(log_evidences))
    within = float(share**2 @ [log_evidence_variance(run) for run in runs])
    between = weights.relative_variance(log_evidences) * len(runs) / (len(runs) - 1)
    log_weights = np.concatenate([run.log_evidence + weights.normalise(run.log_weights) for run in runs])
    positions = np.concatenate([np.asarray(run.positions) for run in runs])
    count = len(runs[0].log_weights)
    families = np.concatenate([families_of(run) + index * count for index, run in enumerate(runs)])
    # First halves of all runs come first, so that each half is of all, with relatives together.
    order = np.argsort(np.tile(np.arange(count) >= count // 2, len(runs)), kind="stable")
    key, key_resample = split_key(runs[0].key)
    chosen = order[np.sort(weights.resample(key_resample, log_weights[order], count))]
    together = runs[0]._replace(
        key=key,
        positions=jnp.asarray(positions[chosen]),
        log_weights=np.zeros(count),
        log_evidence=weights.log_mean(log_evidences),
        variance=max(within, between),
    )
    origins = np.concatenate([origins_of(run) + index * count for index, run in enumerate(runs)])
    return with_families(together, families[chosen])._replace(origins=origins[chosen])
