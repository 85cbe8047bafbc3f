"""What JALA-EM's paper suggests and does not try, where the evidence is exact.

    python -m experiments.jala_em_outlook --out somewhere         # a minute or two

A linear regression with 8 or 100 latent weights, 500 rows and θ = (log σ², log α), fitted as in
section 5.2 of the paper: 50 particles that start as exact posterior draws, θ from (1, 1), 250
steps of Adam with 5·10⁻³. Particles are resampled below half of their number. The paper's outlook
(and Remark 4) names

  - a Metropolis correction of the particles' steps: `JALAEM(metropolis=True)`;
  - tempering of the weights: here W^½ in the gradient of θ;
  - clipping of the weights: here at most 1/√N in the gradient of θ (Ionides 2008);
  - a gradient-free step of θ: here simultaneous perturbation (Spall 1992), two values for a step;
  - numbers of particles that follow C = N Σ W²: here the mean of C over the steps over its
    maximum, the share of the particles that such a number needs.

Each is compared with JALA-EM for steps of h L = 0.1, 0.5 and 1, with L the largest curvature at
the maximiser (they are stable below 2): the distance of the last θ from that of a climb with exact
gradients, and the error of the log evidence at its own last θ. The weights of the log evidence are
never altered.

Source: Cuin, Carbone, Akyildiz (2025), section 6 and Remark 4.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

from evidentia.display.plots import COLORS, LINE_STYLES
from evidentia.latent import JALAEM, LatentModel
from evidentia.latent.problem import Problem
from experiments.execute import main
from experiments.experiment import Experiment, Verdict

COUNTS, NUM_ROWS, NUM_STEPS, WIDTH = (8, 100), 500, 250, 0.1  # WIDTH: of the perturbation of θ
LENGTHS = (0.1, 0.5, 1.0)  # h L
THETA0 = np.array([1.0, 1.0])
METHOD = JALAEM(num_particles=50, optimizer=optax.adam(5e-3))


class Tempered(Problem):
    """W^½ in the gradient of θ."""

    def mean(self, gradients, log_weights):
        return super().mean(gradients, jax.nn.log_softmax(0.5 * log_weights))


class Clipped(Problem):
    """Weights of at most 1/√N in the gradient of θ."""

    def mean(self, gradients, log_weights):
        most = -0.5 * jnp.log(len(log_weights))
        return super().mean(gradients, jax.nn.log_softmax(jnp.minimum(log_weights, most)))


class GradientFree(Problem):
    """The gradient of θ from two values of the log joint, in a random direction."""

    def look(self, theta, positions, key):
        at, _ = super().look(theta, positions, key)
        way = WIDTH * jax.random.rademacher(key, theta.shape, theta.dtype)
        up, down = (jax.vmap(partial(self.log_joint, theta + s * way, key=key))(positions) for s in (1, -1))
        return at, (up - down)[:, None] / (2 * way)


WAYS = {
    "as published": (METHOD, Problem),
    "Metropolis": (replace(METHOD, metropolis=True), Problem),
    "tempered": (METHOD, Tempered),
    "clipped": (METHOD, Clipped),
    "gradient-free": (METHOD, GradientFree),
}


def simulate(count, seed):
    """Features and responses; σ = α = 1."""
    generator = np.random.default_rng([seed, count])
    v = generator.standard_normal((NUM_ROWS, count))
    return v, v @ generator.standard_normal(count) + generator.standard_normal(NUM_ROWS)


def summarise(v, y):
    """A QR decomposition of the features, so that the sum of squares takes no rows."""
    q, factor = np.linalg.qr(v)
    return {"factor": factor, "rotated": q.T @ y, "left": y @ y - np.sum((q.T @ y) ** 2)}


def log_joint(theta, x, data):
    squares = data["left"] + jnp.sum((data["rotated"] - data["factor"] @ x) ** 2)
    log_rows = -0.5 * (squares * jnp.exp(-theta[0]) + NUM_ROWS * (theta[0] + jnp.log(2 * jnp.pi)))
    return log_rows - 0.5 * (jnp.exp(theta[1]) * x @ x - len(x) * (theta[1] - jnp.log(2 * jnp.pi)))


def posterior(theta, v, y):
    """Mean and precision of the weights given θ."""
    precision = v.T @ v / np.exp(theta[0]) + np.exp(theta[1]) * np.eye(v.shape[1])
    return np.linalg.solve(precision, v.T @ y / np.exp(theta[0])), precision


def exact(theta, v, y):
    """log Z(θ), and its gradient by Fisher's identity, in float64."""
    (mean, precision), (s, a) = posterior(theta, v, y), np.exp(theta)
    covariance, left = np.linalg.inv(precision), y - v @ mean
    squares = left @ left + np.sum((v @ covariance) * v)
    by_theta = 0.5 * np.array([squares / s - len(y), len(mean) - a * (mean @ mean + np.trace(covariance))])
    quadratic = y @ y / s - mean @ precision @ mean
    log_det = np.linalg.slogdet(precision)[1] - len(mean) * theta[1] + len(y) * theta[0]
    return -0.5 * (quadratic + log_det + len(y) * np.log(2 * np.pi)), by_theta


