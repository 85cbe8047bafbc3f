"""Paths of Markov kernels: random walk and Hamiltonian Monte Carlo, exact or with noisy gradients.

The target is N(0, Σ) in the plane, with variances of 1 and a correlation of 0.95: along its wide
axis the variance is 1.95, along its narrow one 0.05. Four kernels of `evidentia.kernels` draw from
it, knowing its scale but not its correlation:

  - random walk Metropolis and HMC, which the Metropolis correction makes exact;
  - SGLD and SGHMC, with noise N(0, 1) in each coordinate of the gradient, as from a mini-batch.
    They reject nothing, so they are too wide, depending on step size and noise. Their steps are
    linear in position and velocity, so their stationary covariance is that of a linear recursion
    (`expected_covariance`), against which they are judged. It includes that SGHMC's moves start
    from v ~ N(0, η), although the stationary law is N(0, η / (1 - α/2)): without noise, moves of
    20 steps keep a covariance that is 4% too small however short the steps.

The figure shows two hundred evaluations of the density or its gradient for each, from one start.
Measured over 64 chains of 5,000 moves of 10 or 20 evaluations (quick: 500):

  - evaluations per independent position along the wide axis, from the autocorrelation time (draws
    over ArviZ' effective sample size), with the error over eight groups of chains;
  - means, variances and the covariance along both axes, with errors over the chains.

The thesis' target and settings are not available: these are ours. The step size of random walk
Metropolis is the best of 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5 and 3.

Source: Cameron (2020), MSc thesis, Stellenbosch, chapter 2, Figures 2.1 and 2.2; kernels: see
`evidentia.kernels`.
"""

from dataclasses import replace
from typing import Any

import arviz
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy.linalg import solve_discrete_lyapunov

from evidentia.display.plots import COLORS
from evidentia.kernels import HMC, SGHMC, SGLD, Density, RandomWalk, Scale
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings, Verdict

CORRELATION = 0.95
COVARIANCE = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)
AXES = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)  # wide, narrow
VARIANCES = np.diag(AXES @ COVARIANCE @ AXES.T)
GRADIENT_NOISE = 1.0  # variance, in each coordinate
SCALE = Scale(jnp.eye(2), 1.0)
NUM_CHAINS, NUM_GROUPS = 64, 8
BURN_IN = 50  # draws
NUM_SHOWN = 200  # evaluations
START = (-1.7, -1.7)

# A move takes `num_steps` evaluations of the density or its gradient.
KERNELS = {
    "random walk": RandomWalk(step_size=2.5, num_steps=20),
    "HMC": HMC(num_trajectories=1, num_steps=10, smallest_step=0.15, largest_step=0.3),
    "SGLD": SGLD(learning_rate=0.02, num_steps=20),
    "SGHMC": SGHMC(learning_rate=0.02, friction=0.2, num_steps=20),
}
PAIRS = (("random walk", "HMC"), ("SGLD", "SGHMC"))  # the second of a pair should move further


def log_density(position):
    return -0.5 * position @ jnp.asarray(PRECISION, position.dtype) @ position


def noisy_gradient(key, positions):
    noise = GRADIENT_NOISE**0.5 * jax.random.normal(key, positions.shape)
    return noise - positions @ jnp.asarray(PRECISION, positions.dtype)


def move(kernel: Any, key, positions):
    """Positions of all chains after a move of a kernel."""
    return kernel.move(key, positions, Density(log_density, noisy_gradient), SCALE).positions


