"""Annealed importance sampling from the prior to the posterior, with all rows at every step."""

import math
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray
from scipy.special import expit

from evidentia.errors import ConfigurationError, check_count, check_positive, check_target_ess
from evidentia.evidence.method import Snapshot, with_kernel_instead
from evidentia.evidence.population.moves import PathSettings
from evidentia.evidence.population.particles import Population, estimate_of, from_prior
from evidentia.evidence.population.path import Annealed, anneal
from evidentia.evidence.population.warning_signs import diagnose_path
from evidentia.kernels import HMC, SGHMC, RandomWalk
from evidentia.kernels.kernel import check_kernel
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window

REMEDY = "more temperatures (a larger target_ess, or a longer schedule)"  # if the ESS collapsed


def linear_schedule(num_steps: int) -> Float[ndarray, " temperatures"]:
    """Temperatures k / K for k = 0, …, K = `num_steps`.

    Raises:
        ConfigurationError: `num_steps` is not an integer of at least 1.

    Example:
        >>> linear_schedule(4)
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    check_count("num_steps", num_steps, 1)
    return np.linspace(0.0, 1.0, num_steps + 1)


def sigmoid_schedule(num_steps: int, delta: float = 4.0) -> Float[ndarray, " temperatures"]:
    """Temperatures that are denser near 0 and near 1, the more so the larger `delta` (δ).

        λ_k = (s_k - s_0) / (s_K - s_0),    s_k = 1 / (1 + exp(-δ (2k/K - 1))),
        k = 0, …, K = `num_steps`

    Raises:
        ConfigurationError: `num_steps` is not an integer of at least 1, or `delta` is not
            positive, or so large or small that rounding makes temperatures equal.

    Example:
        >>> sigmoid_schedule(4).round(3)
        array([0.   , 0.105, 0.5  , 0.895, 1.   ])

    Source: Grosse, Ghahramani, Adams (2015), arXiv:1511.02543, section 5.
    """
    check_positive("delta", delta)
    values = expit(delta * (2 * linear_schedule(num_steps) - 1))
    with np.errstate(invalid="ignore"):  # all are equal
        schedule = (values - values[0]) / (values[-1] - values[0])
    schedule[-1] = 1.0
    if not np.all(np.diff(schedule) > 0):
        raise ConfigurationError(
            f"delta must give distinct temperatures, as values between 0.001 and 30 do; got {delta!r}."
        )
    return schedule


@dataclass(frozen=True)
class AIS:
    """Annealed importance sampling.

    Each particle moves independently from the prior to the posterior along the geometric path p(θ)
    p(D | θ)^λ. At the temperatures 0 = λ₀ < λ₁ < … < λ_K = 1 it is reweighted, and moved by a
    kernel that leaves the new target invariant:

        log wᵢ ← log wᵢ + (λ_k - λ_{k-1}) log p(D | θᵢ),        Ẑ = mean of the wᵢ.

    Every move uses all rows, so the method suits thousands of rows, not millions. With a
    Metropolis correction and a fixed schedule, Ẑ is unbiased; tuning step sizes and temperatures
    on the particles adds a bias that falls as 1/M. Particles are never resampled: if the posterior
    is far from the prior, many temperatures are needed. `log_evidence` is corrected for the bias
    -variance/2 of the logarithm. `AIS.published()` has the settings of the comparison with SGAIS.

    Attributes:
        num_particles: number of particles M, independent except for the shared step sizes.
        target_ess: effective sample size after each step, as a fraction of the particles; it
            determines the temperatures. The work grows as 1/√(1 - `target_ess`), and the variance
            of the log weights falls as √(1 - `target_ess`).
        schedule: temperatures from 0 to 1, used instead: `linear_schedule(K)`,
            `sigmoid_schedule(K)` or your own.
        kernel: the move: `kernels.HMC`, `MALA` or `RandomWalk`; `ULA`, whose weights correct its
            errors; or `SGHMC` or another kernel without a Metropolis correction, which then uses
            the exact gradient. For a likelihood outside JAX the default is `kernels.RandomWalk()`.
        bias_correction: whether half the variance is added to log Ẑ; published forms do not.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> method = ev.AIS(schedule=sigmoid_schedule(200))  # doctest: +SKIP
        >>> ev.estimate(model, data, method=method)  # doctest: +SKIP

    Source: Neal (2001), Statistics and Computing 11, 125; the adaptive temperatures and
    `published()` are those of Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, section 3.
    """

    num_particles: int = 512
    target_ess: float = 0.99
    schedule: Sequence[float] | Float[ndarray, " temperatures"] | None = None
    kernel: Any = field(default_factory=HMC)
    bias_correction: bool = True

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)
        check_target_ess(self.target_ess)
        check_kernel("kernel", self.kernel, "log_density", "gradient")
        if self.schedule is not None:
            object.__setattr__(self, "schedule", _checked(self.schedule))

    @classmethod
    def published(cls) -> "AIS":
        """The 2019 paper's settings: 10 particles, target ESS 5, 20 exact-gradient SGHMC steps."""
        return cls(num_particles=10, target_ess=0.5, kernel=SGHMC(), bias_correction=False)

    def without_gradients(self) -> "AIS":
        """With random walks in place of the default kernel."""
        return with_kernel_instead(self, RandomWalk())

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each temperature; the last one has the estimate."""
        return self.walk(model, rows, from_prior(model, key, self.num_particles))

    def walk(
        self, model: BoundModel, rows: Window, population: Population, *, is_reverse: bool = False
    ) -> Iterator[Snapshot]:
        """Yield a snapshot after each temperature; in reverse, each with an estimate of 1/Z."""
        settings, stops = PathSettings(self.target_ess, self.kernel), self._stops(is_reverse)
        nothing = rows.part(0, 0)
        for found in anneal(settings, model, population, nothing, rows, stops=stops, is_reverse=is_reverse):
            yield self._snapshot(rows, found)

    def _stops(self, is_reverse: bool) -> Sequence[float] | None:
        """End points of the steps, as fractions of the path."""
        if self.schedule is None:
            return None
        temperatures = np.asarray(self.schedule)
        return (1.0 - temperatures[-2::-1] if is_reverse else temperatures[1:]).tolist()

    def _snapshot(self, rows: Window, found: Annealed) -> Snapshot:
        if self.schedule is None:
            share = found.share_done
        else:
            share = len(found.steps) / (len(self.schedule) - 1)
        return Snapshot(
            estimate_of(found.population, is_unbiased=self.bias_correction),
            num_observations=rows.size if found.temperatures[-1] == 1.0 else 0,
            positions=found.population.positions,
            log_weights=found.population.log_weights,
            share_done=share,
            diagnose=partial(diagnose_path, found.steps, math.nan, REMEDY),
        )


def _checked(schedule: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    """The schedule as a tuple, which can be compared. Raises ConfigurationError if invalid."""
    try:
        values = np.asarray(schedule, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(
            f"schedule must be a sequence of numbers from 0 to 1; got {reprlib.repr(schedule)}."
        ) from None
    rises = values.ndim == 1 and len(values) > 1 and bool(np.all(np.diff(values) > 0))
    if not rises or values[0] != 0.0 or values[-1] != 1.0:
        shown = np.array2string(values, threshold=6, precision=4)
        raise ConfigurationError(
            f"schedule must rise from 0 to 1, each temperature above the last; got {shown}."
        )
    return tuple(values.tolist())
