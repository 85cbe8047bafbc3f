"""The Jarzynski-adjusted Langevin algorithm: weighted Langevin steps from prior to posterior."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Array

from evidentia import weights
from evidentia.errors import (
    ConfigurationError,
    as_number,
    check_count,
    check_positive,
    check_seed,
    check_target_ess,
)
from evidentia.evidence.method import Snapshot, check_defined, check_possible
from evidentia.evidence.population.moves import StepInfo, curvature
from evidentia.evidence.population.particles import (
    Population,
    estimate_of,
    from_prior,
    resample_particles,
    reweighted,
    split_key,
)
from evidentia.evidence.population.transitions import largest_correlation
from evidentia.evidence.population.warning_signs import diagnose_path
from evidentia.evidence.weighted_langevin import PathSample, sample_path
from evidentia.kernels import Scale, langevin, posterior_scale
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window
from evidentia.posterior.target import Target, log_target, tempered
from evidentia.system.compilation import compiled


@dataclass(frozen=True)
class Jarzynski:
    """The Jarzynski-adjusted Langevin algorithm (JALA).

    Particles take Langevin steps while the target p(θ) p(D | θ)^λ moves from the prior to the
    posterior. Steps are never rejected; instead, each adds a correction for its discretization
    error to the log weight (`kernels.langevin`). The mean weight Ẑ is therefore unbiased for any
    step size, at one gradient per step,

        log Ẑ = log Σ Wᵢ exp(ΔAᵢ), summed over stretches;

    tuning on the particles themselves (temperatures, step scale) adds a bias of order 1/M. Every
    step uses all rows, so the method suits thousands of rows. Steps that are too long cost
    effective sample size rather than bias, the more so in many dimensions. Interchangeable
    components are not put in a common order: for mixtures use `AIS` or `SMC`. `log_evidence` is
    corrected for the bias -variance/2 of the logarithm.

    Attributes:
        num_particles: number of particles M.
        step_size: Langevin step size h, in units of the particles' variance in each direction;
            unscaled in `sample`.
        num_steps: steps per stretch, over which the temperature rises linearly.
        target_ess: effective sample size, as a fraction of the particles, that reweighting by a
            whole stretch at once would leave; it determines the temperatures.
        ess_threshold: effective sample size below which particles are resampled (systematically).

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> ev.estimate(model, data, method=ev.Jarzynski(num_particles=1024))  # doctest: +SKIP

    Source: Cuin, Carbone, Akyildiz (2025), Eq. 2 to 4, 14 and 15; Jarzynski (1997), Physical
    Review Letters 78, 2690.
    """

    num_particles: int = 512
    step_size: float = 0.05
    num_steps: int = 20
    target_ess: float = 0.7
    ess_threshold: float = 0.5

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)
        check_count("num_steps", self.num_steps, 1)
        check_target_ess(self.target_ess)
        check_positive("step_size", self.step_size)
        if not 0 <= as_number(self.ess_threshold) <= 1:
            raise ConfigurationError(
                f"ess_threshold is a fraction of the particles from 0 (never) to 1; got {self.ess_threshold}."
            )

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each stretch; the last one has the estimate.

        Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a
        particle, or -inf at all particles.
        """
        population, done, infos = from_prior(model, key, self.num_particles), 0.0, []
        first = None
        while done < 1.0:
            population, done, info = self._stretch(model, population, rows, done)
            first = done if first is None else first
            infos.append(info)
            yield Snapshot(
                estimate_of(population),
                num_observations=rows.size if done == 1.0 else 0,
                num_steps=self.num_steps,
                positions=population.positions,
                log_weights=population.log_weights,
                share_done=weights.share_of_path(first, done),
                diagnose=partial(diagnose_path, tuple(infos), math.nan, "a smaller step_size"),
            )

    def sample(
        self, potential: Callable[[Any, Any], Any], particles: Any, *, num_steps: int, seed: int = 0
    ) -> PathSample:
        """Sample exp(-U_K) and estimate log Z_k / Z_0, k = 0, …, K, from samples of exp(-U_0).

        Steps have size `step_size`; particles are resampled if their effective sample size falls
        below `ess_threshold`. `num_particles` and `target_ess` are ignored.

        Args:
            potential: U_k(x) as a function (k, x) that JAX can trace; x is one particle, k an
                integer. It should be finite everywhere: particles that step to a non-finite value
                are lost, and the estimate is too low by the weight they held.
            particles: independent samples of exp(-U_0)/Z_0: a pytree of arrays (particles, …).
            num_steps: K.
            seed: the same seed gives the same numbers on the same machine.

        Raises:
            ConfigurationError: arrays have different numbers of particles, or the seed is invalid.
            EstimationError: the potential is not finite at a particle at the start, or at all
                particles later.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> start = jax.random.normal(jax.random.key(0), (1000, 2))
            >>> narrower = lambda k, x: 0.5 * (1 + 3 * k / 100) * jnp.sum(x**2)
            >>> path = Jarzynski(step_size=0.1).sample(narrower, start, num_steps=100)
            >>> bool(abs(path.log_evidence[-1] + jnp.log(4.0)) < 0.2)
            True
        """
        check_count("num_steps", num_steps, 1)
        check_seed(seed)
        return sample_path(potential, particles, num_steps, self.step_size, self.ess_threshold, seed)

    def _stretch(
        self, model: BoundModel, population: Population, rows: Window, done: float
    ) -> tuple[Population, float, StepInfo]:
        """Move the population along one stretch; return it, its temperature and diagnostics."""
        deviations, _ = rows.log_likelihoods(model, population.positions)
        lost = population.log_weights == -np.inf
        check_defined(np.where(lost, 0.0, deviations), rows.span)
        deviations = np.where(lost, -np.inf, deviations)
        check_possible(deviations, rows.span)
        even = np.where(lost, -np.inf, 0.0)
        stop = weights.next_temperature(even, deviations, done, self.target_ess * len(deviations))
        normalised = np.exp(weights.normalise(population.log_weights))
        on_host = np.asarray(population.positions, np.float64)
        # The moving particles' covariance would bias their weights: by 0.2 nats for 256 particles.
        target = tempered(rows.part(0, 0), rows, stop)
        precision = curvature(model, target, normalised @ on_host)
        scale = posterior_scale(on_host, normalised, precision, rows.size)
        key, key_walk = split_key(population.key)
        temperatures = np.linspace(done, stop, self.num_steps + 1, dtype=np.float32)
        before = population.positions
        moved = _walk(model, key_walk, before, rows, temperatures, scale, self.step_size)
        population = population._replace(key=key, positions=moved.positions)
        population = reweighted(population, np.asarray(moved.log_weights, np.float64))
        ess = weights.ess(population.log_weights) / self.num_particles
        if ess < self.ess_threshold:
            population = resample_particles(population, "systematic")
        return population, stop, StepInfo(ess, correlation=largest_correlation(before, moved.positions))


@compiled(static_argnames="model")
def _walk(model, key, positions, rows, temperatures, scale: Scale, step_size):
    def log_density(step, position):
        target = Target(rows, rows.start, temperatures[step])
        return log_target(model, target)(position)

    num_steps = len(temperatures) - 1
    return langevin.walk(key, positions, log_density, num_steps, scale.factor, step_size)
