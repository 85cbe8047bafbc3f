"""Sequential importance resampling: rows in sequence, with moves that use all rows seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evidentia import weights
from evidentia.errors import ConfigurationError, check_count, check_target_ess
from evidentia.evidence.chunks import ChunkedMethod, ChunkInfo, PathState, next_stop
from evidentia.evidence.method import Diagnosis, Estimate
from evidentia.evidence.path import diagnostics
from evidentia.evidence.path.annealing import anneal
from evidentia.evidence.path.moves import PathSettings
from evidentia.evidence.path.population import estimate_of
from evidentia.kernels import HMC
from evidentia.kernels.kernel import check_kernel
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window


@dataclass(frozen=True)
class SMC(ChunkedMethod):
    """Sequential Monte Carlo over the data: sequential importance resampling with moves.

    A few rows are processed at a time. Particles are reweighted by p(rows | θᵢ); if the effective
    sample size falls below its target, they are resampled and moved by a kernel that leaves the
    posterior of all rows seen invariant. The cost of a move grows with the rows seen,
    and that of the whole run as about N log N:

        wᵢ ← wᵢ p(yₙ | θᵢ),        log Ẑ ← log Ẑ + log Σ Wᵢ p(yₙ | θᵢ).

    A chunk that would leave less than half the target ESS is annealed over temperatures instead. Ẑ
    is unbiased except for tuning on the particles themselves (step sizes, temperatures), which
    adds a bias of order 1/M; `log_evidence` is corrected for the bias -variance/2 of the
    logarithm.

    Attributes:
        num_particles: number of particles M.
        chunk_size: rows per chunk; the published algorithm uses one.
        target_ess: effective sample size, as a fraction of the particles, below which they are
            resampled and moved.
        resampling: the scheme: "systematic", "stratified", "residual" or "multinomial".
        kernel: the move: `kernels.HMC`, `MALA` or `RandomWalk`; `ULA`, whose weights correct its
            errors; or one without a Metropolis correction.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> method = ev.SMC(chunk_size=1, resampling="stratified")  # doctest: +SKIP
        >>> ev.estimate(model, data, method=method)  # doctest: +SKIP

    Source: Cameron (2020), MSc thesis, Stellenbosch, Algorithm 7; Chopin (2002), Biometrika 89,
    539; Del Moral, Doucet, Jasra (2006), Journal of the Royal Statistical Society B 68, 411.
    """

    num_particles: int = 512
    chunk_size: int = 10
    target_ess: float = 0.5
    resampling: str = "systematic"
    kernel: Any = field(default_factory=HMC)

    def __post_init__(self):
        check_count("num_particles", self.num_particles, 2)
        check_count("chunk_size", self.chunk_size, 1)
        check_target_ess(self.target_ess)
        check_kernel("kernel", self.kernel, "log_density", "gradient")
        if self.resampling not in weights.SCHEMES:
            raise ConfigurationError(
                f"resampling must be one of {', '.join(weights.SCHEMES)}; got {self.resampling!r}."
            )

    @property
    def path(self) -> PathSettings:
        """Settings of the annealed path, with exact gradients."""
        return PathSettings(self.target_ess, self.kernel, resampling=self.resampling)

    def next_stop(self, state: PathState, total: int) -> int:
        """Number of rows processed after the next chunk."""
        return next_stop(state.num_observations, self.chunk_size, total)

    def update(
        self, model: BoundModel, state: PathState, past: Window, chunk: Window
    ) -> tuple[PathState, ChunkInfo]:
        """Process a chunk; `past` holds the rows of earlier chunks.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a
        particle, or -inf at all particles.
        """
        population, steps = anneal(self.path, model, state.population, past, chunk)
        state = PathState(population, state.num_observations + chunk.size)
        estimate = self.estimate(state)
        return state, ChunkInfo(steps, estimate, estimate)

    def estimate(self, state: PathState) -> Estimate:
        """The estimate for all rows processed."""
        return estimate_of(state.population)

    def diagnose(
        self, model: BoundModel, state: PathState, rows: Window, infos: Sequence[ChunkInfo]
    ) -> Diagnosis:
        """Diagnostics of a run over `rows`."""
        spread = diagnostics.height_spread(model, rows, state.population)
        steps = [step for info in infos for step in info.steps]
        return diagnostics.diagnose_path(steps, spread)
