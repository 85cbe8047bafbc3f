"""The bounds of JALA-EM's theory beside the errors they bound, where the constants are known.

    python -m experiments.jala_em_bounds --quick --out somewhere

The model is that of `latent_features`: six effects x_i ~ N(θ, 1), measured once, y_i ~ N(x_i, 1).
V(θ) = -log Z(θ) is quadratic, with curvature 3 = L = μ, and its minimiser is the mean of y.
JALA-EM climbs from θ₀ = 0 by plain gradient steps of size γ, with particles from the exact
posterior at θ₀. For several γ, Langevin steps h and numbers of particles N, the means over runs
are compared with

    Proposition 2:  E|∇V(θ_k) - g_k|² ≤ 4 C G² / N,
    Theorem 1:      E[V(θ_k) - V*] ≤ (1 - γμ/2)^k δ₀ + (8 L γ + 4) C G² / (μ N),
    Theorem 2:      E|θ_k - θ*|² ≤ 2/μ times the bound of Theorem 1,    δ₀ = V(θ₀) - V*.

Two constants are measured. G, the largest |∇_θ U|, is unbounded for Gaussians, against Assumption
1; in its place stands the largest value of any particle in any run of a setting. C, the supremum
of E[e^2A] / E[e^A]², is the largest over the steps of the mean over runs of N Σ W²; particles are
resampled below half of N.

Here ∇V is linear, so V - V* is 3/2 |θ - θ*|² and the two theorems say the same. The error after
convergence, averaged over the second half of the steps, should fall as 1/N, and be bounded without
small γ or h: the paper's difference from methods whose steps leave a bias.

Source: Cuin, Carbone, Akyildiz (2025), Proposition 2, Theorems 1 and 2, Eq. 23.
"""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

from evidentia.display.plots import COLORS, LINE_STYLES
from evidentia.latent import JALAEM
from evidentia.latent.problem import Problem
from experiments.execute import main
from experiments.experiment import Experiment, Verdict
from experiments.latent_features import DATA, MODEL, THETA0, Y

CURVATURE = len(Y) / 2  # of V: both L and μ
BEST = float(Y.mean())
GAMMAS = (1 / (4 * CURVATURE), 1 / (16 * CURVATURE))  # the theorems need at most 1/4L
STEP_SIZES = (0.2, 0.02)  # h; the posterior's curvature is 2, so 1 is the limit of stable steps
COUNTS = (10, 30, 100, 300, 1000)
NUM_STEPS, CHANCE = 400, 4.0  # standard errors by which a mean may exceed its bound


def start(key, count):
    """Exact draws of the posterior at θ₀, N((θ₀ + y) / 2, 1/2)."""
    return (THETA0 + Y) / 2 + jnp.sqrt(0.5) * jax.random.normal(key, (count, len(Y)))


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def climbs(key, count, gamma, step_size, runs):
    """θ, squared error of the gradient, N Σ W², largest |∇_θ U|; after each step of each run."""
    method = JALAEM(num_particles=count, step_size=step_size, optimizer=optax.sgd(gamma))
    problem = Problem(MODEL, jnp.zeros(len(Y)), DATA)

    def one(key):
        def step(state, index):
            state, _ = method.update(problem, jax.random.fold_in(key, index), state)
            # `by_theta` is the gradient of the log joint, so that of U has the other sign.
            error = problem.mean(state.by_theta, state.log_weights) - CURVATURE * (BEST - state.theta)
            excess = count * jnp.sum(jnp.exp(2 * state.log_weights))
            return state, (state.theta, error**2, excess, jnp.abs(state.by_theta).max())

        first = method.init(problem, key, jnp.float32(THETA0), start(key, count))
        return jax.lax.scan(step, first, jnp.arange(NUM_STEPS))[1]

    return jax.lax.map(one, jax.random.split(key, runs))


def bound(gamma, constants):
    """Theorem 2's bound on E|θ_k - θ*|², for k = 1, …; `constants` is C G² / N."""
    begin = 0.5 * CURVATURE * (THETA0 - BEST) ** 2
    decay = (1 - gamma * CURVATURE / 2) ** np.arange(1, NUM_STEPS + 1)
    return 2 / CURVATURE * (decay * begin + (8 * CURVATURE * gamma + 4) * constants / CURVATURE)