def exact_climb(v, y):
    """The last θ of a climb with exact gradients."""
    theta, state = jnp.asarray(THETA0), METHOD.transformation.init(jnp.asarray(THETA0))
    for _ in range(NUM_STEPS):
        step, state = METHOD.transformation.update(jnp.asarray(-exact(np.asarray(theta), v, y)[1]), state)
        theta = theta + step
    return np.asarray(theta, np.float64)


@partial(jax.jit, static_argnums=0)
def climbs(way, keys, positions, step_size, data):
    """θ, gain in log evidence and ESS after each step of each repeat."""
    method, kind = WAYS[way]
    problem = kind(LatentModel(log_joint), positions[0, 0], data)

    def one(key, positions):
        def step(state, index):
            state, taken = method.update(problem, jax.random.fold_in(key, index), state)
            return state, (state.theta, taken.log_evidence, taken.ess)

        state = method.init(problem, key, jnp.asarray(THETA0, jnp.float32), positions)
        return jax.lax.scan(step, state._replace(step_size=step_size), jnp.arange(NUM_STEPS))[1]

    return jax.vmap(one)(keys, positions)


def measure(count, repeats, seed):
    """The rows of one number of weights."""
    v, y = simulate(count, seed)
    mean, precision = posterior(THETA0, v, y)
    noise = np.random.default_rng([seed, 1]).standard_normal((repeats, METHOD.num_particles, count))
    positions = mean + np.linalg.solve(np.linalg.cholesky(precision).T, noise[..., None])[..., 0]
    data, positions = jax.tree.map(partial(jnp.asarray, dtype=jnp.float32), (summarise(v, y), positions))
    end, begin = exact_climb(v, y), exact(THETA0, v, y)[0]
    curvature = np.linalg.eigvalsh(posterior(end, v, y)[1])[-1]
    keys, rows = jax.random.split(jax.random.key(seed), repeats), []
    for way in WAYS:
        for length in LENGTHS:
            size = jnp.float32(length / curvature)
            theta, gained, ess = (
                np.asarray(found, np.float64) for found in climbs(way, keys, positions, size, data)
            )
            last = theta[:, -1]
            known = np.array([exact(one, v, y)[0] for one in last])
            error = begin + gained.sum(1) - known
            rows.append(
                {
                    "weights": count,
                    "way": way,
                    "length": length,
                    "repeats": repeats,
                    "theta_off": np.sqrt(np.mean((last - end) ** 2, axis=0)).tolist(),
                    "log_evidence_error": [float(error.mean()), float(error.std(ddof=1))],
                    "smallest_ess": float(ess.min(1).mean()),
                    "share_of_particles": float(np.mean((1 / ess).mean(1) / (1 / ess).max(1))),
                }
            )
    return rows


