"""Stochastic gradient annealed importance sampling: the log evidence, online, chunk by chunk."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
from jaxtyping import Array

from evidentia import weights
from evidentia.errors import ConfigurationError
from evidentia.evidence import diagnostics
from evidentia.evidence.annealing import anneal
from evidentia.evidence.estimator import Diagnosis, Snapshot, over_chunks
from evidentia.evidence.moves import StepInfo
from evidentia.evidence.population import Population, from_prior, log_evidence_variance
from evidentia.evidence.proposal import Proposal
from evidentia.evidence.refresh import refresh
from evidentia.fields import check_count, check_kernel, check_target_ess
from evidentia.gradients import ControlVariate, FullBatch, MiniBatch
from evidentia.kernels import BAOAB, HMC, METROPOLIS, SGHMC, STOCHASTIC
from evidentia.model import BoundModel
from evidentia.rows import Rows, joined, next_round_number, next_stop


class SGAISState(NamedTuple):
    """What the next update needs.

    `proposal` is near the posterior of the rows seen, if the last update that took in rows drew the particles anew from it.
    Where that was refused, it was last tried with `tried_at` rows.
    """

    population: Population
    num_observations: int
    proposal: Proposal | None = None
    tried_at: int = 0

    def tried(self, num_observations: int) -> "SGAISState":
        """The state where drawing anew was refused: its draws have used up the key."""
        key, _ = jax.random.split(self.population.key)
        return self._replace(population=self.population._replace(key=key), tried_at=num_observations)


class SGAISInfo(NamedTuple):
    """What happened in one update, for people.

    The annealing steps, and the variance of the log evidence after them; whether the particles were drawn anew, and the
    Pareto shape of the weights if that took more draws than particles (else NaN).
    """

    steps: Sequence[StepInfo]
    variance: float
    is_refreshed: bool
    pareto_shape: float = math.nan


@dataclass(frozen=True)
class SGAIS:
    """Stochastic gradient annealed importance sampling.

    Particles follow the posterior as the data arrive. Each chunk of rows is taken in by reweighting, at once or over a
    path of temperatures 0 < λ₁ < … < 1 chosen so that the effective sample size does not fall below its target,

        wᵢ ← wᵢ p(chunk | θᵢ)^Δλ,        log Ẑ ← log Ẑ + log Σ Wᵢ p(chunk | θᵢ)^Δλ,

    and the particles are moved by a kernel driven by mini-batch gradients, at a cost that does not grow with the data.

    The default is the best that we know. Weights are exact; particles are resampled (systematically) and moved only when
    the ESS falls to its target: by Metropolised HMC while rows are few, by preconditioned Langevin dynamics with
    second-order control variates beyond; chunks grow with the data. Where Student t's about the posterior's modes cover
    it, the particles are drawn anew from these and weighed by all rows, at round numbers of rows (`refresh`): errors of the
    path before are gone then. `log_evidence` is corrected for the bias -variance/2 of the logarithm of an unbiased
    estimate. `SGAIS.published()` is Algorithm 1 of the paper to the letter.

    Attributes:
        num_particles: particles M. The variance of the log evidence falls as 1/M.
        chunk_size: rows in a chunk, at least.
        chunk_growth: rows in a chunk as a share of the rows seen, once that is more than `chunk_size`.
        target_ess: effective sample size, as a fraction of the particles, at which they are resampled and moved.
        resample: resample before a move. Without it weights accumulate and every annealing step moves, as published.
        refresh: draw the particles anew by importance sampling of all rows, from Student t's about the posterior's modes,
            where these cover the posterior. In a stream they are weighed by what `Online` keeps of its rows.
        stochastic_gradient: False for exact gradients in the moves, in place of what `gradient` says.
        kernel: the move, `kernels.BAOAB`, `SGHMC`, `SGLD` or `SGNHT`.
        gradient: the gradient, `gradients.ControlVariate`, `gradients.MiniBatch` or `gradients.FullBatch`.
        exact_kernel: the move in place of `kernel` where the gradient is exact, as `ControlVariate`'s is up to 4,096 rows:
            Metropolis' correction makes it right for any shape of the posterior. None for `kernel` always.

    Raises:
        ConfigurationError: a field that is out of range.

    Example:
        >>> ev.estimate(model, data, method=ev.SGAIS(num_particles=1024))  # doctest: +SKIP

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Eq. 2 to 4 and Algorithm 1; Chopin (2002), Biometrika
    89, 539 (iterated batch importance sampling: reweight, resample when degenerate, move).
    """

    num_particles: int = 512
    chunk_size: int = 500
    chunk_growth: float = 1 / 64
    target_ess: float = 0.7
    resample: bool = True
    refresh: bool = True
    stochastic_gradient: bool = True
    kernel: Any = field(default_factory=BAOAB)
    gradient: Any = field(default_factory=ControlVariate)
    exact_kernel: Any = field(default_factory=HMC)

    def __post_init__(self):
        check_count("num_particles", self.num_particles, 2)
        check_count("chunk_size", self.chunk_size, 1)
        if self.chunk_growth < 0:
            raise ConfigurationError(f"chunk_growth must not be negative; got {self.chunk_growth}.")
        check_target_ess(self.target_ess)
        if not self.stochastic_gradient:
            object.__setattr__(self, "gradient", FullBatch())
        if isinstance(self.kernel, METROPOLIS) and not isinstance(self.gradient, FullBatch):
            raise ConfigurationError(
                f"kernel must be one that takes gradient estimates; got {self.kernel!r}, which takes exact densities. Give "
                "it as exact_kernel, or with stochastic_gradient=False."
            )
        check_kernel("kernel", self.kernel, METROPOLIS + STOCHASTIC)
        if self.exact_kernel is not None:
            check_kernel("exact_kernel", self.exact_kernel, METROPOLIS)

    @classmethod
    def published(cls) -> "SGAIS":
        """Algorithm 1 of the 2019 paper with its settings: 10 particles, chunks and mini-batches of 500.

        On 10⁶ rows it ends about 10⁻³ nats per row below the exact log evidence; its reported standard error, from
        the weights of ten particles, does not see that bias.
        """
        return cls(
            num_particles=10,
            chunk_growth=0.0,
            target_ess=0.5,
            resample=False,
            refresh=False,
            kernel=SGHMC(),
            gradient=MiniBatch(batch_size=500),
            exact_kernel=None,
        )

    def init(self, model: BoundModel, key: Array) -> SGAISState:
        """Particles from the prior, with equal weights and a log evidence of zero."""
        return SGAISState(from_prior(model, key, self.num_particles), 0)

    @property
    def resampling(self) -> str | None:
        """The scheme by which particles are resampled, if they are."""
        return "systematic" if self.resample else None

    def run(self, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
        """A snapshot after each chunk of `rows`."""
        return over_chunks(self, model, rows, key)

    def next_stop(self, state: SGAISState, total: int) -> int:
        """The row up to which the next chunk reaches; growing chunks stop at round numbers."""
        start, tried_at = state.num_observations, max(state.num_observations, state.tried_at)
        # Drawing anew costs a look at all rows. At round numbers, the last of them with a fifth of the rows, that makes 1.4
        # passes over the data in all.
        anew = max(self.chunk_size, 5 * tried_at - start)
        size = self._annealed_chunk_size(start) if state.proposal is None else anew
        return next_stop(start, size, total, round_above=tried_at if self.chunk_growth > 0 else None)

    def update(
        self, model: BoundModel, state: SGAISState, past: Rows, chunk: Rows, *, is_last: bool = False
    ) -> tuple[SGAISState, SGAISInfo]:
        """Take in a chunk; `past` holds the rows of earlier chunks. Drawing anew is tried at round numbers and `is_last`.

        With a chunk that was meant for drawing anew, and is large, no rows are taken in where that is refused: with more
        rows it may succeed. If it is the last chunk, its first rows are. The state counts what was taken in.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a particle or -inf at all.
        """
        rows = joined(past, chunk) if self.refresh else None
        if rows is not None and state.proposal is not None:
            refreshed = self.redraw(model, state, rows)
            if refreshed is not None:
                return refreshed
            state = state.tried(rows.size)
            if not is_last:
                return state, SGAISInfo((), log_evidence_variance(state.population), False)
            # On along the path with the first rows.
            stop = min(chunk.start + self._annealed_chunk_size(state.num_observations), chunk.stop)
            state, is_last = state._replace(proposal=None, tried_at=chunk.start), stop == chunk.stop
            chunk = replace(chunk, stop=stop)
            rows = joined(past, chunk)
        state, info = self.follow(model, state, past, chunk)
        if rows is not None and (is_last or self.is_redraw_due(state)):
            refreshed = self.redraw(model, state, rows, info.steps)
            if refreshed is not None:
                return refreshed
            state = state.tried(rows.size)
        return state, info

    def follow(
        self, model: BoundModel, state: SGAISState, past: Rows, chunk: Rows
    ) -> tuple[SGAISState, SGAISInfo]:
        """Take in a chunk along the annealed path, without drawing anew."""
        population, steps = anneal(self, model, state.population, past, chunk)
        num_observations = state.num_observations + chunk.size
        state = state._replace(population=population, num_observations=num_observations, proposal=None)
        return state, SGAISInfo(steps, log_evidence_variance(population), False)

    def is_redraw_due(self, state: SGAISState) -> bool:
        """Whether a round number of rows has been reached since particles were last drawn anew, or that was tried."""
        # A stream may stay below a chunk for long, where a mixture's particles can miss a mode: anew from 100 rows on.
        return self.refresh and state.num_observations >= next_round_number(state.tried_at, smallest=100)

    def redraw(
        self, model: BoundModel, state: SGAISState, rows: Rows, steps: Sequence[StepInfo] = ()
    ) -> tuple[SGAISState, SGAISInfo] | None:
        """The state with particles drawn anew from an approximation of the posterior of `rows`, if it is good enough."""
        key, key_draws = jax.random.split(state.population.key)
        num_observations = round(rows.num_observations)
        growth = num_observations / max(1, state.num_observations)
        found = refresh(model, rows, state.population, key_draws, state.proposal, growth)
        if found is None:
            return None
        population = found.draws.population(key, self.num_particles)
        one_batch = len(found.draws.log_weights) == self.num_particles
        shape = math.nan if one_batch else weights.pareto_shape(found.draws.log_weights)
        info = SGAISInfo(steps, log_evidence_variance(population), True, shape)
        return SGAISState(population, num_observations, found.proposal), info

    def summary(self, state: SGAISState) -> tuple[float, float]:
        """Log evidence of everything seen and its standard error, in nats."""
        variance = log_evidence_variance(state.population)
        correction = 0.5 * variance if self.resample else 0.0
        return state.population.log_evidence + correction, math.sqrt(variance)

    def diagnose(
        self, model: BoundModel, state: SGAISState, rows: Rows, infos: Sequence[SGAISInfo]
    ) -> Diagnosis:
        """Measured signs of health of a run over `rows`, and which part of the squared standard error stems from where.

        The last update says how the state came about: where particles were drawn anew, the path before does not matter.
        """
        is_refreshed = state.proposal is not None
        spread = math.nan if is_refreshed else diagnostics.height_spread(model, rows, state.population)
        measured = diagnostics.measure([step for info in infos for step in info.steps], spread)
        measured["num_refreshes"] = sum(info.is_refreshed for info in infos)
        measured["pareto_shape"] = infos[-1].pareto_shape
        find = diagnostics.signs_of_draws if is_refreshed else diagnostics.signs_of_path
        return Diagnosis({**measured, **_variance_shares(infos)}, find(measured))

    def _annealed_chunk_size(self, num_observations: int) -> int:
        return max(self.chunk_size, int(self.chunk_growth * num_observations))


def _variance_shares(infos: Sequence[SGAISInfo]) -> dict[str, float]:
    """Which part of the squared standard error stems from where."""
    refreshed = [info for info in infos if info.is_refreshed]
    start, name = (refreshed[-1], "last_refresh") if refreshed else (infos[0], "first_chunk")
    share = min(1.0, start.variance / infos[-1].variance) if infos[-1].variance else 1.0
    return {f"variance_share_{name}": share, "variance_share_later_chunks": 1.0 - share}
