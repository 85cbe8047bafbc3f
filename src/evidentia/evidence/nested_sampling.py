"""Nested sampling: the log evidence as an integral over the shrinking prior mass."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from evidentia.evidence.method import Diagnosis, Estimate, Snapshot, with_kernel_instead
from evidentia.evidence.nested.prior_mass import Quadrature, Shrinkage, WeightedPoints
from evidentia.evidence.nested.run import (
    Ending,
    Iteration,
    NestedSettings,
    Stage,
    correlation_of,
    diagnose,
    shrink,
    sign_of_memory,
    with_twice_the_steps,
)
from evidentia.evidence.population.particles import draws_inside
from evidentia.evidence.population.warning_signs import MAX_CORRELATION
from evidentia.kernels import ConstrainedWalk, ReflectingSGHMC
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import FullBatch, Prepared
from evidentia.posterior.rows import Window
from evidentia.posterior.target import posterior


@dataclass(frozen=True)
class NestedSampling:
    """Nested sampling, with points that reflect off the likelihood contour.

    M live points are drawn from the prior. In each iteration, the point of lowest likelihood is
    removed, and a new point is drawn from the prior inside its contour, {θ : L(θ) > L_i}. The
    prior mass X_i inside shrinks by e^{-1/M} on average, so

        Z = Σ L_i w_i,   w_i = X_{i-1} - X_i  or  (X_{i-1} - X_{i+1}) / 2,
        H = Σ (L_i w_i / Z) log(L_i / Z),

    with a standard error of √(H/M) on log Z. The run ends when the live points can add less than
    the fraction `remaining` of the evidence; they are then added, each with the mass X/M. Every
    likelihood uses all rows, so the cost grows with the data.

    Attributes:
        num_particles: number of live points M, at least 2. For 32 and more, M/16 of them are
            replaced at once; the standard error accounts for this.
        kernel: the source of new points: `kernels.ReflectingSGHMC`, `kernels.Rejection`, or one
            without gradients: `kernels.ConstrainedWalk`, `kernels.ConstrainedSlice` or
            `kernels.ConstrainedDifferentialEvolution`. For a likelihood outside JAX the default is
            `kernels.ConstrainedWalk()`.
        quadrature: "rectangle" (X_{i-1} - X_i), "trapezoid", or "lower" (X_i - X_{i+1}).
        shrinkage: "geometric", the factor e^{-1/M}, unbiased for log Z, or "arithmetic", M/(M +
            1), which adds H/2M.
        remaining: the fraction of the evidence at which to stop.
        ending: "live_points" stops when the remaining mass times the largest likelihood is less
            than that fraction, and adds the live points; "last_term" stops when a removed point
            added less, and leaves the live points out, as published; "adaptive" stops as soon as
            the live points are even enough to be added with an error that is a tenth of that of
            the prior masses.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> ev.estimate(model, data, method=ev.NestedSampling(num_particles=512))  # doctest: +SKIP

    Source: Skilling (2006), Bayesian Analysis 1, 833; Cameron (2020), MSc thesis, Stellenbosch
    (reflecting SGHMC).
    """

    num_particles: int = 256
    kernel: Any = field(default_factory=ReflectingSGHMC)
    quadrature: Quadrature = "trapezoid"
    shrinkage: Shrinkage = "geometric"
    remaining: float = 0.01
    ending: Ending = "live_points"

    def __post_init__(self) -> None:
        self.settings.check()

    @property
    def settings(self) -> NestedSettings:
        """Settings of a run."""
        return NestedSettings(
            self.num_particles, self.kernel, self.quadrature, self.shrinkage, self.remaining, self.ending
        )

    @classmethod
    def published(cls) -> "NestedSampling":
        """The 2019 papers' settings: 2 live points, 20 steps, η = 10⁻³, α = 0.1, last term of 1%.

        The shrinkage factor is e^{-1/M}. With 2 live points the standard error is √(H/2), several
        nats. Steps of 0.03 in unconstrained units are too long for the posterior of many rows; a
        diagnostic reports this.
        """
        kernel = ReflectingSGHMC(num_steps=20, friction=0.1, learning_rate=1e-3)
        return cls(num_particles=2, kernel=kernel, quadrature="rectangle", ending="last_term")

    def without_gradients(self) -> "NestedSampling":
        """With random walks in place of the default kernel."""
        return with_kernel_instead(self, ConstrainedWalk())

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot every few iterations; its estimate includes the live points.

        If moves have not decorrelated the points, a second run, with twice the steps in each move,
        is compared with the first.
        """
        found = None
        for found in self._once(self.settings, model, rows, key):
            yield found[0]
        assert found is not None  # a run has at least one stage
        last, iterations, stage = found
        if correlation_of(iterations) > MAX_CORRELATION and not stage.is_stuck:
            estimate, longer = None, self.settings._replace(kernel=with_twice_the_steps(self.kernel))
            for again, _, _ in self._once(longer, model, rows, jax.random.fold_in(key, 1)):
                estimate = again.estimate
                yield last._replace(num_steps=again.num_steps)  # the result if a stop is requested
            assert estimate is not None and last.estimate is not None
            error = math.sqrt(last.estimate.variance + estimate.variance)
            difference = (estimate.raw - last.estimate.raw) / error
            diagnose = partial(self._diagnose, stage, iterations, difference)
            yield last._replace(num_steps=0, diagnose=diagnose)

    def _once(
        self, settings: NestedSettings, model: BoundModel, rows: Window, key: Array
    ) -> Iterator[tuple[Snapshot, tuple[Iteration, ...], Stage]]:
        """Snapshots of one run, with all its iterations so far and the stage."""
        key_prior, key_shrink = jax.random.split(key)
        drawn = draws_inside(model, key_prior, self.num_particles)
        prior = Prepared(FullBatch(), None, posterior(rows.part(0, 0)))
        removed, iterations = list[WeightedPoints](), list[Iteration]()
        for stage in shrink(settings, model, prior, rows, drawn.positions, key_shrink):
            removed.append(stage.removed)
            iterations.extend(stage.iterations)
            points, so_far = [*removed, stage.live], tuple(iterations)
            snapshot = Snapshot(
                Estimate(
                    stage.integral.log_evidence + drawn.log_share,
                    stage.variance + drawn.variance,
                    is_unbiased=False,
                ),
                num_observations=rows.size,
                num_steps=len(stage.iterations),
                positions=jnp.asarray(np.concatenate([part.positions for part in points])),
                log_weights=np.concatenate([part.log_weights for part in points]),
                share_done=stage.share_done,
                diagnose=partial(self._diagnose, stage, so_far),
            )
            yield snapshot, so_far, stage

    def _diagnose(
        self, stage: Stage, iterations: tuple[Iteration, ...], difference: float = math.nan
    ) -> Diagnosis:
        is_stopped = self.ending != "last_term"
        share = f"The run stopped {100 * stage.share_done:.0f}% of the way in log prior mass"
        stuck = (share if is_stopped else "The run went on") if stage.is_stuck else ""
        found = diagnose(self.kernel, iterations, stage.integral.information, stuck)
        signs = {} if stuck else sign_of_memory(found.measured["move_correlation"], difference)
        found = found.plus(Diagnosis({"repeat_difference": difference}, signs))
        if not math.isnan(stage.variance) or stuck:
            return found
        sentence = (
            f"{share}, and the live points were far from the top of the likelihood: the log evidence is too low by an unknown "
            "amount. Allow more time, or use fewer live points (num_particles)."
        )
        return found.plus(Diagnosis({}, {"stopped on the way": sentence}))
