"""The sequential estimator: the log evidence as a sum of log predictive densities, without weights."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from evidentia import weights
from evidentia.errors import ConfigurationError, DiagnosticWarning, EstimationError
from evidentia.evidence import diagnostics
from evidentia.evidence.ais import AIS
from evidentia.evidence.checks import check_defined, check_possible
from evidentia.evidence.estimator import (
    Diagnosis,
    Estimator,
    PathInfo,
    PathState,
    Snapshot,
    over_chunks,
)
from evidentia.evidence.moves import StepInfo, move_particles
from evidentia.evidence.population import Population, from_prior
from evidentia.fields import check_count, check_kernel
from evidentia.gradients import ControlVariate, MiniBatch
from evidentia.kernels import BAOAB, HMC, METROPOLIS, SGHMC, STOCHASTIC
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.target import Target

MIN_DRAWS = 20  # effective particles of a chunk: with fewer, the variance of its prediction is not known


@dataclass(frozen=True)
class Sequential:
    """The sequential estimator: particles follow the posterior, and predict each chunk before they see it.

        log Ẑ = Σ log p̂(yₙ | y_<n),        p̂(yₙ | y_<n) = mean over the particles of p(yₙ | θᵢ)

    Chunks of 20 rows up to 80, of a quarter of the rows seen up to 2,000, then of 500. After each the particles are moved
    under the posterior of all rows seen; they carry no weights, so what the moves fail to correct stays, and the estimate is
    too low where they lag behind. `SGAIS` weighs them instead and needs far fewer moves; this is what it grew from.

    Attributes:
        num_particles: particles M.
        num_moves: moves after each chunk, the first of them with step sizes from the weighted particles.
        kernel: the move along gradient estimates, as in `SGAIS`.
        gradient: the gradient, as in `SGAIS`.
        exact_kernel: the move where the gradient is exact; None for `kernel` always.
        initial: an estimator for the first rows, whose posterior the particles start from; any goes. The published hybrid
            takes `ev.NestedSampling()`. None for particles from the prior, whose mean likelihood of the first 20 rows is a
            poor estimate with more than two or three parameters.
        initial_rows: how many rows that is.

    Raises:
        ConfigurationError: a field that is out of range.

    Example:
        >>> ev.estimate(model, data, method=ev.Sequential(initial=ev.NestedSampling()))  # doctest: +SKIP

    Source: Cameron, Eggers, Kroon (2019), Proceedings 33(1), 18 (MaxEnt 2019).
    """

    num_particles: int = 512
    num_moves: int = 3
    kernel: Any = field(default_factory=BAOAB)
    gradient: Any = field(default_factory=ControlVariate)
    exact_kernel: Any = field(default_factory=HMC)
    initial: Estimator | None = field(default_factory=AIS)
    initial_rows: int = 100

    resampling = None  # what the path reads: particles carry no weights

    def __post_init__(self):
        check_count("num_particles", self.num_particles, 2)
        check_count("num_moves", self.num_moves, 1)
        check_count("initial_rows", self.initial_rows, 2)
        check_kernel("kernel", self.kernel, STOCHASTIC)
        if self.exact_kernel is not None:
            check_kernel("exact_kernel", self.exact_kernel, METROPOLIS)
        if self.initial is not None and (
            isinstance(self.initial, type) or not isinstance(self.initial, Estimator)
        ):
            raise ConfigurationError(
                f"initial must be a configuration such as NestedSampling(); got {self.initial!r}."
            )

    @classmethod
    def published(cls, initial: Estimator | None = None) -> "Sequential":
        """With the settings of the MaxEnt paper: 10 particles, 20 SGHMC steps, mini-batches of 500 rows.

        Without `initial` it begins with the prior; `initial=ev.NestedSampling.published()` gives the paper's hybrid.
        """
        return cls(
            num_particles=10,
            num_moves=1,
            kernel=SGHMC(),
            gradient=MiniBatch(batch_size=500),
            exact_kernel=None,
            initial=initial,
        )

    def run(self, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
        """A snapshot after each chunk of `rows`."""
        return over_chunks(self, model, rows, key)

    def init(self, model: BoundModel, key: Array) -> PathState:
        """Particles from the prior."""
        return PathState(from_prior(model, key, self.num_particles), 0)

    def next_stop(self, state: PathState, total: int) -> int:
        """The row up to which the next chunk reaches, as published."""
        start = state.num_observations
        if start == 0 and self.initial is not None:
            return min(self.initial_rows, total)
        size = 20 if start <= 80 else min(start // 4, 500)
        return min(start + size, total)

    def update(
        self, model: BoundModel, state: PathState, past: Rows, chunk: Rows, *, is_last: bool = False
    ) -> tuple[PathState, PathInfo]:
        """Predict a chunk, then move the particles with it; `past` holds the rows of earlier chunks.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a particle or -inf at all.
        """
        if state.num_observations == 0 and self.initial is not None:
            return self._begin(self.initial, model, state, chunk)
        deviations, offset = log_likelihood_sums(model, state.population.positions, chunk)
        check_defined(deviations, chunk)
        check_possible(deviations, chunk)
        population = state.population._replace(
            log_evidence=state.population.log_evidence
            + offset
            + weights.log_sum_exp(deviations)
            - math.log(self.num_particles),
            variance=state.population.variance + weights.relative_variance(deviations),
        )
        info = StepInfo(weights.ess(deviations) / len(deviations))
        target = 0.5 * len(deviations)
        # Weights that leave a few particles say nothing of the scale: temper them.
        share = weights.next_temperature(np.zeros_like(deviations), deviations, 0.0, target)
        log_weights, infos = share * deviations, []
        for _ in range(self.num_moves):
            population, info = move_particles(
                self, model, population, log_weights, Target(past, chunk, 1.0), info
            )
            infos.append(info)
            log_weights = np.zeros_like(deviations)
        return PathState(population, state.num_observations + chunk.size), PathInfo(infos)

    def summary(self, state: PathState) -> tuple[float, float]:
        """Log evidence of everything seen and its standard error, in nats, were the chunks independent."""
        variance = state.population.variance
        return state.population.log_evidence + 0.5 * variance, math.sqrt(variance)

    def diagnose(
        self, model: BoundModel, state: PathState, rows: Rows, infos: Sequence[PathInfo]
    ) -> Diagnosis:
        """Measured signs of health of a run over `rows`."""
        spread = diagnostics.height_spread(model, rows, state.population)
        measured = diagnostics.measure([step for info in infos for step in info.steps], spread)
        return Diagnosis(
            measured,
            diagnostics.signs_of_path(measured, "an estimator for initial", MIN_DRAWS / self.num_particles),
        )

    def _begin(
        self, initial: Estimator, model: BoundModel, state: PathState, chunk: Rows
    ) -> tuple[PathState, PathInfo]:
        """The state after the first rows, by another estimator."""
        key, key_run, key_draw = jax.random.split(state.population.key, 3)
        # With as many particles as here at least, or its error would be a floor.
        count = max(initial.num_particles, self.num_particles)
        snapshots = list(replace(initial, num_particles=count).run(model, chunk, key_run))  # type: ignore[type-var]
        last = snapshots[-1]
        for sentence in last.diagnose().signs.values():
            warnings.warn(
                f"{model.name}, the first {chunk.size} rows: {sentence}", DiagnosticWarning, stacklevel=7
            )
        if math.isnan(last.standard_error):
            raise EstimationError(
                f"initial must be an estimator that knows its standard error; got {initial!r}, whose error of the first "
                f"{chunk.size} rows is not known."
            )
        chosen = weights.resample(key_draw, last.log_weights, self.num_particles)
        population = Population(
            key,
            last.positions[chosen],
            np.zeros(self.num_particles),
            last.log_evidence - 0.5 * last.standard_error**2,
            last.standard_error**2,
        )
        num_steps = sum(snapshot.num_steps for snapshot in snapshots)
        return PathState(population, chunk.size), PathInfo([StepInfo(math.nan)] * num_steps)
