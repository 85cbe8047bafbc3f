"""The run that nested samplers share: live points climb the likelihood while the prior mass above them shrinks.

Of M live points from a prior the lowest in likelihood is removed, and replaced by a copy of a survivor that a kernel has
moved inside the contour of the removed one. With many live points the lowest sixteenth is replaced at once: the moves
are then computed together, and the mass shrinks by the factors for M, M - 1, … points.

On the device, where points are put into an order, log-likelihoods are sums in 32 bits, less an offset per row so that
they are small. What the evidence is made of is summed again, with all its digits, for the points removed.

Source: Skilling (2006), Bayesian Analysis 1, 833; Henderson and Goggans (2014), AIP Conference Proceedings 1636, 100
(several points at once).
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError
from evidentia.evidence.checks import check_defined, check_possible
from evidentia.evidence.estimator import Diagnosis
from evidentia.evidence.prior_mass import (
    Integral,
    Quadrature,
    Shrinkage,
    WeightedPoints,
    log_shrinkages,
    log_widths,
    variance_of_log_mass,
)
from evidentia.fields import check_count, check_kernel
from evidentia.gradients import FullBatch, Prepared
from evidentia.kernels import CONSTRAINED, Points, Region, posterior_scale
from evidentia.model import BoundModel
from evidentia.rows import Rows, fold_rows, log_likelihood_sums
from evidentia.target import gradient_sum, log_target

AT_ONCE = 16  # of this many live points one is removed in an iteration
MAX_ITERATIONS = 16  # on the device between two looks; fewer with few points, whose mass shrinks fast
RECENT = 16  # iterations that tell whether moves still get anywhere
GAIN = 0.5  # how fast the logarithm of the step length follows the share of steps taken
FEW = 8  # live points below which their covariance says nothing
MAX_STUCK = 0.5  # share of the moves that come nowhere


class Method(Protocol):
    """The fields of a method that the run reads; `NestedSampling` documents them."""

    @property
    def num_particles(self) -> int:
        """Live points."""
        ...

    @property
    def kernel(self) -> Any:
        """Moves points inside the contour."""
        ...

    @property
    def quadrature(self) -> Quadrature:
        """How widths follow from the shrinking mass."""
        ...

    @property
    def shrinkage(self) -> Shrinkage:
        """By what the mass shrinks."""
        ...

    @property
    def remaining(self) -> float:
        """When to stop."""
        ...


class Iteration(NamedTuple):
    """What an iteration shows of its moves.

    The share of steps taken (for rejection, of draws), the share of points that came nowhere, for every step was refused or
    reflected, and the step length in units of the live points' spread.
    """

    acceptance: float
    stuck: float
    step: float


class Live(NamedTuple):
    """The live points, the labels that order them where likelihoods are equal, and the logarithm of the step length."""

    positions: Float[Array, "points parameters"]
    labels: Float[Array, " points"]
    log_step: Float[Array, ""]


class Stage(NamedTuple):
    """Where a run is after some iterations.

    `removed` are the points removed since the last stage, `live` those alive, with the mass that remains. `integral` sums
    all points so far, the live ones included; `share_done` is that of the way in logarithms of the mass.
    """

    removed: WeightedPoints
    live: WeightedPoints
    integral: Integral
    variance: float
    share_done: float
    iterations: Sequence[Iteration]
    is_stuck: bool


def check_fields(method: Method) -> None:
    """Raises ConfigurationError for a field with an impossible value."""
    check_count("num_particles", method.num_particles, 2)
    check_kernel("kernel", method.kernel, CONSTRAINED)
    for name, choices in (
        ("quadrature", ("rectangle", "trapezoid")),
        ("shrinkage", ("geometric", "arithmetic")),
    ):
        if (given := getattr(method, name)) not in choices:
            raise ConfigurationError(f"{name} must be '{choices[0]}' or '{choices[1]}'; got {given!r}.")
    if not 0 < method.remaining < 1:
        raise ConfigurationError(
            f"remaining is a share of the evidence between 0 and 1; got {method.remaining}."
        )


def shrink(
    method: Method,
    model: BoundModel,
    prior: Prepared,
    rows: Rows,
    positions: Float[Array, "points parameters"],
    key: Array,
) -> Iterator[Stage]:
    """Stages of a run over the log-likelihood of `rows`, from live points drawn from the density that `prior` describes.

    Ends when what the live points may still add is less than the share `remaining` of the evidence, or when most moves come
    nowhere.

    Raises EstimationError if the log-likelihood is NaN or +inf at a live point, or -inf at all.
    """
    count = len(positions)
    num_removed = max(1, count // AT_ONCE)
    num_iterations = min(MAX_ITERATIONS, max(1, count // 2))
    steps = np.tile(log_shrinkages(count, num_removed, method.shrinkage), num_iterations)
    variance = variance_of_log_mass(count, num_removed)
    key, key_labels, key_spread = jax.random.split(key, 3)
    live = Live(positions, jax.random.uniform(key_labels, (count,)), jnp.zeros(()))
    log_likelihoods = _log_likelihoods(model, positions, rows)
    check_possible(log_likelihoods, rows, "live points")
    # Where the live points are too few to show how wide they lie, steps are in units of the prior's width.
    wide = None if count >= FEW else model.sample_prior(key_spread, 256)
    iterations, found, log_mass = [], Integral(), 0.0
    while True:
        factor = _factor(live.positions if wide is None else wide)
        key, *keys = jax.random.split(key, num_iterations + 1)
        density = prior.target, prior.expansion, rows, _offset(log_likelihoods, rows)
        live, dead, shown = _iterate(
            model, method.kernel, prior.config, num_removed, jnp.stack(keys), live, factor, density
        )
        log_likelihoods = _log_likelihoods(model, live.positions, rows)
        widths, log_rest = log_widths(log_mass, np.r_[steps, steps[0]], method.quadrature)
        log_mass += float(np.sum(steps))
        removed = WeightedPoints(dead, _log_likelihoods(model, dead, rows), widths)
        alive = WeightedPoints(live.positions, log_likelihoods, np.full(count, log_rest - math.log(count)))
        found = found.add(removed)
        total = found.add(alive)
        log_left = log_rest + float(np.max(log_likelihoods)) - found.log_evidence
        to_go = max(0.0, log_left - math.log(method.remaining))
        # What the live points may add shrinks as the mass does, once the likelihood no longer rises much.
        share_done = log_mass / (log_mass - to_go)
        news = [Iteration(*map(float, row)) for row in np.asarray(shown)]
        iterations += news
        is_stuck = len(iterations) >= RECENT and _mean(iterations, "stuck") > MAX_STUCK
        yield Stage(removed, alive, total, variance * total.information, share_done, news, is_stuck)
        if is_stuck or to_go == 0.0:
            return


def diagnose(method: Method, iterations: Sequence[Iteration], information: float, stuck_at: str) -> Diagnosis:
    """Measured signs of health; `stuck_at` says in words where a run was given up, empty if it was not."""
    measured = {
        "information": information,
        "num_iterations": float(len(iterations)),
        "acceptance": _mean(iterations, "acceptance"),
        "stuck_moves": _mean(iterations, "stuck"),
    }
    if not stuck_at:
        return Diagnosis(measured)
    advice = (
        "Take kernels.ReflectingSGHMC() without a learning_rate, whose steps follow the region, or more live points "
        "(num_particles)."
    )
    if method.kernel.is_adaptive and getattr(method.kernel, "learning_rate", None) is None:
        advice = "Take more live points (num_particles), more steps (num_steps of the kernel), or SGAIS()."
    sentence = (
        f"{100 * measured['stuck_moves']:.0f}% of the last moves came nowhere: the region inside the contour has "
        f"shrunk below what {type(method.kernel).__name__} can enter. The run stopped {stuck_at}; the log evidence is what "
        f"was found by then, and may be far too low. {advice}"
    )
    return Diagnosis(measured, {"region too small": sentence})


@partial(jax.jit, static_argnames=("model", "kernel", "gradient", "num_removed"))
def _iterate(model, kernel, gradient, num_removed, keys, live: Live, factor, density):
    """Iterations on the device: the live points after them, and the points removed in their order."""
    region = _region(model, gradient, *density)

    def iterate(carry, key):
        live, log_step = carry
        key_starts, key_move = jax.random.split(key)
        order = jnp.lexsort((live.labels, live.log_likelihoods))
        lowest, survivors = order[:num_removed], order[num_removed:]
        removed = live.positions[lowest]
        contour = region._replace(threshold=live.log_likelihoods[lowest[-1]], label=live.labels[lowest[-1]])
        starts = jax.random.choice(key_starts, survivors, (num_removed,), replace=False)
        copies = jax.tree.map(lambda leaf: leaf[starts], live)
        moved, acceptance, free = kernel.move(key_move, copies, contour, jnp.exp(log_step) * factor)
        stuck = jnp.mean(free == 0)
        shown = jnp.stack([jnp.mean(acceptance), stuck, jnp.exp(log_step)])
        live = jax.tree.map(lambda leaf, new: leaf.at[lowest].set(new), live, moved)
        excess = jnp.minimum(
            jnp.mean(acceptance) - kernel.target_acceptance, jnp.mean(free) - kernel.target_free
        )
        log_step = log_step + GAIN * excess
        return (live, jnp.minimum(log_step, math.log(kernel.largest_step))), (removed, shown)

    points = Points(live.positions, region.log_likelihood(live.positions), live.labels)
    (points, log_step), (removed, shown) = jax.lax.scan(iterate, (points, live.log_step), keys)
    moved = Live(points.positions, points.labels, log_step)
    return moved, removed.reshape(-1, live.positions.shape[1]), shown


def _region(model, gradient, target, expansion, rows, offset) -> Region:
    """The contours of the log-likelihood of `rows`, less an offset a row, in the density of `target`."""

    def log_likelihood(positions):
        def add(sums, block, mask):
            values = jax.vmap(model.log_likelihood, (0, None))(positions, block)
            values = jnp.where(values == jnp.inf, jnp.nan, values)  # outside every contour
            return sums + jnp.sum(jnp.where(mask, values - offset, 0.0), axis=1)

        return fold_rows(add, jnp.zeros_like(positions[:, 0]), rows)

    is_exact = isinstance(gradient, FullBatch)
    exact = jax.vmap(jax.value_and_grad(log_target(model, target)))
    estimator = gradient.estimator(model, target, expansion)

    def log_density(key, positions):
        return exact(positions) if is_exact else (None, estimator(key, positions))

    def draw(key, count):
        return model.draw_prior(key, count)

    def likelihood_gradient(positions):
        return gradient_sum(model, positions, rows)

    return Region(-jnp.inf, 0.0, log_likelihood, likelihood_gradient, log_density, draw)


def _mean(iterations: Sequence[Iteration], name: str) -> float:
    return float(np.mean([getattr(iteration, name) for iteration in iterations[-RECENT:]]))


def _factor(positions) -> Float[Array, "parameters parameters"]:
    count = len(positions)
    return posterior_scale(np.asarray(positions, np.float64), np.full(count, 1 / count), None, 1).factor


def _offset(log_likelihoods: np.ndarray, rows: Rows) -> Array:
    """The log-likelihood of a row at a typical live point, without which sums in 32 bits are small and keep their digits."""
    return jnp.float32(np.median(log_likelihoods[np.isfinite(log_likelihoods)]) / rows.size)


def _log_likelihoods(model: BoundModel, positions, rows: Rows) -> Float[np.ndarray, " points"]:
    deviations, offset = log_likelihood_sums(model, positions, rows)
    check_defined(deviations, rows, "live points")
    return deviations + offset