def run(settings):
    counts, repeats = (COUNTS[:1], 10) if settings.quick else (COUNTS, 20)
    return {
        "rows": [
            row
            for count in counts
            for row in settings.remember(f"{count}", partial(measure, count, repeats, settings.seed))
        ]
    }


def of(record, way, quantity):
    """A quantity of a way by number of weights and length, in the order of the record."""
    return np.array([row[quantity] for row in record["rows"] if row["way"] == way])


def judge(record):
    """The paper claims nothing here. Agree if the Metropolis correction helps at long steps.

    That is, the log evidence scatters less with the two longer steps, for all numbers of weights.
    """
    scatter = {way: of(record, way, "log_evidence_error")[:, 1] for way in WAYS}
    off = {way: of(record, way, "theta_off") for way in WAYS}
    is_long = of(record, "as published", "length") > LENGTHS[0]
    helps = bool(np.all((scatter["Metropolis"] < scatter["as published"])[is_long]))
    base = off["as published"]
    ratios = {way: float(np.exp(np.mean(np.log(off[way] / base)))) for way in WAYS}
    best = {way: scatter[way].reshape(-1, len(LENGTHS)).min(1) for way in ("as published", "Metropolis")}
    saved = of(record, "as published", "share_of_particles")
    return Verdict(
        helps,
        f"At the best of {len(LENGTHS)} step sizes the log evidence scatters by {_listed(best['Metropolis'])} nats with the Metropolis "
        f"correction and by {_listed(best['as published'])} without (two gradients against one). The last θ is "
        f"{ratios['tempered']:.2f} times as far off with tempered weights, {ratios['clipped']:.2f} times with clipped ones, and "
        f"{ratios['gradient-free']:.0f} times with gradient-free steps. Numbers of particles that follow C would need "
        f"{saved.min():.0%} to {saved.max():.0%} of the particles.",
    )


def _listed(values):
    return ", ".join(f"{value:.2g}" for value in values)


def table(record):
    return [
        {
            "weights, way": f"{row['weights']}, {row['way']}",
            "h L": row["length"],
            "log Z error (nats)": "{:+.3f} ± {:.3f}".format(*row["log_evidence_error"]).replace("-", "−"),
            "θ off, rms": ", ".join(f"{value:.4f}" for value in row["theta_off"]),
            "smallest ESS": row["smallest_ess"],
        }
        for row in record["rows"]
    ]


def draw(record):
    counts = sorted({row["weights"] for row in record["rows"]})
    figure = Figure(figsize=(4.2 * len(counts), 5.6), layout="constrained")
    panels = figure.subplots(2, len(counts), sharex=True, squeeze=False)
    for column, count in zip(panels.T, counts, strict=True):
        for (way, color), style in zip(zip(WAYS, COLORS, strict=False), LINE_STYLES * 2, strict=False):
            rows = [row for row in record["rows"] if (row["weights"], row["way"]) == (count, way)]
            at, look = [row["length"] for row in rows], {"color": color, "linestyle": style, "marker": "o"}
            column[0].plot(at, [np.linalg.norm(row["theta_off"]) for row in rows], label=way, **look)
            column[1].plot(at, [row["log_evidence_error"][1] for row in rows], **look)
        column[0].set_title(f"{count} weights", fontsize="medium")
        column[1].set_xlabel("step size, h L")
        for axes in column:
            axes.set(xscale="log", yscale="log")
            axes.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("distance of θ")
    panels[1, 0].set_ylabel("scatter of log Z (nats)")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    return figure


EXPERIMENT = Experiment(
    name="jala-em-outlook",
    title="What JALA-EM's paper suggests",
    reproduces="JALA-EM paper, section 6 and Remark 4",
    claim="Suggested, not tried: a Metropolis correction of the particles' steps, tempered or clipped weights, a gradient-free step of θ, "
    "and numbers of particles that follow the weights.",
    alt="Above, the distance of θ from a climb with exact gradients against the step size; below, the scatter of the log evidence; a "
    "column for 8 and one for 100 latent weights, with a line for each way.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