def expected_covariance(kernel: Any, gradient_noise: float = GRADIENT_NOISE) -> np.ndarray:
    """The kernel's stationary covariance: the target's, or that of its linear recursion."""
    if kernel.needs == "log_density":
        return COVARIANCE
    rate, unit = kernel.learning_rate, np.eye(2)
    if isinstance(kernel, SGLD):
        # θ ← (1 - η P / 2) θ + N(0, η + η² V / 4), V the variance of the gradient's noise
        noise = (rate + rate**2 * gradient_noise / 4) * unit
        return solve_discrete_lyapunov(unit - 0.5 * rate * PRECISION, noise)
    # v ← (1 - α) v - η P θ + N(0, 2αη + η² V), θ ← θ + v, on (θ, v); moves start with v ~ N(0, η).
    kept, pull = (1 - kernel.friction) * unit, -rate * PRECISION
    step = np.block([[unit + pull, kept], [pull, kept]])
    noise = (2 * kernel.friction * rate + rate**2 * gradient_noise) * np.kron(np.ones((2, 2)), unit)
    covariance = np.kron(np.diag([0.0, rate]), unit)
    for _ in range(kernel.num_steps):
        covariance = step @ covariance @ step.T + noise
    whole = np.linalg.matrix_power(step, kernel.num_steps)[:2, :2]
    return solve_discrete_lyapunov(whole, covariance[:2, :2])


def sample(kernel: Any, num_draws: int, seed: int) -> np.ndarray:
    """Draws (chains, draws, axes) along both axes, wide first, from an exact start."""
    start = jax.random.normal(jax.random.key(2 * seed), (NUM_CHAINS, 2)) @ np.linalg.cholesky(COVARIANCE).T
    keys = jax.random.split(jax.random.key(2 * seed + 1), BURN_IN + num_draws)

    def draw(positions, key):
        positions = move(kernel, key, positions)
        return positions, positions

    _, draws = jax.jit(lambda start, keys: jax.lax.scan(draw, start.astype(jnp.float32), keys))(start, keys)
    return np.moveaxis(np.asarray(draws[BURN_IN:], np.float64), 0, 1) @ AXES.T


def measure(kernel: Any, num_draws: int, seed: int) -> dict[str, Any]:
    """Evaluations per independent draw along the wide axis, and moments along both axes."""
    draws = sample(kernel, num_draws, seed)
    groups = draws[..., 0].reshape(NUM_GROUPS, -1, num_draws)
    ess = np.array([float(arviz.ess(group, method="mean")) for group in groups])
    taken = kernel.num_steps * groups[0].size / ess
    wide, narrow = draws[..., 0], draws[..., 1]
    # Per chain and about the true mean: independent between chains, with unbiased means.
    moments = np.stack([wide, narrow, wide**2, narrow**2, wide * narrow]).mean(axis=2)
    expected = AXES @ expected_covariance(kernel) @ AXES.T
    return {
        "evaluations_per_draw": float(taken.mean()),
        "evaluations_per_draw_error": float(taken.std(ddof=1) / np.sqrt(NUM_GROUPS)),
        "moments": moments.mean(axis=1).tolist(),
        "errors": (moments.std(axis=1, ddof=1) / np.sqrt(NUM_CHAINS)).tolist(),
        "expected": [0.0, 0.0, expected[0, 0], expected[1, 1], expected[0, 1]],
    }


