"""Stochastic gradient annealed importance sampling: the log evidence, online, chunk by chunk.

Particles from the prior follow the posterior as chunks of rows arrive: each chunk reweights them,
over temperatures if need be, and a kernel moves them (`population.path`). Errors of this path add
up, so at round numbers of rows importance sampling with all rows replaces the particles
(`population.redrawing`, `population.importance`). Where that works, the next one leaps over the
rows in between; where it fails, the path goes on (`population.leaps` has the loop).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from jaxtyping import Array

from evidentia.errors import ConfigurationError, check_count, check_not_negative, check_target_ess
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot
from evidentia.evidence.population import warning_signs
from evidentia.evidence.population.chunks import (
    ChunkedMethod,
    ChunkInfo,
    PathState,
    Redraw,
    next_stop,
    over_chunks,
    variance_shares,
)
from evidentia.evidence.population.leaps import after_redraw, over_leaps
from evidentia.evidence.population.moves import PathSettings
from evidentia.evidence.population.particles import Population, estimate_of, from_prior
from evidentia.evidence.population.path import anneal, end_of, needs_second_opinion, with_second_opinion
from evidentia.evidence.population.redrawing import AFFORDABLE, at_modes_above
from evidentia.evidence.population.warning_signs import diagnose_moves
from evidentia.kernels import BAOAB, HMC, SGHMC
from evidentia.kernels.kernel import check_kernel
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import ControlVariate, MiniBatch, check_gradient
from evidentia.posterior.rows import Rows, Window

GROWTH = 5.0  # of the rows from one redraw to the next, at most, or else a chunk
LEARNT_GROWTH = 2.5  # the same if the proposal must be learnt anew each time

Resample = bool | Literal["each step"]


@dataclass(frozen=True)
class SGAIS(ChunkedMethod):
    """Stochastic gradient annealed importance sampling.

    Particles follow the posterior as the data arrive. Each chunk of rows reweights the particles,
    at once or over temperatures 0 < λ₁ < … < 1 chosen for an effective sample size,

        wᵢ ← wᵢ p(chunk | θᵢ)^Δλ,        log Ẑ ← log Ẑ + log Σ Wᵢ p(chunk | θᵢ)^Δλ,

    and a kernel moves them; with mini-batch gradients its cost does not grow with the data.

    The defaults are the best settings we know. Weights are exact. Particles are resampled
    (systematically) and moved only when the ESS falls to its target: by HMC with a Metropolis
    correction while there are few rows, then by preconditioned Langevin dynamics with second-order
    control variates. Chunks grow with the data. If Student t's at the posterior modes, or fitted
    to particles, cover the posterior, the particles are redrawn from them at round numbers of rows
    and weighted by all rows (`refresh`), which removes the errors of the earlier path.
    `log_evidence` is corrected for the bias -variance/2 of the logarithm of an unbiased estimate.
    `SGAIS.published()` is exactly Algorithm 1 of the paper.

    Attributes:
        num_particles: number of particles M. The variance of the log evidence falls as 1/M.
        chunk_size: rows in a chunk, if chunks do not grow or no round number of rows (100, 200,
            500, …) comes first.
        chunk_growth: rows in a chunk as a fraction of the rows seen, if that exceeds `chunk_size`.
        target_ess: effective sample size, as a fraction of the particles, at which they are
            resampled and moved.
        resample: whether to resample before a move. If not, weights accumulate and every annealing
            step moves the particles, as published. With "each step", every annealing step
            resamples and moves them, the option in Algorithm 8 of the thesis.
        refresh: whether to redraw the particles by importance sampling with all rows, if Student
            t's cover the posterior. In a stream, the weights use the rows and sums that `Online`
            keeps.
        kernel: the move: `kernels.BAOAB`, `SGHMC`, `SGLD`, `SGNHT` or your own (`kernels.Kernel`).
        gradient: the gradient estimator: `gradients.ControlVariate`, `gradients.MiniBatch` or
            `gradients.FullBatch`.
        exact_kernel: the move used instead of `kernel` if the gradient is exact, as for
            `ControlVariate` up to 4,096 rows. Its Metropolis correction makes it valid for any
            shape of the posterior. None to use `kernel` always.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> ev.estimate(model, data, method=ev.SGAIS(num_particles=1024))  # doctest: +SKIP

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Eq. 2 to 4 and Algorithm 1; Chopin
    (2002), Biometrika 89, 539 (iterated batch importance sampling: reweight, resample when
    degenerate, move).
    """

    num_particles: int = 512
    chunk_size: int = 500
    chunk_growth: float = 1 / 64
    target_ess: float = 0.7
    resample: Resample = True
    refresh: bool = True
    kernel: Any = field(default_factory=BAOAB)
    gradient: Any = field(default_factory=ControlVariate)
    exact_kernel: Any = field(default_factory=HMC)

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)
        if self.resample not in (True, False, "each step"):
            raise ConfigurationError(f"resample must be True, False or 'each step'; got {self.resample!r}.")
        check_count("chunk_size", self.chunk_size, 1)
        check_not_negative("chunk_growth", self.chunk_growth)
        check_target_ess(self.target_ess)
        check_kernel("kernel", self.kernel, "gradient")
        check_gradient(self.gradient)
        if self.exact_kernel is not None:
            check_kernel("exact_kernel", self.exact_kernel, "log_density")

    @classmethod
    def published(cls) -> "SGAIS":
        """Algorithm 1 of the 2019 paper: 10 particles, chunks and mini-batches of 500 rows.

        On 10⁶ rows it ends about 10⁻³ nats per row below the exact log evidence; the reported
        standard error, from the weights of ten particles, does not include that bias.
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

    @property
    def path(self) -> PathSettings:
        """Settings of the annealed path."""
        resampling = "systematic" if self.resample else None
        each_step = self.resample == "each step"
        kernels = self.kernel, self.gradient, self.exact_kernel
        return PathSettings(self.target_ess, *kernels, resampling, each_step, is_repeating=True)

    def run(self, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each chunk of `rows`.

        Raises ConfigurationError if the rows are on a cluster and `refresh` is False.
        """
        if self.refresh:
            return over_leaps(self, self.path, model, rows, key)
        if rows.near.num_observations < rows.num_observations:
            raise ConfigurationError(
                "SGAIS needs refresh=True for rows on a cluster: its path visits a sample."
            )
        return over_chunks(self, model, rows, key)

    def next_stop(self, state: PathState, total: int) -> int:
        """Number of rows processed after the next chunk; growing chunks stop at round numbers."""
        start = state.num_observations
        above = max(start, state.retry_above)
        if state.proposal is None:
            size = max(self.chunk_size, int(self.chunk_growth * start))
        else:
            # Redrawing uses all rows seen. At round numbers up to a fifth of the rows, and at the
            # end, all redraws together cost 1.4 times as much as the last.
            growth = LEARNT_GROWTH if state.proposal.is_learnt else GROWTH
            size = max(self.chunk_size, int(growth * above) - start)
        return next_stop(start, size, total, round_above=above if self.chunk_growth > 0 else None)

    def update(
        self, model: BoundModel, state: PathState, past: Window, chunk: Window
    ) -> tuple[PathState, ChunkInfo]:
        """Process a chunk along the annealed path; `past` holds the rows of earlier chunks.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a
        particle, or -inf at all particles.
        """
        settings, num_observations = self.path, state.num_observations + chunk.num_observations
        if state.has_failed and isinstance(self.gradient, ControlVariate):
            # An expansion about one centre is poor, so exact gradients are used while affordable.
            exact_rows = max(self.gradient.exact_rows, AFFORDABLE // model.num_parameters)
            settings = settings._replace(gradient=replace(self.gradient, exact_rows=exact_rows))
        # From the prior, where it may be long or stuck: later ones begin at modes that are known.
        is_first = past.size == 0
        shortcut = partial(at_modes_above, model, chunk) if is_first and self.refresh else None
        found = end_of(anneal(settings, model, state.population, past, chunk, shortcut=shortcut))
        population, steps = found.population, found.steps
        if found.shortcut is not None:
            return after_redraw(self, population, found.shortcut, num_observations, steps)
        if is_first and needs_second_opinion(steps):

            def run(key: Array) -> Population:
                start = from_prior(model, key, self.num_particles)
                return end_of(anneal(settings, model, start, past, chunk)).population

            population = with_second_opinion(population, run)
        state = state._replace(population=population, num_observations=num_observations, proposal=None)
        estimate = self.estimate(state)
        return state, ChunkInfo(steps, path=estimate, estimate=estimate)

    def estimate(self, state: PathState) -> Estimate:
        """The estimate for all rows processed."""
        return estimate_of(state.population, is_unbiased=bool(self.resample))

    def diagnose(
        self, model: BoundModel, state: PathState, rows: Rows, infos: Sequence[ChunkInfo]
    ) -> Diagnosis:
        """Diagnostics of a run over `rows`, and the sources of the squared standard error.

        All steps are measured; those after the last redraw give signs. The path that led to a
        redraw is a second opinion on it.
        """
        redraws = [index for index, info in enumerate(infos) if info.redraw is not None]
        start = redraws[-1] + 1 if redraws else 0
        steps, later = ([step for info in part for step in info.steps] for part in (infos, infos[start:]))
        is_on_path = start < len(infos)
        spread = warning_signs.height_spread(model, rows, state.population) if is_on_path else math.nan
        measured = warning_signs.measure(steps, spread)
        measured["num_refreshes"] = len(redraws)
        redraw = (infos[start - 1].redraw if redraws else None) or Redraw()
        measured |= warning_signs.measure_redraw(redraw)
        if state.proposal is not None:  # which also is of a redraw that was no better than the path
            measured["unseen"] = state.proposal.unseen
        remedy = warning_signs.SMALLER_CHUNKS if self.resample else "resample=True"
        of_path = warning_signs.signs_of_path(warning_signs.measure(later, spread), remedy)
        signs = warning_signs.signs_of_draws(measured) | of_path
        found = Diagnosis({**measured, **variance_shares(infos)}, signs)
        if is_on_path:
            return found.plus(self._diagnose_standing(model, rows, infos[start:], is_whole=start == 0))
        walked = [info for info in infos if info.redraw is not None and info.steps]
        if not walked:
            return found
        return found.plus(warning_signs.compare_with_path(walked[-1], effective=redraw.effective))

    def _diagnose_standing(
        self, model: BoundModel, rows: Rows, infos: Sequence[ChunkInfo], *, is_whole: bool
    ) -> Diagnosis:
        """What contradicts a path that stands, since the prior if it is whole, else a redraw."""
        found = diagnose_moves(self.path, model, rows.near, self.num_particles)
        if is_whole and needs_second_opinion(infos[0].steps):
            found = found.plus(warning_signs.compare_runs(infos[0].path))
        attempts = [(info.path, info.attempt) for info in infos if info.attempt is not None]
        return found.plus(warning_signs.contradict_path(*attempts[-1])) if attempts else found

    def diagnose_steps(
        self, model: BoundModel, state: PathState, rows: Rows, steps: Sequence[Any]
    ) -> Diagnosis:
        """Diagnostics of a stream, of which `steps` were the last."""
        return warning_signs.diagnose_path(steps, warning_signs.height_spread(model, rows, state.population))

    def lasting_signs(self, info: Any) -> dict[str, str]:
        """Signs in a chunk of a stream that are still true after later ones: none."""
        return {}
