"""The annealed path: reweight by a tempered chunk, resample where the weights are uneven, move.

Particles θᵢ with weights wᵢ represent the posterior of the rows so far. A chunk is taken in over temperatures
0 < λ₁ < … < 1, chosen so that the effective sample size does not fall below its target,

    wᵢ ← wᵢ p(chunk | θᵢ)^Δλ,        log Ẑ ← log Ẑ + log Σ Wᵢ p(chunk | θᵢ)^Δλ.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Eq. 2 to 4; Chopin (2002), Biometrika 89, 539.
"""

import warnings
from typing import Protocol

import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.errors import EvidenceWarning
from evidentia.evidence.checks import check_defined, check_possible
from evidentia.evidence.moves import Moving, StepInfo, move_particles
from evidentia.evidence.population import Population
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.target import Target

HARD_BOUNDARY = (
    "moves carried more than 5% of the particles to where rows already taken in have a log-likelihood of -inf: gradients "
    "do not see such a boundary, and the log evidence is too low. Parametrise the model so that its likelihood is "
    "positive everywhere."
)


class Annealing(Moving, Protocol):
    """The fields of a method that the path reads."""

    @property
    def target_ess(self) -> float:
        """Effective sample size that reweighting keeps, as a fraction of the particles."""
        ...


def anneal(
    method: Annealing,
    model: BoundModel,
    population: Population,
    past: Rows,
    chunk: Rows,
    *,
    is_reverse: bool = False,
) -> tuple[Population, list[StepInfo]]:
    """Take in a chunk; `past` holds the rows of earlier chunks, which the moves' gradients draw on.

    In reverse the chunk is given back: particles of the posterior of past and chunk become those of the past alone, and
    the log evidence gains -log p(chunk | past).

    Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a particle or -inf at all.
    """
    done, infos = 0.0, []
    while done < 1.0:
        population, done, info = anneal_step(
            method, model, population, past, chunk, done, is_reverse=is_reverse
        )
        infos.append(info)
    return population, infos


def anneal_step(
    method: Annealing,
    model: BoundModel,
    population: Population,
    past: Rows,
    chunk: Rows,
    done: float,
    *,
    stop: float | None = None,
    is_reverse: bool = False,
) -> tuple[Population, float, StepInfo]:
    """One step of the path, and how far it is then: the temperature, or 1 - temperature in reverse.

    It reaches to `stop`; without it as far as the effective sample size allows.
    """
    population, done, log_weights = _reweight(
        method, model, population, chunk, done, stop, -1.0 if is_reverse else 1.0
    )
    info = StepInfo(weights.ess(population.log_weights) / len(population.log_weights))
    if method.resampling is None or done < 1.0 or info.ess < method.target_ess:
        target = Target(past, chunk, 1.0 - done if is_reverse else done)
        population, info = move_particles(method, model, population, log_weights, target, info)
    return population, done, info


def _reweight(
    method: Annealing,
    model: BoundModel,
    population: Population,
    chunk: Rows,
    done: float,
    stop: float | None,
    sign: float,
) -> tuple[Population, float, Float[np.ndarray, " particles"]]:
    """The population at the end of a step, where that is, and the log weights gained since the last move."""
    deviations, offset = log_likelihood_sums(model, population.positions, chunk)
    check_defined(deviations, chunk)
    check_possible(deviations, chunk)
    # Particles without weight were impossible before any move.
    if done > 0.0 and np.mean((deviations == -np.inf) & (population.log_weights > -np.inf)) > 0.05:
        warnings.warn(HARD_BOUNDARY, EvidenceWarning, stacklevel=6)
    deviations, offset = sign * deviations, sign * offset
    # Without resampling the ESS is that of the step alone, whatever weights were carried here, as published.
    carried = np.zeros_like(deviations) if method.resampling is None else population.log_weights
    if stop is None:
        stop = _next_stop(method, carried, deviations, done)
    increments = (stop - done) * deviations
    log_evidence = population.log_evidence + (stop - done) * offset
    log_evidence += weights.log_evidence_increment(population.log_weights, increments)
    log_weights = population.log_weights + increments
    moved = population._replace(log_weights=log_weights, log_evidence=log_evidence)
    return moved, stop, carried + increments


def _next_stop(method: Annealing, carried: np.ndarray, deviations: np.ndarray, done: float) -> float:
    target = method.target_ess * len(deviations)
    if method.resampling is None:
        return weights.next_temperature(carried, deviations, done, target)
    # Falling to half the target in one step is better than evaluating the chunk again after a move.
    stop = weights.next_temperature(carried, deviations, done, 0.5 * target)
    return stop if stop == 1.0 else weights.next_temperature(carried, deviations, done, target)
