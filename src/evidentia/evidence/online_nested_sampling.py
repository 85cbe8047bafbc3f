"""Online nested sampling: one nested sampling run per chunk, starting where the last one ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, check_count, check_not_negative
from evidentia.evidence.method import Diagnosis, Estimate
from evidentia.evidence.nested.prior_mass import Quadrature, Shrinkage, WeightedPoints
from evidentia.evidence.nested.run import (
    FEW,
    Ending,
    Iteration,
    NestedSettings,
    Stage,
    diagnose,
    shrink,
    spread,
)
from evidentia.evidence.nested.weighted_reservoir import WeightedReservoir
from evidentia.evidence.population.chunks import ChunkedMethod, PathState, next_stop
from evidentia.evidence.population.particles import Population, host_generator
from evidentia.evidence.population.transitions import NOISE_PARTICLES
from evidentia.kernels import ReflectingSGHMC, Rejection
from evidentia.kernels.kernel import noise_variance
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import FullBatch, Prepared, check_gradient
from evidentia.posterior.rows import Rows, Window
from evidentia.posterior.target import posterior
from evidentia.system.compilation import jitted


class OnlineNestedInfo(NamedTuple):
    """Iterations of one update, the chunk's information H in nats, and whether it got stuck."""

    steps: Sequence[Iteration]
    information: float
    is_stuck: bool


