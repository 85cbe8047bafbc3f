"""Gaussian or Student-t errors? The model with the larger evidence, as JALA-EM knows it at the end of its climb.

    python -m experiments.latent_error_model                  # a few minutes on 2 cores
    python -m experiments.latent_error_model --quick --out somewhere

A linear regression with 8 latent weights x ~ N(0, e^{-θ₀} I) and d_y rows has errors of scale e^{θ₁}, Gaussian or Student-t
with 4 degrees of freedom. Data are drawn from each of the two; both are fitted by JALA-EM with the published settings (50
particles, 250 steps, h = 5·10⁻⁵, Adam with 5·10⁻³), with log Z at θ₀ exact for Gaussian errors and by importance sampling with
5,000 draws for the others. All repeats run at once. What is looked at:

  - how often the model that made the data has the larger evidence at the end;
  - for Gaussian errors: how far the log evidence of every θ on the way is from the exact one, and how far the last θ is from the
    exact maximiser, which L-BFGS finds.

The paper does not say here how θ₀ is chosen nor the degrees of freedom: these are ours.

Source: Cuin, Carbone, Akyildiz (2025), section 5.2 and appendix C.4.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import minimize

from evidentia.latent import JALAEM, LatentModel
from evidentia.latent.problem import Problem
from evidentia.latent.start import from_laplace

NUM_WEIGHTS, FREEDOM = 8, 4.0
THETA0 = np.array([0.5, 0.5], np.float32)  # the data have 0 and 0
METHOD = JALAEM(num_particles=50, step_size=5e-5, optimizer=optax.adam(5e-3))
NUM_STEPS = 250
PUBLISHED = {"gaussian": 1.0, "student": 0.99}


def log_errors(name, errors, scale):
    if name == "gaussian":
        return jax.scipy.stats.norm.logpdf(errors, 0, scale)
    return jax.scipy.stats.t.logpdf(errors, FREEDOM, 0, scale)


def log_joint(name, theta, x, data):
    log_prior = jax.scipy.stats.norm.logpdf(x, 0, jnp.exp(-0.5 * theta[0])).sum()
    return log_prior + log_errors(name, data["y"] - data["v"] @ x, jnp.exp(theta[1])).sum()


def sample_prior(key, theta, data):
    return jnp.exp(-0.5 * theta[0]) * jax.random.normal(key, (NUM_WEIGHTS,))


MODELS = {
    name: LatentModel(partial(log_joint, name), sample_prior=sample_prior, name=name) for name in PUBLISHED
}


def simulate(name, num_rows, repeats, seed):
    """Data of all repeats: v (repeats, rows, weights), y (repeats, rows)."""
    generator = np.random.default_rng([seed, num_rows, list(PUBLISHED).index(name)])
    v = generator.standard_normal((repeats, num_rows, NUM_WEIGHTS))
    x = generator.standard_normal((repeats, NUM_WEIGHTS, 1))
    shape = repeats, num_rows
    errors = generator.standard_normal(shape) if name == "gaussian" else generator.standard_t(FREEDOM, shape)
    return {"v": v.astype(np.float32), "y": ((v @ x)[..., 0] + errors).astype(np.float32)}


def exact_log_evidence(theta, data):
    """log Z(θ) with Gaussian errors, in float64: that of y ~ N(0, e^{-θ₀} V Vᵀ + e^{2θ₁} I), by 8 by 8 matrices."""
    v, y = (np.asarray(data[name], np.float64) for name in ("v", "y"))
    variance, precision = np.exp(2 * theta[1]), np.exp(theta[0])
    inner = v.T @ v / variance + precision * np.eye(NUM_WEIGHTS)
    projected = v.T @ y / variance
    quadratic = y @ y / variance - projected @ np.linalg.solve(inner, projected)
    log_det = np.linalg.slogdet(inner)[1] - NUM_WEIGHTS * theta[0] + 2 * len(y) * theta[1]
    return -0.5 * (quadratic + log_det + len(y) * np.log(2 * np.pi))


def maximiser(data):
    """θ at the maximum of the exact evidence with Gaussian errors."""
    return minimize(lambda theta: -exact_log_evidence(theta, data), np.zeros(2), method="L-BFGS-B").x


def climb(name, data, seed):
    """θ and log evidence at every step of all repeats, (repeats, steps + 1, …)."""
    model, repeats = MODELS[name], len(data["y"])
    keys = jax.random.split(jax.random.key(seed), repeats)
    starts = [
        from_laplace(
            model,
            jnp.asarray(THETA0),
            jax.tree.map(lambda leaf, i=i: leaf[i], data),
            METHOD.num_particles,
            keys[i],
        )
        for i in range(repeats)
    ]
    positions = jnp.stack([start.positions for start in starts])
    known = np.array([start.log_evidence for start in starts])
    if name == "gaussian":
        known = np.array(
            [
                exact_log_evidence(THETA0, jax.tree.map(lambda leaf, i=i: leaf[i], data))
                for i in range(repeats)
            ]
        )
    thetas, gains = jax.jit(jax.vmap(partial(_one, name)))(keys, positions, data)
    thetas = np.concatenate([np.broadcast_to(THETA0, (repeats, 1, 2)), thetas], axis=1)
    gains = np.cumsum(np.asarray(gains, np.float64), axis=1)
    return thetas, known[:, None] + np.concatenate([np.zeros((repeats, 1)), gains], axis=1)


def _one(name, key, positions, data):
    """One repeat: θ after each step, and by how much its log evidence grew."""
    problem = Problem(MODELS[name], jnp.zeros(NUM_WEIGHTS), data)

    def step(state, index):
        state, taken = METHOD.update(problem, jax.random.fold_in(key, index), state)
        return state, (state.theta, taken.log_evidence)

    state = METHOD.init(problem, key, jnp.asarray(THETA0), positions)
    return jax.lax.scan(step, state, jnp.arange(NUM_STEPS))[1]


def compare(truth, num_rows, repeats, seed=0):
    """The record of all repeats with data of one kind."""
    started = time.perf_counter()
    data = simulate(truth, num_rows, repeats, seed)
    climbs = {name: climb(name, data, seed) for name in MODELS}
    ends = {name: log_evidence[:, -1] for name, (_, log_evidence) in climbs.items()}
    other = next(name for name in MODELS if name != truth)
    record = {
        "truth": truth,
        "rows": num_rows,
        "repeats": repeats,
        "share_chosen": float(np.mean(ends[truth] > ends[other])),
        "published_share_chosen": PUBLISHED[truth],
        "log_bayes_factor": {
            "mean": float(np.mean(ends[truth] - ends[other])),
            "smallest": float(np.min(ends[truth] - ends[other])),
        },
    }
    if truth == "gaussian":
        record |= against_exact(climbs["gaussian"], data)
    return {**record, "seconds": round(time.perf_counter() - started, 1)}


def against_exact(climbed, data):
    """How far the log evidence is from the exact one on the way, and θ from the maximiser at its end."""
    thetas, log_evidence = climbed
    checked = range(0, NUM_STEPS + 1, 25)
    rows = [jax.tree.map(lambda leaf, i=i: leaf[i], data) for i in range(len(thetas))]
    exact = np.array([[exact_log_evidence(thetas[i, k], rows[i]) for k in checked] for i in range(len(rows))])
    errors = log_evidence[:, list(checked)] - exact
    apart = thetas[:, -1] - np.array([maximiser(row) for row in rows])
    return {
        "log_evidence_error": {
            "steps": list(checked),
            "mean": errors.mean(0).tolist(),
            "standard_deviation": errors.std(0, ddof=1).tolist(),
            "log_of_mean_ratio": np.log(np.mean(np.exp(errors), axis=0)).tolist(),
        },
        "theta_minus_maximiser": {
            "mean": apart.mean(0).tolist(),
            "standard_deviation": apart.std(0, ddof=1).tolist(),
            "largest": np.abs(apart).max(0).tolist(),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ten repeats with 500 rows: a minute")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sizes, repeats = ((500,), 10) if arguments.quick else ((500, 1500), 100)
    found = []
    for num_rows in sizes:
        for truth in MODELS:
            found.append(compare(truth, num_rows, repeats, arguments.seed))
            print(json.dumps(found[-1], indent=1), flush=True)
            (arguments.out / "latent_error_model.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