def measure(gamma, step_size, count, runs, seed):
    """The record of one setting."""
    key = jax.random.fold_in(jax.random.key(seed), count)
    theta, gradient, excess, largest = (
        np.asarray(found, np.float64) for found in climbs(key, count, gamma, step_size, runs)
    )
    distance = (theta - BEST) ** 2
    constants = excess.mean(0).max() * largest.max() ** 2 / count
    limit = bound(gamma, constants)
    settled = distance[:, NUM_STEPS // 2 :].mean(1)
    shown = np.unique(np.geomspace(1, NUM_STEPS, 40).round().astype(int))
    above = (distance.mean(0) - CHANCE * distance.std(0, ddof=1) / np.sqrt(runs)) / limit
    return {
        "gamma": gamma,
        "step_size": step_size,
        "particles": count,
        "runs": runs,
        "excess": float(excess.mean(0).max()),
        "largest_gradient": float(largest.max()),
        "gradient_error_over_bound": float(gradient.mean(0).max() / (4 * constants)),
        "distance_over_bound": float(above.max()),
        "settled": [float(settled.mean()), float(settled.std(ddof=1) / np.sqrt(runs))],
        "settled_bound": float(limit[-1]),
        "steps": shown.tolist(),
        "distance": distance.mean(0)[shown - 1].tolist(),
        "bound": limit[shown - 1].tolist(),
    }


def run(settings):
    counts, runs = (COUNTS[::4], 20) if settings.quick else (COUNTS, 300)
    places = itertools.product(GAMMAS, STEP_SIZES, counts)
    return {
        "settings": [
            settings.remember(f"{place}", partial(measure, *place, runs, settings.seed)) for place in places
        ]
    }


def slopes(record):
    """Slope of the log of the settled error against log N, by γ and h, with its standard error."""
    found = {}
    for gamma, step_size in itertools.product(GAMMAS, STEP_SIZES):
        rows = [r for r in record["settings"] if (r["gamma"], r["step_size"]) == (gamma, step_size)]
        log_count = np.log([row["particles"] for row in rows])
        mean, error = np.array([row["settled"] for row in rows]).T
        weight = log_count - log_count.mean()
        share = weight / (weight @ weight)
        found[gamma, step_size] = share @ np.log(mean), np.sqrt(share**2 @ (error / mean) ** 2)
    return found


def judge(record):
    """Agree if no mean is above its bound and each settled distance falls as 1/N.

    The power may be a tenth off, and by chance three standard errors more.
    """
    rows = record["settings"]
    gradient = max(row["gradient_error_over_bound"] for row in rows)
    distance = max(row["distance_over_bound"] for row in rows)
    found = slopes(record)
    falls = all(abs(slope + 1) < 0.1 + 3 * error for slope, error in found.values())
    loose = [row["settled_bound"] / row["settled"][0] for row in rows]
    shown = ", ".join(f"{slope:.2f} ± {error:.2f}" for slope, error in found.values())
    floors = [row["settled"][0] * row["particles"] for row in rows]
    return Verdict(
        bool(gradient <= 1 and distance <= 1 and falls),
        f"The largest mean squared error of the gradient is {gradient:.2g} of its bound, the largest squared distance of θ {distance:.2g} "
        f"of its own. The settled distance falls as N to the power {shown} for the settings of γ and h; times N it is between "
        f"{min(floors):.2g} and {max(floors):.2g}, so neither γ nor h need be small. The bounds are {min(loose):.0f} to {max(loose):.0f} "
        "times as large as the settled distance.",
    )


def table(record):
    return [
        {
            "γ, h, particles": f"{row['gamma']:.3f}, {row['step_size']}, {row['particles']:,}",
            "E|θ − θ*|²": "{:.2g} ± {:.1g}".format(*row["settled"]),
            "bound": row["settled_bound"],
            "gradient's error / bound": row["gradient_error_over_bound"],
            "C": row["excess"],
        }
        for row in record["settings"]
    ]


def draw(record):
    figure = Figure(figsize=(9, 4), layout="constrained")
    way, settled = figure.subplots(1, 2)
    first = [r for r in record["settings"] if (r["gamma"], r["step_size"]) == (GAMMAS[0], STEP_SIZES[0])]
    for row, color in zip(first[::2], COLORS, strict=False):
        way.plot(row["steps"], row["distance"], color=color, label=f"{row['particles']:,} particles")
        way.plot(row["steps"], row["bound"], color=color, linestyle="--")
    way.set(xscale="log", yscale="log", xlabel="step", ylabel="mean squared distance of θ (dashed: bound)")
    way.legend(frameon=False)
    places = itertools.product(GAMMAS, STEP_SIZES)
    for (gamma, step_size), color, style in zip(places, COLORS, LINE_STYLES, strict=False):
        rows = [r for r in record["settings"] if (r["gamma"], r["step_size"]) == (gamma, step_size)]
        count = [row["particles"] for row in rows]
        look = {"color": color, "linestyle": style, "marker": "o", "markersize": 3.5}
        label = f"γ = {gamma:.3f}, h = {step_size}"
        settled.plot(count, [row["settled"][0] for row in rows], label=label, **look)
    settled.plot(count, [row["settled_bound"] for row in rows], color="black", linestyle="--", label="bound")
    settled.set(xscale="log", yscale="log", xlabel="particles", ylabel="the same after convergence")
    settled.set_ylim(1e-6)
    settled.legend(frameon=False, loc="lower left", ncols=2)
    for axes in (way, settled):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


EXPERIMENT = Experiment(
    name="jala-em-bounds",
    title="The bounds of JALA-EM's theory",
    reproduces="JALA-EM paper, Proposition 2, Theorems 1 and 2",
    claim="The mean squared error of the gradient is at most 4 C G² / N, and the squared distance to the maximiser decays geometrically to "
    "a floor of order 1/N that needs no small steps.",
    alt="Left: the mean squared distance of θ from the maximiser against the step, with its bound, for three numbers of particles. Right: "
    "the distance after convergence against the number of particles, with the bound.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
