"""The run shared by nested samplers: live points climb the likelihood as the prior mass shrinks.

Of M live points from a prior, the lowest in likelihood is removed and replaced by a copy of a
survivor, which a kernel moves inside the contour of the removed point. With many live points, the
lowest sixteenth is replaced at once: the moves are then computed together, and the mass shrinks by
the factors for M, M - 1, … points.

On the device, where points are ordered, log-likelihoods are float32 sums, kept small by an offset
per row. For the evidence, the log-likelihoods of removed points are summed again in full
precision.

Source: Skilling (2006), Bayesian Analysis 1, 833; Henderson and Goggans (2014), AIP Conference
Proceedings 1636, 100 (several points at once).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.errors import ConfigurationError, as_number, check_count
from evidentia.evidence.method import Diagnosis, check_possible, defined_log_likelihoods
from evidentia.evidence.nested.iterations import Live, iterated
from evidentia.evidence.nested.prior_mass import (
    Integral,
    Quadrature,
    Shrinkage,
    WeightedPoints,
    log_shrinkages,
    log_widths,
    variance_of_log_mass,
)
from evidentia.evidence.population.warning_signs import MAX_CORRELATION, MAX_DIFFERENCE
from evidentia.kernels import ConstrainedKernel, posterior_scale
from evidentia.kernels.region import check_constrained_kernel
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import Prepared
from evidentia.posterior.rows import Window

FEW = 8  # live points below which their covariance is meaningless
RECENT = 16  # iterations that show whether points still move
POINTS = "live points"  # in messages
LEAST_EVEN = 32.0  # effective live points. Of 12 runs of 2 models stopped anywhere, rms z was at most 1.0 from 26 on, 183 below 3
MAX_STUCK = 0.5  # fraction of moves that leave a point in place

Ending = Literal["live_points", "last_term", "adaptive"]


class NestedSettings(NamedTuple):
    """Settings of a run; `NestedSampling` documents these fields."""

    num_particles: int
    kernel: ConstrainedKernel
    quadrature: Quadrature
    shrinkage: Shrinkage
    remaining: float
    ending: Ending = "live_points"

    @property
    def num_removed(self) -> int:
        """How many points are replaced at once: one in sixteen."""
        return max(1, self.num_particles // 16)

    def check(self) -> None:
        """Raise ConfigurationError if a field is invalid."""
        check_count("num_particles", self.num_particles, 2)
        check_constrained_kernel("kernel", self.kernel)
        fields = ("quadrature", Quadrature), ("shrinkage", Shrinkage), ("ending", Ending)
        for name, choices in ((name, get_args(kind)) for name, kind in fields):
            if (given := getattr(self, name)) not in choices or not isinstance(given, str):
                known = " or ".join(f"'{choice}'" for choice in choices)
                raise ConfigurationError(f"{name} must be {known}; got {given!r}.")
        if not 0 < as_number(self.remaining) < 1:
            raise ConfigurationError(
                f"remaining is a fraction of the evidence between 0 and 1; got {self.remaining}."
            )


class Iteration(NamedTuple):
    """Statistics of the moves of an iteration.

    Attributes:
        acceptance: fraction of steps taken (for rejection, of draws).
        stuck: fraction of points that did not move because every step was rejected or reflected.
        step: step length in units of the live points' spread.
        correlation: the largest rank correlation of a coordinate before and after the moves of
            some iterations; NaN with too few live points.
    """

    acceptance: float
    stuck: float
    step: float
    correlation: float = math.nan


class Stage(NamedTuple):
    """A run after some iterations.

    Attributes:
        removed: points removed since the last stage.
        live: the live points, with the remaining mass.
        integral: the sum over all points so far, including the live ones.
        variance: variance of the log evidence, in nats², if the run ends here; NaN while the live
            points are far from the top of the likelihood.
        share_done: fraction of the run done, in log mass.
        iterations: iterations since the last stage.
        is_stuck: whether most points no longer move.
    """

    removed: WeightedPoints
    live: WeightedPoints
    integral: Integral
    variance: float
    share_done: float
    iterations: Sequence[Iteration]
    is_stuck: bool


def shrink(
    settings: NestedSettings,
    model: BoundModel,
    prior: Prepared,
    rows: Window,
    positions: Float[Array, "points parameters"],
    key: Array,
) -> Iterator[Stage]:
    """Yield stages of a nested sampling run over the log-likelihood of `rows`.

    The live points at `positions` are draws from the density that `prior` describes. The run ends
    when the live points can add less than the fraction `remaining` of the evidence, or when most
    points no longer move; with the ending "last_term", only when a removed point adds less than
    that fraction; with "adaptive", already when the live points' variance is negligible.

    Raises EstimationError if the log-likelihood is NaN or +inf at a live point, or -inf at all
    live points.
    """
    count = len(positions)
    num_removed = settings.num_removed
    # In one call on the device; fewer with few points, whose mass shrinks fast.
    num_iterations = min(16, max(1, count // 2))
    steps = np.tile(log_shrinkages(count, num_removed, settings.shrinkage), num_iterations)
    variance = variance_of_log_mass(count, num_removed)
    key, key_labels, key_spread = jax.random.split(key, 3)
    is_second = jnp.arange(count) >= count // 2
    live = Live(positions, jax.random.uniform(key_labels, (count,)), is_second, jnp.zeros(()))
    log_likelihoods = defined_log_likelihoods(model, positions, rows, POINTS)
    check_possible(log_likelihoods, rows.span, POINTS)
    # With too few live points to estimate their spread, steps are in units of the prior's width.
    wide = None if count >= FEW else model.sample_prior(key_spread, 256)
    iterations, found, log_mass = [], Integral(), 0.0
    while True:
        factors = _factors(live) if wide is None else spread(wide)[None]
        key, *keys = jax.random.split(key, num_iterations + 1)
        density = prior.target, prior.device_expansion, rows, _offset(log_likelihoods, rows)
        live, dead, shown, correlations = iterated(
            model, settings.kernel, prior.estimator, num_removed, jnp.stack(keys), live, factors, density
        )
        log_likelihoods = defined_log_likelihoods(model, live.positions, rows, POINTS)
        widths, log_rest = log_widths(log_mass, np.r_[steps, steps[0]], settings.quadrature)
        log_mass += float(np.sum(steps))
        removed = WeightedPoints(dead, defined_log_likelihoods(model, dead, rows, POINTS), widths)
        found = found.add(removed)
        if settings.ending == "last_term":
            log_width, log_left = -np.inf, float(removed.log_weights[-1])
        else:
            log_width, log_left = log_rest - math.log(count), log_rest + float(np.max(log_likelihoods))
        alive = WeightedPoints(live.positions, log_likelihoods, np.full(count, log_width))
        total = found.add(alive)
        log_left = log_left - found.log_evidence if found.log_evidence > -np.inf else np.inf
        to_go = max(0.0, log_left - math.log(settings.remaining))
        # Once the likelihood levels off, the live points' possible share shrinks with the mass.
        share_done = log_mass / (log_mass - to_go)
        correlation = float(np.max(correlations, initial=0.0)) if wide is None else math.nan
        new = [Iteration(*map(float, row), correlation=correlation) for row in np.asarray(shown)]
        iterations += new
        is_stuck = len(iterations) >= RECENT and _mean(iterations, "stuck") > MAX_STUCK
        is_over = to_go == 0.0 or (is_stuck and settings.ending != "last_term")
        of_mass, of_live = variance * total.information, 0.0 if is_over else _variance_of_live(alive, total)
        yield Stage(removed, alive, total, of_mass + of_live, share_done, new, is_stuck)
        if is_over or (settings.ending == "adaptive" and of_live <= 0.01 * of_mass):  # 0.5% of the error
            return


def _variance_of_live(alive: WeightedPoints, total: Integral) -> float:
    """The live points' part of the variance of the log evidence, before the end of a run.

    They are draws from the rest of the prior. As long as a few have most of their weight, the top
    of the likelihood has not been seen, and the evidence of the rest is unknown.
    """
    log_weights = alive.log_weights
    if np.max(log_weights) == -np.inf or weights.ess(log_weights) < LEAST_EVEN:
        return math.nan
    share = math.exp(weights.log_sum_exp(log_weights) - total.log_evidence)
    return share**2 * weights.relative_variance(log_weights)


def diagnose(
    kernel: ConstrainedKernel, iterations: Sequence[Iteration], information: float, stuck: str
) -> Diagnosis:
    """Diagnostics of a run; `stuck` says what became of it if its points no longer moved."""
    measured = {
        "information": information,
        "num_iterations": float(len(iterations)),
        "acceptance": _mean(iterations, "acceptance"),
        "stuck_moves": _mean(iterations, "stuck"),
        "move_correlation": correlation_of(iterations),
    }
    if not stuck:
        return Diagnosis(measured)
    advice = (
        "Use kernels.ReflectingSGHMC() without a learning_rate, whose steps adapt to the region, or more live points "
        "(num_particles)."
    )
    if kernel.is_adaptive:
        advice = "Use more live points (num_particles), more steps (num_steps of the kernel), or SGAIS()."
    sentence = (
        f"{100 * measured['stuck_moves']:.0f}% of the last moves left their point in place: the region inside the contour "
        f"is too small for {type(kernel).__name__}. {stuck}, and the log evidence may be far too low. {advice}"
    )
    return Diagnosis(measured, {"region too small": sentence})


def correlation_of(iterations: Sequence[Iteration]) -> float:
    """The median over a run of the correlation of the moves; NaN with too few live points."""
    return float(np.median([iteration.correlation for iteration in iterations]))


def with_twice_the_steps(kernel: Any) -> ConstrainedKernel:
    """The kernel with longer moves, if it has a number of steps."""
    return replace(kernel, num_steps=2 * kernel.num_steps) if hasattr(kernel, "num_steps") else kernel


def sign_of_memory(correlation: float, difference: float) -> dict[str, str]:
    """The sign that moves stay near their starts, unless a second run agrees with the first.

    Points in separate modes, between which no move leads, have correlated coordinates too, and
    then runs agree. `difference` is in joint standard errors; NaN if there was no second run.
    """
    if not correlation > MAX_CORRELATION or abs(difference) <= MAX_DIFFERENCE:
        return {}
    found = f"a second run, with twice the steps, differs by {difference:+.1f} joint standard errors"
    return {"moves do not decorrelate": (
        f"the correlation of a coordinate before and after a move is {correlation:.2f}, and "
        f"{'no second run was compared' if math.isnan(difference) else found}: new live points are near copies of others, and the log "
        "evidence may be wrong by many standard errors. Give the kernel more steps (num_steps), or compare with SGAIS()."
    )}  # fmt: skip


def _mean(iterations: Sequence[Iteration], name: str) -> float:
    return float(np.mean([getattr(iteration, name) for iteration in iterations[-RECENT:]]))


def _factors(live: Live) -> Float[Array, "halves parameters parameters"]:
    """For each half the spread of the other one, or that of all points if they are few."""
    positions, is_second = live.positions, np.asarray(live.is_second)
    if len(positions) < 2 * FEW:
        return spread(positions)[None]
    positions = np.asarray(positions)
    return jnp.stack([spread(positions[is_second]), spread(positions[~is_second])])


def spread(
    positions: Float[Array | np.ndarray, "points parameters"],
) -> Float[Array, "parameters parameters"]:
    """L with L Lᵀ the covariance of equally weighted positions."""
    count = len(positions)
    return posterior_scale(np.asarray(positions, np.float64), np.full(count, 1 / count), None, 1).factor


def _offset(log_likelihoods: np.ndarray, rows: Window) -> Array:
    """Log-likelihood per row at a typical live point, which keeps float32 sums accurate."""
    return jnp.float32(np.median(log_likelihoods[np.isfinite(log_likelihoods)]) / rows.size)
