"""The sequential estimator: the log evidence as a sum of log predictive densities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from evidentia import weights
from evidentia.errors import ConfigurationError, EstimationError, check_count
from evidentia.evidence.ais import AIS
from evidentia.evidence.method import (
    Diagnosis,
    Estimate,
    Method,
    Snapshot,
    check_defined,
    check_method,
    check_possible,
)
from evidentia.evidence.population import warning_signs
from evidentia.evidence.population.chunks import ChunkedMethod, ChunkInfo, PathState
from evidentia.evidence.population.moves import PathSettings, StepInfo, move_particles
from evidentia.evidence.population.particles import Population
from evidentia.kernels import BAOAB, HMC, SGHMC
from evidentia.kernels.kernel import check_kernel
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import ControlVariate, MiniBatch, check_gradient
from evidentia.posterior.rows import Rows, Window
from evidentia.posterior.target import tempered


class StartInfo(NamedTuple):
    """Information on the first rows: the steps and the diagnosis of the initial method."""

    steps: Sequence[StepInfo]
    diagnosis: Diagnosis


@dataclass(frozen=True)
class Sequential(ChunkedMethod):
    """The sequential estimator: particles predict each chunk before they are moved with it.

        log Ẑ = Σ log p̂(yₙ | y_<n),        p̂(yₙ | y_<n) = mean over the particles of p(yₙ | θᵢ)

    Chunks have 20 rows up to 80 rows, a quarter of the rows seen up to 2,000, then 500; or 20, 40,
    60, … rows up to 500 (`chunks`). After each chunk, the particles are moved under the posterior
    of all rows seen. They carry no weights, so the errors of the moves remain, and the estimate is
    too low if the particles lag behind. `SGAIS`, which grew out of this method, weights the
    particles instead and needs far fewer moves.

    Attributes:
        num_particles: number of particles M.
        chunks: "quarter" of the rows seen, as in the paper, or "steady", each 20 rows longer than
            the one before, as in the thesis.
        num_moves: moves after each chunk; the first uses step sizes from the weighted particles.
        kernel: the move with gradient estimates, as in `SGAIS`.
        gradient: the gradient estimator, as in `SGAIS`.
        exact_kernel: the move if the gradient is exact; None to use `kernel` always.
        initial: any method for the first rows, or None. The mean likelihood over the prior of the
            first 20 rows is a poor estimate with more than two or three parameters.
        initial_rows: number of first rows.
        initial_draws: whether the particles start from the posterior draws of `initial`. If not,
            they start from the prior and pass the first rows too, and `initial` only replaces what
            they predicted there, as in the published hybrid; with fewer rows nothing is replaced.
        bias_correction: whether half the variance is added to log Ẑ; published forms do not.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> method = ev.Sequential(initial=ev.NestedSampling())  # doctest: +SKIP
        >>> ev.estimate(model, data, method=method)  # doctest: +SKIP

    Source: Cameron, Eggers, Kroon (2019), Proceedings 33(1), 18 (MaxEnt 2019); Cameron (2020), MSc
    thesis, Stellenbosch, section 4.1.
    """

    num_particles: int = 512
    num_moves: int = 3
    kernel: Any = field(default_factory=BAOAB)
    gradient: Any = field(default_factory=ControlVariate)
    exact_kernel: Any = field(default_factory=HMC)
    initial: Method | None = field(default_factory=AIS)
    initial_rows: int = 100
    initial_draws: bool = True
    bias_correction: bool = True
    chunks: Literal["quarter", "steady"] = "quarter"

    def __post_init__(self) -> None:
        if self.chunks not in ("quarter", "steady"):
            raise ConfigurationError(f"chunks must be 'quarter' or 'steady'; got {self.chunks!r}.")
        check_count("num_particles", self.num_particles, 2)
        check_count("num_moves", self.num_moves, 1)
        check_count("initial_rows", self.initial_rows, 2)
        check_kernel("kernel", self.kernel, "gradient")
        check_gradient(self.gradient)
        if self.exact_kernel is not None:
            check_kernel("exact_kernel", self.exact_kernel, "log_density")
        if getattr(self.exact_kernel, "is_reweighting", False):
            raise ConfigurationError(
                f"exact_kernel must not weight the particles, which carry no weights here; got {self.exact_kernel!r}. "
                "Use kernels.MALA() or kernels.HMC()."
            )
        if self.initial is not None:
            check_method("initial", self.initial, "NestedSampling()")

    @classmethod
    def published(cls, initial: Method | None = None) -> "Sequential":
        """The MaxEnt paper's settings: 10 particles, 20 SGHMC steps, mini-batches of 500 rows.

        `initial=ev.NestedSampling.published()` gives the paper's hybrid, with two live points for
        the first 100 rows.
        """
        return cls(
            num_particles=10,
            num_moves=1,
            kernel=SGHMC(),
            gradient=MiniBatch(batch_size=500),
            exact_kernel=None,
            initial=initial,
            initial_draws=False,
            bias_correction=False,
        )

    def next_stop(self, state: PathState, total: int) -> int:
        """Number of rows processed after the next chunk, as published.

        After k chunks that grow by 20 rows each, 10 k (k + 1) rows are seen.
        """
        start = state.num_observations
        if self._begins_with_draws(start):
            return min(self.initial_rows, total)
        if self.chunks == "steady":
            size = 20 * (1 + int((math.sqrt(1 + 0.4 * start) - 1) / 2 + 1e-9))
        else:
            size = 20 if start <= 80 else start // 4
        stop = start + min(size, 500)
        if self.initial is not None and start < self.initial_rows:
            stop = min(stop, self.initial_rows)
        return min(stop, total)

    def _begins_with_draws(self, num_observations: int) -> bool:
        return num_observations == 0 and self.initial is not None and self.initial_draws

    def update(
        self, model: BoundModel, state: PathState, past: Window, chunk: Window
    ) -> tuple[PathState, ChunkInfo | StartInfo]:
        """Predict a chunk, then move the particles with it; `past` holds the earlier rows.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a
        particle, or -inf at all particles.
        """
        if self._begins_with_draws(state.num_observations):
            return self._begin(model, state, chunk)
        deviations, offset = chunk.log_likelihoods(model, state.population.positions)
        check_defined(deviations, chunk.span)
        check_possible(deviations, chunk.span)
        population = state.population
        population = population._replace(
            log_evidence=population.log_evidence + offset + weights.log_mean(deviations),
            variance=population.variance + weights.relative_variance(deviations),
        )
        info = StepInfo(weights.ess(deviations) / len(deviations))
        target = 0.5 * len(deviations)
        # Weights concentrated on a few particles do not determine the scale: temper them.
        share = weights.next_temperature(np.zeros_like(deviations), deviations, 0.0, target)
        log_weights, infos = share * deviations, list[StepInfo]()
        # Particles carry no weights, so they are not resampled.
        settings = PathSettings(0.5, self.kernel, self.gradient, self.exact_kernel, resampling=None)
        for _ in range(self.num_moves):
            population, info = move_particles(
                settings, model, population, log_weights, tempered(past, chunk), info
            )
            infos.append(info)
            log_weights = np.zeros_like(deviations)
        state = PathState(population, state.num_observations + chunk.num_observations)
        if self.initial is not None and state.num_observations == self.initial_rows:
            return self._replaced(model, state, replace(past, stop=chunk.stop), infos)
        return state, ChunkInfo(infos, self.estimate(state), self.estimate(state))

    def estimate(self, state: PathState) -> Estimate:
        """The estimate for all rows processed, treating the chunks as independent."""
        return Estimate(state.population.log_evidence, state.population.variance, self.bias_correction)

    def diagnose(
        self, model: BoundModel, state: PathState, rows: Rows, infos: Sequence[ChunkInfo | StartInfo]
    ) -> Diagnosis:
        """Diagnostics of a run over `rows`, including the signs of the initial method."""
        steps = [step for info in infos for step in info.steps]
        found = self.diagnose_steps(model, state, rows, steps)
        return found.plus(
            Diagnosis({}, dict(sign for info in infos for sign in self.lasting_signs(info).items()))
        )

    def diagnose_steps(
        self, model: BoundModel, state: PathState, rows: Rows, steps: Sequence[Any]
    ) -> Diagnosis:
        """Diagnostics of some steps, of which the last led to `rows`."""
        spread = warning_signs.height_spread(model, rows, state.population)
        measured = warning_signs.measure(steps, spread)
        # With fewer effective particles for a chunk, the variance of its prediction is unknown.
        least = 20 / self.num_particles
        return Diagnosis(measured, warning_signs.signs_of_path(measured, "an initial method", least))

    def lasting_signs(self, info: Any) -> dict[str, str]:
        """Signs of the initial method, which hold for all rows."""
        signs = info.diagnosis.signs if isinstance(info, StartInfo) else dict[str, str]()
        return {f"first rows: {name}": f"the first rows: {sign}" for name, sign in signs.items()}

    def _begin(self, model: BoundModel, state: PathState, chunk: Window) -> tuple[PathState, StartInfo]:
        """Process the first rows with the initial method; the particles are its draws."""
        key, key_run, key_draw = jax.random.split(state.population.key, 3)
        # Use at least as many particles as here; otherwise its error would dominate.
        assert self.initial is not None
        count = max(self.initial.num_particles, self.num_particles)
        last, info = self._first_rows(replace(self.initial, num_particles=count), model, chunk, key_run)  # type: ignore[type-var]
        chosen = weights.resample(key_draw, last.log_weights, self.num_particles)
        population = Population(key, last.positions[chosen], np.zeros(self.num_particles))
        return PathState(self._with_estimate(population, last.estimate), chunk.num_observations), info

    def _replaced(
        self, model: BoundModel, state: PathState, rows: Window, steps: Sequence[StepInfo]
    ) -> tuple[PathState, StartInfo]:
        """Replace what the particles predicted for the first rows by another estimate."""
        key, key_run = jax.random.split(state.population.key)
        last, info = self._first_rows(self.initial, model, rows, key_run)
        population = self._with_estimate(state.population._replace(key=key), last.estimate)
        return state._replace(population=population), info._replace(steps=[*steps, *info.steps])

    def _with_estimate(self, population: Population, estimate: Estimate | None) -> Population:
        assert estimate is not None  # checked in `_first_rows`
        # `estimate` adds variance/2, as for unbiased predictions: subtract it here.
        correction = 0.5 * estimate.variance if self.bias_correction else 0.0
        return population._replace(
            log_evidence=estimate.log_evidence - correction, variance=estimate.variance
        )

    @staticmethod
    def _first_rows(initial: Any, model: BoundModel, rows: Window, key: Array) -> tuple[Snapshot, StartInfo]:
        """The end of the initial run. Raises EstimationError if its error is unknown."""
        snapshots = list(initial.run(model, rows, key))
        last = snapshots[-1]
        if last.estimate is None or math.isnan(last.estimate.variance):
            raise EstimationError(
                f"initial must be a method that knows its standard error; got {initial!r}, whose error for the first "
                f"{rows.size} rows is unknown."
            )
        num_steps = sum(snapshot.num_steps for snapshot in snapshots)
        return last, StartInfo([StepInfo(math.nan)] * num_steps, last.diagnose())
