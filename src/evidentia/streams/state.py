"""The states of many streams and their update by a batch each: pure functions.

The draws of all streams are weighted by one program, and searches (`draws.search`) run side by
side: each round evaluates the positions that they ask for together. A stream whose search fails,
and one that has become long, goes on as an `Online` of its own.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.data.arrays import num_rows
from evidentia.errors import EvidentiaError, quietly
from evidentia.evidence.method import Estimate
from evidentia.evidence.sgais import SGAIS
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.online import reservoir as reservoirs
from evidentia.online import state as online
from evidentia.online.past import StreamPast
from evidentia.online.state import OnlineState, OnlineUpdate
from evidentia.streams.draws import (
    LEAST,
    NUM_DRAWS,
    Draws,
    Found,
    OfDraws,
    Particles,
    Prior,
    estimated,
    search,
)
from evidentia.streams.likelihoods import log_likelihoods, log_priors
from evidentia.streams.modes import misses_modes

NUM_PRIOR_DRAWS = 4096  # of which the first `NUM_DRAWS` are weighted by all rows of each stream
MAX_ROWS = 10_000  # of a stream; above, it is an `Online` with a reservoir of as many rows
MAX_PARAMETERS = 10  # of 12, 512 draws underestimate the evidence by 0.3 standard errors
RETRY = 1.5  # growth of the rows after which a search is tried again
METHOD = SGAIS()  # of streams on their own

ITS_PARAMETERS = "the model has many parameters"
ITS_SYMMETRY = "the model has symmetries"
ITS_LENGTH = f"the stream has more than {MAX_ROWS:,} rows"
ITS_SHAPE = "no proposal fits its posterior"


class Shared(NamedTuple):
    """What all streams share: the model, its check of data, rows, and draws from its prior."""

    model: BoundModel
    check_data: Callable[[Any], None] | None
    example: Any
    prior: Prior

    @property
    def refusal(self) -> str:
        """Why no stream of the model has draws; empty if they have."""
        if self.model.symmetry:
            return ITS_SYMMETRY
        return ITS_PARAMETERS if self.model.num_parameters > MAX_PARAMETERS else ""


class StreamState(NamedTuple):
    """One stream.

    Attributes:
        seed: of its random numbers.
        num_observations: rows so far.
        rows: its batches, NumPy; none once there are more than `MAX_ROWS` rows.
        prior_sums: log-likelihood of all rows at prior draws, in nats.
        draws: weighted draws of the posterior; None before the first batch and on its own.
        own: the state of its `Online`, if it has one.
        reason: why it has one.
        retry_at: number of rows at which draws are tried again.
        estimate: of the log evidence of all rows so far.
        seconds: its share of the time of all batches.
    """

    seed: int
    num_observations: int = 0
    rows: tuple[Any, ...] = ()
    prior_sums: Float[ndarray, " draws"] = np.zeros(NUM_DRAWS)
    draws: Draws | None = None
    own: OnlineState | None = None
    reason: str = ""
    retry_at: int = 0
    estimate: Estimate = Estimate(0.0)
    seconds: float = 0.0


class Step(NamedTuple):
    """A stream while it takes in a batch: its state, what it predicted, rounds of its search."""

    state: StreamState
    predictive: Estimate | None = None
    num_rounds: int = 0


Outcome = tuple[StreamState, OnlineUpdate] | EvidentiaError


def shared(model: Model, bound: BoundModel, example: Any, seed: int) -> Shared:
    """What streams of a model share, given some rows to which it is bound, NumPy."""
    draws = bound.sample_prior(jax.random.key(seed), NUM_PRIOR_DRAWS)
    prior = Prior(np.asarray(draws, np.float64), np.zeros(NUM_DRAWS))
    prior = prior._replace(log_densities=log_priors(bound, prior.first[None])[0])
    return Shared(bound, model.check_data, example, prior)


def take_in_batches(common: Shared, streams: Sequence[StreamState], batches: Sequence[Any]) -> list[Outcome]:
    """The state of each stream after its batch, and the result; the error of one that failed."""
    started = time.perf_counter()
    steps = _drawn_afresh(common, _weighed(common, streams, batches))
    share = (time.perf_counter() - started) / max(1, len(streams))
    outcomes: list[Outcome] = []
    for before, step, batch in zip(streams, steps, batches, strict=True):
        started = time.perf_counter()
        try:
            if step.state.draws is None:
                step = _on_its_own(common, before, step.state, batch)
            seconds = share + time.perf_counter() - started
            outcomes.append(_result(before, step, num_rows(batch), seconds))
        except EvidentiaError as error:
            outcomes.append(error)
    return outcomes


def _weighed(common: Shared, streams: Sequence[StreamState], batches: Sequence[Any]) -> list[Step]:
    """The streams with the rows of their batches, which change the weights of their draws."""
    first = common.prior.first
    counts = [state.num_observations + num_rows(batch) for state, batch in zip(streams, batches, strict=True)]
    after = [
        Step(state._replace(num_observations=count, rows=(), draws=None))
        for state, count in zip(streams, counts, strict=True)
    ]
    kept = [index for index, count in enumerate(counts) if not common.refusal and count <= MAX_ROWS]
    if not kept:
        return after
    positions = np.stack([_positions(streams[index].draws, first) for index in kept])
    found = log_likelihoods(common.model, positions, [batches[index] for index in kept])
    for index, values in zip(kept, found, strict=True):
        state, draws, predictive = after[index].state, streams[index].draws, None
        if draws is not None:
            after_batch = draws._replace(log_likelihoods=draws.log_likelihoods + values[:NUM_DRAWS])
            predictive = _predictive(after_batch.log_weights, draws.log_weights, streams[index].estimate)
            draws = after_batch
        rows = (*streams[index].rows, batches[index])
        prior_sums = state.prior_sums + values[-NUM_DRAWS:]
        after[index] = Step(state._replace(rows=rows, prior_sums=prior_sums, draws=draws), predictive)
    return after


def _positions(draws: Draws | None, of_prior: ndarray) -> ndarray:
    return np.concatenate([of_prior if draws is None else draws.positions, of_prior])


def _drawn_afresh(common: Shared, steps: list[Step]) -> list[Step]:
    """The streams with new draws where theirs were worn; without any, where a search failed."""
    steps, searches, asked, found = list(steps), {}, {}, {}
    for index, step in enumerate(steps):
        state = step.state
        if not state.rows or not _needs_search(state):
            continue
        generator = np.random.default_rng([state.seed, state.num_observations])
        sums = np.where(np.isnan(state.prior_sums), -np.inf, state.prior_sums)
        searches[index] = search(_known(state), common.prior, sums, generator)
        asked[index] = next(searches[index], None)
        steps[index] = step._replace(state=state._replace(rows=(_joined(state.rows),), draws=None))
    while running := [index for index, positions in asked.items() if positions is not None]:
        positions = np.stack([asked[index] for index in running])
        sums = log_likelihoods(common.model, positions, [steps[index].state.rows[0] for index in running])
        densities = log_priors(common.model, positions)
        for index, *values in zip(running, sums, densities, strict=True):
            steps[index] = steps[index]._replace(num_rounds=steps[index].num_rounds + 1)
            try:
                asked[index] = searches[index].send(tuple(values))
            except StopIteration as end:
                asked[index], found[index] = None, end.value
    for index, draws in _without_missed_modes(common, steps, found).items():
        steps[index] = steps[index]._replace(state=steps[index].state._replace(draws=draws))
    return steps


def _without_missed_modes(
    common: Shared, steps: list[Step], found: dict[int, Found | None]
) -> dict[int, Draws | None]:
    """The draws that searches found, but None where there are modes that they do not reach."""
    draws = {index: None if one is None else one.draws for index, one in found.items()}
    new = {index: one for index, one in found.items() if one is not None and one.is_new}
    states = [steps[index].state for index in new]
    missed = misses_modes(
        common.model,
        common.prior,
        list(new.values()),
        [state.rows[0] for state in states],
        [state.prior_sums for state in states],
        [state.seed for state in states],
    )
    return draws | {index: None for index, is_missed in zip(new, missed, strict=True) if is_missed}


def _known(state: StreamState) -> Draws | Particles | None:
    if state.own is None:
        return state.draws
    population = state.own.path.population
    return Particles(np.asarray(population.positions), population.log_weights)


def _needs_search(state: StreamState) -> bool:
    return state.num_observations >= state.retry_at if state.draws is None else state.draws.is_worn


def _on_its_own(common: Shared, before: StreamState, state: StreamState, batch: Any) -> Step:
    """The stream as an `Online`, begun with all its rows if it was none."""
    own, rows = before.own, batch
    if own is None:
        rows = _joined((*before.rows, batch))
        past = StreamPast(reservoirs.empty(batch, MAX_ROWS, state.seed))
        own = online.init(common.model, METHOD, past, state.seed)
    with quietly():
        own, update = online.take_in_batch(common.model, METHOD, own, rows)
    reason = common.refusal or (ITS_LENGTH if state.num_observations > MAX_ROWS else ITS_SHAPE)
    state = state._replace(own=own, reason=reason)
    if state.num_observations >= state.retry_at:
        state = state._replace(retry_at=math.ceil(RETRY * state.num_observations))
    predictive = Estimate(update.log_predictive, update.log_predictive_standard_error**2, False)
    return Step(state, None if before.own is None else predictive, update.num_annealing_steps)


def _result(before: StreamState, step: Step, size: int, seconds: float) -> tuple[StreamState, OnlineUpdate]:
    """The state after a batch of `size` rows, and the result."""
    state, predictive, old = step.state, step.predictive, before.estimate
    if state.draws is not None:
        new = estimated(state.draws.log_weights)
        state = state._replace(own=None, reason="")
    else:
        assert state.own is not None
        new = online.estimate(METHOD, state.own)
    state = state._replace(estimate=new, seconds=before.seconds + seconds)
    if predictive is None:
        gain = new.log_evidence - old.log_evidence
        predictive = Estimate(gain, old.variance + new.variance, is_unbiased=False)
    update = OnlineUpdate(
        state.num_observations,
        size,
        predictive.log_evidence,
        new.log_evidence,
        new.standard_error,
        step.num_rounds,
        seconds,
        predictive.standard_error,
    )
    return state, update


def _predictive(new: OfDraws, old: OfDraws, before: Estimate) -> Estimate | None:
    """log p(batch | rows before), the ratio of two mean weights of the same draws.

    To first order, its variance is that of the difference of the normalised weights. None if the
    new weights are too uneven.
    """
    if not weights.ess(new) >= LEAST:
        return None
    gain = estimated(new).log_evidence - before.log_evidence
    difference = np.exp(weights.normalise(new)) - np.exp(weights.normalise(old))
    return Estimate(gain, float(np.sum(difference**2)), is_unbiased=False)


def _joined(batches: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *batches)
