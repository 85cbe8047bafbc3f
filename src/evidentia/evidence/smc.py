"""Sequential Monte Carlo: over temperatures or over the data, moved with all rows seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jaxtyping import Array

from evidentia import weights
from evidentia.errors import ConfigurationError, check_count, check_target_ess
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot, with_kernel_instead
from evidentia.evidence.population import warning_signs
from evidentia.evidence.population.chunks import ChunkedMethod, ChunkInfo, PathState, next_stop, over_chunks
from evidentia.evidence.population.moves import PathSettings, StepInfo
from evidentia.evidence.population.particles import Population, estimate_of, from_prior
from evidentia.evidence.population.path import anneal, end_of
from evidentia.evidence.population.warning_signs import diagnose_moves
from evidentia.kernels import HMC, RandomWalk, Unscaled
from evidentia.kernels.kernel import check_kernel
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Rows, Window


@dataclass(frozen=True)
class SMC(ChunkedMethod):
    """Sequential Monte Carlo, which tempers the likelihood or takes the data in chunks.

    By default the likelihood of all rows is tempered, over temperatures 0 < λ₁ < … < 1 chosen to
    keep the effective sample size at its target:

        wᵢ ← wᵢ p(D | θᵢ)^Δλ,        log Ẑ ← log Ẑ + log Σ Wᵢ p(D | θᵢ)^Δλ.

    After each step the particles are resampled, and each begins a chain of moves that leave the
    tempered posterior invariant. No state of a chain is wasted: all of them are particles of the
    next step. With a `chunk_size`, rows are taken a few at a time instead, each chunk tempered as
    far as needed, and the evidence after every chunk is reported. Every move uses all rows seen,
    so the method suits thousands of rows, not millions.

    Ẑ is unbiased except for tuning on the particles themselves (step sizes, temperatures), which
    adds a bias of order 1/M; `log_evidence` is corrected for the bias -variance/2 of the
    logarithm.

    Attributes:
        num_particles: number of particles M that are resampled, each the start of a chain.
        chain_length: states of each chain, its start included; there are M times as many particles
            between resamplings. If 1, each particle is moved once and replaced, as published.
        chunk_size: rows per chunk; None for all rows at once. The thesis takes one row at a time.
        target_ess: effective sample size, as a fraction of the particles, below which they are
            resampled and moved. Without tempering it may be 1: always.
        resampling: the scheme: "systematic", "stratified", "residual" or "multinomial".
        kernel: the move: `kernels.HMC`, `MALA` or `RandomWalk`; `ULA`, whose weights correct its
            errors; or one without a Metropolis correction. For a likelihood outside JAX the
            default is `kernels.RandomWalk()`.
        tempering: whether a chunk that would leave less than half of the target is taken in steps.
            If not, each chunk is one step, as published.
        bias_correction: whether half the variance is added to log Ẑ; published forms do not.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> ev.estimate(model, data, method=ev.SMC(num_particles=1024))  # doctest: +SKIP

    Source: Del Moral, Doucet, Jasra (2006), Journal of the Royal Statistical Society B 68, 411;
    Dau and Chopin (2022), Journal of the Royal Statistical Society B 84, 114, Algorithm 2 (the
    chains); over the data, Chopin (2002), Biometrika 89, 539, and Cameron (2020), MSc thesis,
    Stellenbosch, Algorithm 7.
    """

    num_particles: int = 512
    chain_length: int = 8
    chunk_size: int | None = None
    target_ess: float = 0.5
    resampling: str = "systematic"
    # Trajectories of half a Gaussian's period or more would only reflect it.
    kernel: Any = field(default_factory=lambda: HMC(num_trajectories=1, smallest_step=0.1, largest_step=0.6))
    tempering: bool = True
    bias_correction: bool = True

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)
        if self.chunk_size is not None:
            check_count("chunk_size", self.chunk_size, 1)
        check_count("chain_length", self.chain_length, 1)
        if self.tempering or self.target_ess != 1.0:
            check_target_ess(self.target_ess)
        check_kernel("kernel", self.kernel, "log_density", "gradient")
        if self.resampling not in weights.SCHEMES:
            raise ConfigurationError(
                f"resampling must be one of {', '.join(weights.SCHEMES)}; got {self.resampling!r}."
            )

    @classmethod
    def published(cls) -> "SMC":
        """Algorithm 7 of the thesis: row by row, all particles moved after each by plain HMC.

        The thesis leaves the criterion for resampling open, and the numbers of particles and
        steps; here particles are resampled after each row. Steps of 0.02 have no scale: they suit
        unconstrained parameters that some thousand rows determine to a few hundredths.
        """
        plain = HMC(num_trajectories=1, num_steps=20, smallest_step=0.02, largest_step=0.02)
        return cls(
            chain_length=1,
            chunk_size=1,
            target_ess=1.0,
            resampling="multinomial",
            kernel=Unscaled(plain),
            tempering=False,
            bias_correction=False,
        )

    def without_gradients(self) -> "SMC":
        """With random walks in place of the default kernel."""
        return with_kernel_instead(self, RandomWalk())

    @property
    def path(self) -> PathSettings:
        """Settings of the annealed path, with exact gradients."""
        return PathSettings(
            self.target_ess, self.kernel, resampling=self.resampling, chain_length=self.chain_length
        )

    def init(self, model: BoundModel, key: Array) -> PathState:
        """Particles from the prior, with equal weights and a log evidence of zero."""
        return PathState(from_prior(model, key, self.num_particles * self.chain_length), 0)

    # Temperatures need all rows at once, which chunks do not.
    def run(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, model: BoundModel, rows: Window, key: Array
    ) -> Iterator[Snapshot]:
        """Yield a snapshot after each chunk, or after each temperature if there are no chunks."""
        if self.chunk_size is not None:
            yield from over_chunks(self, model, rows, key)
            return
        start, nothing = self.init(model, key).population, rows.part(0, 0)
        for found in anneal(self.path, model, start, nothing, rows, stops=self._stops):
            is_done = found.temperatures[-1] == 1.0
            yield Snapshot(
                self._estimate(found.population),
                num_observations=rows.size if is_done else 0,
                positions=found.population.positions,
                log_weights=found.population.log_weights,
                share_done=found.share_done,
                diagnose=partial(
                    self._diagnose, model, rows, found.population, found.steps, "a larger target_ess"
                ),
            )

    def next_stop(self, state: PathState, total: int) -> int:
        """Number of rows processed after the next chunk."""
        assert self.chunk_size is not None  # else `run` takes all rows at once
        return next_stop(state.num_observations, self.chunk_size, total)

    def update(
        self, model: BoundModel, state: PathState, past: Window, chunk: Window
    ) -> tuple[PathState, ChunkInfo]:
        """Process a chunk; `past` holds the rows of earlier chunks.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a
        particle, or -inf at all particles.
        """
        found = end_of(anneal(self.path, model, state.population, past, chunk, stops=self._stops))
        state = PathState(found.population, state.num_observations + chunk.size)
        estimate = self.estimate(state)
        return state, ChunkInfo(found.steps, estimate, estimate)

    @property
    def _stops(self) -> tuple[float, ...] | None:
        return None if self.tempering else (1.0,)

    def estimate(self, state: PathState) -> Estimate:
        """The estimate for all rows processed."""
        return self._estimate(state.population)

    def _estimate(self, population: Population) -> Estimate:
        return estimate_of(population, is_unbiased=self.bias_correction)

    def diagnose(
        self, model: BoundModel, state: PathState, rows: Rows, infos: Sequence[ChunkInfo]
    ) -> Diagnosis:
        """Diagnostics of a run over `rows`."""
        steps = [step for info in infos for step in info.steps]
        return self._diagnose(model, rows, state.population, steps, warning_signs.SMALLER_CHUNKS)

    def _diagnose(
        self, model: BoundModel, rows: Rows, population: Population, steps: Sequence[StepInfo], remedy: str
    ) -> Diagnosis:
        spread = warning_signs.height_spread(model, rows, population)
        of_path = warning_signs.diagnose_path(steps, spread, remedy)
        of_path = of_path.plus(warning_signs.diagnose_drift(steps))
        return of_path.plus(diagnose_moves(self.path, model, rows.near, self.num_particles))
