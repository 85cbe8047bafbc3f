"""The annealed path: reweight by a tempered chunk, resample if the weights are uneven, move.

Particles θᵢ with weights wᵢ represent the posterior of the rows so far. A chunk is processed over
temperatures 0 < λ₁ < … < 1, chosen to keep the effective sample size at its target, or above half
of it if that completes the chunk,

    wᵢ ← wᵢ p(chunk | θᵢ)^Δλ,        log Ẑ ← log Ẑ + log Σ Wᵢ p(chunk | θᵢ)^Δλ.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Eq. 2 to 4; Chopin (2002), Biometrika
89, 539.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.errors import EstimationError, warn
from evidentia.evidence.method import check_defined, check_possible
from evidentia.evidence.population.moves import CORRELATED, MOST_MOVES, PathSettings, StepInfo, move_particles
from evidentia.evidence.population.particles import (
    Population,
    families_of,
    log_evidence_variance,
    origins_of,
    reweighted,
    split_key,
    with_families,
)
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window
from evidentia.posterior.target import tempered
from evidentia.system.interruption import check

LONG = 30  # steps, times √(1 - target ESS), after which a path that has hardly begun is called long
STUCK = 0.9  # lag-one autocorrelation of as many moves as are made at most
HARDLY = 5.0  # temperature times rows
AGREEMENT = 1.5  # standard errors of a difference


class Annealed(NamedTuple):
    """The particles after some steps of a path.

    Attributes:
        temperatures: at the ends of the steps; in reverse, fractions of the way back.
        shortcut: what led to the end of the path from here, if anything.
    """

    population: Population
    temperatures: tuple[float, ...] = ()
    steps: tuple[StepInfo, ...] = ()
    shortcut: Any = None

    @property
    def share_done(self) -> float:
        """Estimated share of the work."""
        return weights.share_of_path(self.temperatures[0], self.temperatures[-1])


def anneal(
    settings: PathSettings,
    model: BoundModel,
    population: Population,
    past: Window,
    chunk: Window,
    *,
    stops: Sequence[float] | None = None,
    is_reverse: bool = False,
    shortcut: Callable[[Population], Any] | None = None,
) -> Iterator[Annealed]:
    """Process a chunk, and yield the particles after each temperature.

    `past` holds the rows of earlier chunks, on which the moves depend. `stops` are the ends of the
    steps, as fractions of the path, for methods that choose them beforehand (AIS) or go back
    (reverse SMC); without them, steps go as far as the effective sample size allows. A path that
    then turns out to be long, or whose particles do not leave their modes, asks for a `shortcut`
    to its end, and stops there unless that is None. In reverse, the chunk is removed: particles of
    the posterior of past and chunk become those of the past alone, and the log evidence gains
    -log p(chunk | past).

    Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a
    particle, or -inf at all particles.
    """
    done, found = 0.0, Annealed(population)
    while done < 1.0 and found.shortcut is None:
        stop = None if stops is None else stops[len(found.steps)]
        population, done, info = anneal_step(
            settings, model, found.population, past, chunk, done, stop=stop, is_reverse=is_reverse
        )
        temperatures, steps, end = (*found.temperatures, done), (*found.steps, info), None
        is_free = stops is None and not is_reverse
        is_long = is_free and _is_long(settings, len(steps), done * chunk.size)
        if shortcut is not None and (is_long or _is_stuck(info)) and done < 1.0:
            key, key_shortcut = split_key(population.key)
            end, shortcut = shortcut(population._replace(key=key_shortcut)), None
            population = population._replace(key=key)
        if is_long:
            _warn_of_long(steps, done, chunk, is_cut=end is not None)
        found = Annealed(population, temperatures, steps, end)
        yield found


def end_of(path: Iterator[Annealed]) -> Annealed:
    """The particles after the last step of a path."""
    return deque(path, maxlen=1).pop()


def _is_stuck(info: StepInfo) -> bool:
    """Whether particles stay where they are, however often they are moved.

    With separate modes, moves that are scaled to the distances between them are too long for all.
    """
    return info.num_moves > 1 and info.correlation > STUCK


def _is_long(settings: PathSettings, num_steps: int, num_rows: float) -> bool:
    """Whether it shows now that a path takes long: steps grow as the distance from the prior.

    They also grow as 1/√(1 - target ESS), and as the logarithm of the number of rows, which say
    nothing of the data. The temperature times the rows is `num_rows`.
    """
    return num_rows < HARDLY and num_steps == math.ceil(LONG / math.sqrt(1.0 - settings.target_ess))


def _warn_of_long(steps: Sequence[StepInfo], done: float, rows: Window, *, is_cut: bool) -> None:
    cure = "The rest was left out: particles were drawn at the modes above some of them. " * is_cut
    warn(
        [
            f"the path from the prior to the posterior of {rows.span} is long: after {len(steps)} steps of moves its temperature is {done:.2g} of 1. "
            f"{cure}The data lie far from what the prior expects: centre or scale them, or widen the prior."
        ]
    )


def anneal_step(
    settings: PathSettings,
    model: BoundModel,
    population: Population,
    past: Window,
    chunk: Window,
    done: float,
    *,
    stop: float | None = None,
    is_reverse: bool = False,
) -> tuple[Population, float, StepInfo]:
    """Take one step of the path; return the population, the new `done` and diagnostics.

    `done` is the temperature, or 1 - temperature in reverse. The step ends at `stop` or, if None,
    as far as the effective sample size allows.
    """
    check()
    sign = -1.0 if is_reverse else 1.0
    population, done, log_weights, info = _reweight(settings, model, population, chunk, done, stop, sign)
    is_uneven = info.ess < settings.target_ess
    if settings.is_always_moving or done < 1.0 or is_uneven:
        target = tempered(past, chunk, 1.0 - done if is_reverse else done)
        population, info = move_particles(settings, model, population, log_weights, target, info)
    return population, done, info


def _reweight(
    settings: PathSettings,
    model: BoundModel,
    population: Population,
    chunk: Window,
    done: float,
    stop: float | None,
    sign: float,
) -> tuple[Population, float, Float[np.ndarray, " particles"], StepInfo]:
    """Population and temperature after a step, log weights since the last move, diagnostics."""
    deviations, offset = chunk.log_likelihoods(model, population.positions)
    check_defined(deviations, chunk.span)
    check_possible(deviations, chunk.span)
    # Before the first move, particles without weight were impossible from the start.
    is_lost = (deviations == -np.inf) & (population.log_weights > -np.inf)
    lost = float(np.mean(is_lost)) if done > 0.0 else 0.0
    if sign < 0 and (deviations == -np.inf).any():
        raise EstimationError(
            f"{chunk.span}: a move of the reverse path carried a particle to where the log-likelihood is -inf. Use a kernel "
            "with a Metropolis correction, such as kernels.HMC()."
        )
    deviations, offset = sign * deviations, sign * offset
    # Without resampling, the ESS is that of the step alone, as published.
    carried = np.zeros_like(deviations) if settings.resampling is None else population.log_weights
    if stop is None:
        stop = _next_temperature(settings, carried, deviations, done)
    increments = (stop - done) * deviations
    drift, drift_variance = drift_of(population, increments, settings.chain_length)
    population = population._replace(log_evidence=population.log_evidence + (stop - done) * offset)
    population = reweighted(population, increments)
    ess = weights.ess(population.log_weights) / len(population.log_weights)
    info = StepInfo(ess, lost=lost, drift=drift, drift_variance=drift_variance)
    return population, stop, carried + increments, info


def drift_of(
    population: Population, increments: Float[np.ndarray, " particles"], chain_length: int
) -> tuple[float, float]:
    """The mean change of the increments from the starts of chains to their later states, in nats.

    Starts represent the density that the moves leave invariant if the particles do, and then the
    mean change is zero. The second number is its variance, with families counted as one. Both are
    zero without chains, or with weights.
    """
    log_weights = population.log_weights
    if chain_length == 1 or not len(population.ancestors) or np.ptp(log_weights) > 0:
        return 0.0, 0.0
    chains = increments.reshape(-1, chain_length)
    with np.errstate(invalid="ignore"):  # both may be -inf
        changes = np.mean(chains[:, 1:], axis=1) - chains[:, 0]
    changes = np.where(np.isfinite(changes), changes, 0.0)
    sums = np.bincount(families_of(population), changes - np.mean(changes))
    return float(np.mean(changes)), float(sums @ sums) / len(changes) ** 2


def _next_temperature(
    settings: PathSettings, carried: np.ndarray, deviations: np.ndarray, done: float
) -> float:
    target = settings.target_ess * len(deviations)
    if settings.is_always_moving:
        return weights.next_temperature(carried, deviations, done, target)
    # One step down to half the target is better than evaluating the chunk again after a move.
    furthest = weights.next_temperature(carried, deviations, done, 0.5 * target)
    return 1.0 if furthest == 1.0 else weights.next_temperature(carried, deviations, done, target)


def needs_second_opinion(steps: Sequence[StepInfo]) -> bool:
    """Whether `MOST_MOVES`, made while rows are few, left particles correlated at some step."""
    return any(step.num_moves == MOST_MOVES and step.correlation > CORRELATED for step in steps)


def with_second_opinion(first: Population, run: Callable[..., Population]) -> Population:
    """The population of a run pooled with that of `run(key)`, and of a third if the two disagree.

    Where moves do not lead from mode to mode, each run reaches the modes in other proportions, and
    the genealogy of its particles does not show by how much these are wrong. The mean of a fixed
    number of evidences is unbiased; that the number depends on the first two makes it slightly
    low, by less than its standard error.
    """
    key, key_run = split_key(first.key)
    runs = [first, run(key_run)]
    error = math.sqrt(sum(log_evidence_variance(each) for each in runs))
    if not abs(runs[0].log_evidence - runs[1].log_evidence) < AGREEMENT * error:
        key, key_run = split_key(key)
        runs.append(run(key_run))
    return pooled([first._replace(key=key), *runs[1:]])


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