@dataclass(frozen=True)
class OnlineNestedSampling(ChunkedMethod):
    """Bayesian updating with nested sampling: log p(D) = Σ_k log p(chunk_k | rows before).

    Each term is the evidence of a chunk with the posterior of the earlier rows as the prior.
    Nested sampling computes it with moves that leave that posterior invariant inside the contour
    of the chunk's likelihood; their gradients may use mini-batches of the earlier rows. The
    removed points, weighted, represent the posterior of all rows so far. Weighted reservoir
    sampling (Chao 1982) keeps M of them as the live points of the next chunk.

    The squared standard error is Σ_k H_k / M, where H_k is the information of chunk k. The points
    carried over are few, and moved copies of each other, but this has no visible effect: over 40
    data sets of 300 rows, in 4 or in 15 chunks, the spread of the errors was 0.9 to 1.0 times the
    standard error.

    Attributes:
        num_particles: number of live points M per chunk, at least 8.
        chunk_size: rows in a chunk, if no round number of rows (100, 200, 500, …) comes first.
        chunk_growth: rows in a chunk as a fraction of the rows seen, if that exceeds `chunk_size`.
        kernel: the source of new points: `kernels.ReflectingSGHMC`, or one without gradients, such
            as `kernels.ConstrainedWalk`, which uses all earlier rows.
        gradient: the gradient estimator for the posterior of the earlier rows:
            `gradients.FullBatch`, with which a Metropolis correction makes the steps exact,
            `gradients.ControlVariate` or `gradients.MiniBatch`.
        quadrature, shrinkage, remaining, ending: as in `NestedSampling`. The thesis
            leaves open whether an adaptive ending would gain speed: `ending="adaptive"` does, and
            costs accuracy with several modes.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> method = ev.OnlineNestedSampling(chunk_size=1000)  # doctest: +SKIP
        >>> ev.estimate(model, data, method=method)  # doctest: +SKIP

    Source: Cameron (2020), MSc thesis, Stellenbosch, section 4.3; Chao (1982), Biometrika 69, 653;
    Skilling (2006), Bayesian Analysis 1, 833.
    """

    num_particles: int = 256
    chunk_size: int = 100
    chunk_growth: float = 1.0
    kernel: Any = field(default_factory=ReflectingSGHMC)
    gradient: Any = field(default_factory=FullBatch)
    quadrature: Quadrature = "trapezoid"
    shrinkage: Shrinkage = "geometric"
    remaining: float = 0.01
    ending: Ending = "live_points"

    def __post_init__(self) -> None:
        self.settings.check()
        check_count("num_particles", self.num_particles, FEW)  # enough to estimate the posterior's spread
        check_count("chunk_size", self.chunk_size, 1)
        check_gradient(self.gradient)
        check_not_negative("chunk_growth", self.chunk_growth)
        if isinstance(self.kernel, Rejection):
            raise ConfigurationError(
                "kernel must move points, since the posterior of earlier rows cannot be sampled directly; got "
                f"{self.kernel!r}, needs kernels.ReflectingSGHMC() or kernels.ConstrainedWalk()."
            )

    @property
    def settings(self) -> NestedSettings:
        """Settings of the run over a chunk."""
        return NestedSettings(
            self.num_particles, self.kernel, self.quadrature, self.shrinkage, self.remaining, self.ending
        )

    def next_stop(self, state: PathState, total: int) -> int:
        """Number of rows processed after the next chunk; growing chunks stop at round numbers."""
        size = max(self.chunk_size, int(self.chunk_growth * state.num_observations))
        above = state.num_observations if self.chunk_growth > 0 else None
        return next_stop(state.num_observations, size, total, round_above=above)

    def update(
        self, model: BoundModel, state: PathState, past: Window, chunk: Window
    ) -> tuple[PathState, OnlineNestedInfo]:
        """Process a chunk; `past` holds the earlier rows, which the gradients of the moves use.

        The particles, of equal weight, are the live points of the next chunk.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a
        live point, or -inf at all live points.
        """
        population = state.population
        key, key_shrink, key_noise, key_reservoir = jax.random.split(population.key, 4)
        prior = self._prepare(model, population, past, key_noise)
        generator = host_generator(key_reservoir)
        reservoir, iterations = WeightedReservoir(self.num_particles), []
        stage: Stage | None = None
        for stage in shrink(self.settings, model, prior, chunk, population.positions, key_shrink):
            _offer(reservoir, generator, stage.removed)
            iterations.extend(stage.iterations)
        assert stage is not None  # a run has at least one stage
        _offer(reservoir, generator, stage.live)
        population = population._replace(
            key=key,
            positions=jnp.asarray(_as_many(generator, reservoir.items, self.num_particles)),
            log_evidence=population.log_evidence + stage.integral.log_evidence,
            variance=population.variance + stage.variance,
            memory=prior.memory,
        )
        info = OnlineNestedInfo(tuple(iterations), stage.integral.information, stage.is_stuck)
        return PathState(population, state.num_observations + chunk.num_observations), info

    def estimate(self, state: PathState) -> Estimate:
        """The estimate for all rows processed."""
        return Estimate(state.population.log_evidence, state.population.variance, is_unbiased=False)

    def diagnose(
        self, model: BoundModel, state: PathState, rows: Rows, infos: Sequence[OnlineNestedInfo]
    ) -> Diagnosis:
        """Diagnostics of a run over `rows`; the information is the sum over chunks."""
        stuck = [index for index, info in enumerate(infos) if info.is_stuck]
        last = infos[stuck[0]] if stuck else infos[-1]
        where = f"The first such moves were in chunk {stuck[0] + 1} of {len(infos)}" if stuck else ""
        return diagnose(self.kernel, last.steps, sum(info.information for info in infos), where)

    def diagnose_steps(
        self, model: BoundModel, state: PathState, rows: Rows, steps: Sequence[Any]
    ) -> Diagnosis:
        """Diagnostics of a stream, of which `steps` were the last; the variance is Σ_k H_k / M."""
        return diagnose(self.kernel, steps, self.num_particles * state.population.variance, "")

    def lasting_signs(self, info: Any) -> dict[str, str]:
        """The sign of a chunk of a stream in which points no longer moved."""
        where = "The first such moves were in an earlier chunk" if info.is_stuck else ""
        return dict(diagnose(self.kernel, info.steps, info.information, where).signs)

    def _prepare(self, model: BoundModel, population: Population, past: Window, key: Array) -> Prepared:
        """The posterior of the past as the chunk's prior, with the gradient's adapted memory."""
        positions = population.positions
        centre = np.asarray(positions, np.float64).mean(0)
        gradient = FullBatch() if self.kernel.needs_density else self.gradient
        prior = gradient.prepare(model, population.memory, posterior(past), centre)
        if prior.estimator.is_exact:
            return prior
        few, factor = positions[:NOISE_PARTICLES], spread(positions)
        noise = _noise(model, prior.estimator, key, few, prior.target, prior.device_expansion, factor)
        return prior._replace(memory=self.gradient.adapt(prior.memory, float(noise)))


def _offer(reservoir: WeightedReservoir, generator: np.random.Generator, points: WeightedPoints) -> None:
    for position, log_weight in zip(np.asarray(points.positions), points.log_weights, strict=True):
        reservoir.offer(generator, position, log_weight)


def _as_many(generator: np.random.Generator, items: Sequence[np.ndarray], count: int) -> np.ndarray:
    """All items, with random repeats up to `count`, since points of weight zero are left out."""
    again = generator.choice(len(items), count - len(items)) if len(items) < count else []
    return np.stack([*items, *(items[index] for index in again)])


@jitted(static_argnames=("model", "estimator"))
def _noise(model, estimator, key, positions, target, expansion, factor) -> Float[Array, ""]:
    """The noise variance of the gradient estimates, in whitened coordinates."""
    gradient = estimator.function(model, target, expansion)
    key_first, key_second = jax.random.split(key)
    differences = gradient(key_first, positions) - gradient(key_second, positions)
    return noise_variance(differences @ factor)