def trace(kernel: Any, seed: int) -> list[list[float]]:
    """Positions along a path: every second step of a trajectory, and every step of the others.

    A move of fewer steps with the same key is the beginning of a longer one. Rejected moves, which
    leave a particle in place, are not shown.
    """
    counts = range(2, kernel.num_steps + 1, 2) if isinstance(kernel, HMC | SGHMC) else [1]
    stages = [replace(kernel, num_steps=count) for count in counts]
    advance = jax.jit(lambda key, place: jnp.concatenate([move(stage, key, place) for stage in stages]))
    places = [np.asarray(START, np.float32)]
    for key in jax.random.split(jax.random.key(seed), NUM_SHOWN // counts[-1]):
        steps = np.asarray(advance(key, places[-1][None]))
        has_moved = np.any(steps != places[-1], axis=1)
        if has_moved[-1]:
            places += list(steps[has_moved])
    return np.array(places, float).round(4).tolist()


def run(settings: Settings) -> Record:
    num_draws = 500 if settings.quick else 5_000
    found = {
        name: settings.remember(
            name,
            lambda kernel=kernel: (
                measure(kernel, num_draws, settings.seed) | {"places": trace(kernel, settings.seed)}
            ),
        )
        for name, kernel in KERNELS.items()
    }
    return {"num_chains": NUM_CHAINS, "num_draws": num_draws, "kernels": found}


def draw(record: Record) -> Figure:
    """One panel per kernel: first steps, over the ellipses that hold 39% and 86% of the target."""
    figure = Figure(figsize=(7, 7.3), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, (name, found), color in zip(axes.flat, record["kernels"].items(), COLORS, strict=False):
        for radius in (1, 2):
            widths = 2 * radius * np.sqrt(VARIANCES)
            ax.add_patch(Ellipse((0, 0), *widths, angle=45, fill=False, edgecolor=COLORS[6], linewidth=1))
        x, y = np.array(found["places"]).T
        ax.plot(x, y, "-o", color=color, linewidth=0.8, markersize=2)
        ax.plot(x[0], y[0], "s", color="black", markersize=6)
        taken = found["evaluations_per_draw"]
        ax.set_title(f"{name}: {taken:.0f} evaluations\nper independent draw", loc="left", fontsize="medium")
        ax.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal")
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("θ₁")
    for ax in axes[:, 0]:
        ax.set_ylabel("θ₂")
    return figure


def table(record: Record) -> list[dict]:
    """Evaluations per independent draw; measured and expected variances over the target's."""
    return [
        {
            "kernel": name,
            "evaluations/draw": f"{found['evaluations_per_draw']:.1f} ± {found['evaluations_per_draw_error']:.1f}",
            "wide/target": round(found["moments"][2] / VARIANCES[0], 3),
            "expected": round(found["expected"][2] / VARIANCES[0], 3),
            "narrow/target": round(found["moments"][3] / VARIANCES[1], 3),
            "expected ": round(found["expected"][3] / VARIANCES[1], 3),
        }
        for name, found in record["kernels"].items()
    ]


def judge(record: Record) -> Verdict:
    """Agree if the moments fit and the second kernel of each pair needs fewer evaluations.

    Both are judged by four standard errors; by chance, a record differs once in 400.
    """
    kernels = record["kernels"]
    scores = {
        name: float(np.max(np.abs(np.subtract(found["moments"], found["expected"]) / found["errors"])))
        for name, found in kernels.items()
    }
    worst = max(scores, key=scores.__getitem__)
    further, ratios = True, []
    for slow, fast in PAIRS:
        mean = {name: kernels[name]["evaluations_per_draw"] for name in (slow, fast)}
        error = np.hypot(*(kernels[name]["evaluations_per_draw_error"] / mean[name] for name in mean))
        further &= bool(np.log(mean[slow] / mean[fast]) > 4 * error)
        ratios.append(f"{fast} {mean[fast]:.0f} where {slow} takes {mean[slow]:.0f}")
    biases = ", ".join(
        f"{name} {100 * (found['moments'][3] / VARIANCES[1] - 1):+.1f}% "
        f"(expected {100 * (found['expected'][3] / VARIANCES[1] - 1):+.1f}%)"
        for name, found in kernels.items()
        if name in PAIRS[1]
    )
    return Verdict(
        further and max(scores.values()) < 4,
        f"evaluations per independent draw: {'; '.join(ratios)}. Means and covariances are within "
        f"{max(scores.values()):.1f} standard errors of the expected ones ({worst}); without the Metropolis correction the narrow variance is too "
        f"large: {biases}.",
    )


EXPERIMENT = Experiment(
    name="kernel-trajectories",
    title="Where Markov kernels go",
    reproduces="thesis, Figures 2.1 and 2.2",
    claim="With a velocity, HMC and SGHMC move through a correlated target faster than random walk Metropolis and SGLD.",
    alt="Four panels, each with 200 evaluations of a kernel over the ellipses of a correlated Gaussian: random walk "
    "Metropolis makes a few jumps, SGLD creeps in a cloud of short steps; HMC and SGHMC go along the ellipse and back.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
