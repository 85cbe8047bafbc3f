"""What a verdict on JALA-EM's log evidence is worth: fits of models with exact answers.

    python benchmarks/latent_verdicts.py                      # 8 minutes of one core
    python benchmarks/latent_verdicts.py --minutes 2 --seed 7

Each fit has data, a θ₀ and a method drawn by its number; the sizes come from a small palette, so
that fits share their compiled programs. An error is the distance of log Z at the last θ from its
exact value there. The summary goes to benchmarks/results/latent-verdicts.json.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import gammaln
from machine import describe_machine
from numpyro import distributions as dist
from scipy.special import gammaln as log_gamma
from scipy.stats import multivariate_normal, norm

import evidentia as ev
from evidentia.latent import JALAEM, LatentModel

FOLDER = Path(__file__).parent
TOLERANCE, NUM_ERRORS = 0.1, 4.0  # an error within either is right


class Drawn(NamedTuple):
    """Data, a θ₀, and the exact log Z as a function of θ; particles if the model has no prior."""

    data: Any
    theta0: Any
    exact: Callable[[Any], float]
    more: tuple[tuple[str, Any], ...] = ()


class Family(NamedTuple):
    """A model with exact evidences; `draw` gives one problem of it from a generator."""

    model: LatentModel
    draw: Callable[[np.random.Generator], Drawn]
    methods: dict[str, JALAEM]
    num_steps: int = 200


def offset(generator):
    """A θ₀ is off by about a half, and in one fit of four by about two."""
    return generator.choice([0.5, 2.0], p=[0.75, 0.25]) * generator.standard_normal()


def effects(count):
    """x_i ~ N(m, e^{2s}), y_i ~ N(x_i, 1): y_i ~ N(m, 1 + e^{2s})."""

    def log_joint(theta, x, data):
        own = dist.Normal(theta[0], jnp.exp(theta[1])).log_prob(x).sum()
        return own + dist.Normal(x, 1.0).log_prob(data).sum()

    def sample_prior(key, theta, data):
        return theta[0] + jnp.exp(theta[1]) * jax.random.normal(key, data.shape)

    def draw(generator):
        mean, log_width = generator.normal(0, 2), generator.normal(0, 0.5)
        y = generator.normal(mean, np.hypot(1, np.exp(log_width)), count).astype(np.float32)
        theta0 = np.array([mean + offset(generator), log_width + 0.5 * offset(generator)], np.float32)
        return Drawn(y, theta0, lambda theta: norm.logpdf(y, theta[0], np.hypot(1, np.exp(theta[1]))).sum())

    return LatentModel(log_joint, sample_prior=sample_prior, name=f"effects of {count} groups"), draw


def counts(count):
    """Rates e^x ~ Gamma(a, b), y ~ Poisson(e^x): negative binomial; θ = (log a, log b)."""

    def log_joint(theta, x, data):
        a, b = jnp.exp(theta)
        prior = a * theta[1] - gammaln(a) + a * x - b * jnp.exp(x)
        return jnp.sum(prior + data * x - jnp.exp(x) - gammaln(data + 1))

    def sample_prior(key, theta, data):
        return jnp.log(jax.random.gamma(key, jnp.exp(theta[0]), data.shape)) - theta[1]

    def draw(generator):
        shape, rate = np.exp(generator.normal(1.0, 0.4)), np.exp(generator.normal(-1.0, 0.5))
        y = generator.poisson(generator.gamma(shape, 1 / rate, count)).astype(np.float32)
        theta0 = np.log([shape, rate]) + 0.5 * np.array([offset(generator), offset(generator)])

        def exact(theta):
            a, b = np.exp(theta)
            return np.sum(
                log_gamma(a + y) - log_gamma(a) - log_gamma(y + 1) + a * np.log(b) - (a + y) * np.log(b + 1)
            )

        return Drawn(y, theta0.astype(np.float32), exact)

    return LatentModel(log_joint, sample_prior=sample_prior, name=f"{count} counts"), draw


def regression(rows, features):
    """Weights x ~ N(0, e^{2w}), y ~ N(A x, e^{2s}); θ = (w, s)."""

    def log_joint(theta, x, data):
        own = dist.Normal(0.0, jnp.exp(theta[0])).log_prob(x).sum()
        return own + dist.Normal(data["a"] @ x, jnp.exp(theta[1])).log_prob(data["y"]).sum()

    def sample_prior(key, theta, data):
        return jnp.exp(theta[0]) * jax.random.normal(key, (features,))

    def draw(generator):
        a = generator.standard_normal((rows, features)).astype(np.float32)
        truth = generator.normal(0, 0.4, 2)
        x = np.exp(truth[0]) * generator.standard_normal(features)
        y = (a @ x + np.exp(truth[1]) * generator.standard_normal(rows)).astype(np.float32)
        theta0 = (truth + 0.5 * np.array([offset(generator), offset(generator)])).astype(np.float32)

        def exact(theta):
            covariance = np.exp(2 * theta[0]) * a.astype(float) @ a.T + np.exp(2 * theta[1]) * np.eye(rows)
            return multivariate_normal.logpdf(y.astype(float), np.zeros(rows), covariance)

        return Drawn({"a": a, "y": y}, theta0, exact)

    return LatentModel(log_joint, sample_prior=sample_prior, name=f"regression with {features} weights"), draw


def factors(rows, size):
    """One factor: y_i ~ N(w x_i, e^{2s} I), x_i ~ N(0, 1); θ is the loadings and s."""

    def log_joint(theta, x, data):
        noise = dist.Normal(x[:, None] * theta["loadings"], jnp.exp(theta["log_noise"]))
        return noise.log_prob(data).sum() + dist.Normal(0.0, 1.0).log_prob(x).sum()

    def sample_prior(key, theta, data):
        return jax.random.normal(key, (rows,))

    def draw(generator):
        loadings = generator.standard_normal(size)
        y = np.outer(generator.standard_normal(rows), loadings) + 0.7 * generator.standard_normal(
            (rows, size)
        )
        start = loadings + 0.3 * offset(generator) * generator.standard_normal(size)
        theta0 = {"loadings": start.astype(np.float32), "log_noise": np.float32(0.3 * offset(generator))}

        def exact(theta):
            w = np.asarray(theta["loadings"], float)
            covariance = np.outer(w, w) + np.exp(2 * float(theta["log_noise"])) * np.eye(size)
            return multivariate_normal.logpdf(y.astype(np.float32), np.zeros(size), covariance).sum()

        return Drawn(y.astype(np.float32), theta0, exact)

    return LatentModel(log_joint, sample_prior=sample_prior, name=f"a factor of {rows} rows"), draw


def squares(count):
    """y_i ~ N(x_i², 1), x_i ~ N(0, e^{2s}): two modes for each y_i that is large; θ = s."""
    grid = np.linspace(-30, 30, 40_001)

    def log_joint(theta, x, data):
        return (
            dist.Normal(0.0, jnp.exp(theta)).log_prob(x).sum() + dist.Normal(x**2, 1.0).log_prob(data).sum()
        )

    def sample_prior(key, theta, data):
        return jnp.exp(theta) * jax.random.normal(key, data.shape)

    def draw(generator):
        y = (generator.normal(0, 1.5, count) ** 2 + generator.standard_normal(count)).astype(np.float32)

        def exact(theta):
            densities = norm.pdf(grid, 0, np.exp(float(theta))) * norm.pdf(y[:, None], grid**2, 1)
            return np.log(densities.sum(1) * (grid[1] - grid[0])).sum()

        return Drawn(y, np.float32(0.4 + 0.3 * offset(generator)), exact)

    return LatentModel(log_joint, sample_prior=sample_prior, name=f"{count} squares"), draw


def polynomials(order, rows, log_variance0, where, num_particles=50):
    """The paper's polynomials (section 5.3), and particles from the posterior given θ₀.

    θ = (log σ², log α): y ~ N(Σ x_j tʲ, σ²), x_j ~ N(0, 1/α), t uniform on ±2.5.
    """
    theta0 = np.array([log_variance0, 1.0], np.float32)

    def log_joint(theta, x, data):
        own = dist.Normal(0.0, jnp.exp(-0.5 * theta[1])).log_prob(x).sum()
        return own + dist.Normal(data["powers"] @ x, jnp.exp(0.5 * theta[0])).log_prob(data["y"]).sum()

    def draw(generator):
        powers = generator.uniform(-2.5, 2.5, rows)[:, None] ** np.arange(order + 1)
        y = powers @ generator.standard_normal(order + 1) + 7.5 * generator.standard_normal(rows)

        def exact(theta):
            noise, precision = np.exp(theta[0]), np.exp(theta[1])
            a = precision * np.eye(order + 1) + powers.T @ powers / noise
            mean = np.linalg.solve(a, powers.T @ y / noise)
            squares = np.sum((y - powers @ mean) ** 2) / noise + precision * mean @ mean
            log_det = (
                np.linalg.slogdet(a)[1] + rows * np.log(2 * np.pi * noise) - (order + 1) * np.log(precision)
            )
            return -0.5 * (squares + log_det)

        noise, precision = np.exp(theta0.astype(float))
        a = precision * np.eye(order + 1) + powers.T @ powers / noise
        root = np.linalg.cholesky(np.linalg.inv(a))
        start = np.linalg.solve(a, powers.T @ y / noise)
        start = start + generator.standard_normal((num_particles, order + 1)) @ root.T
        data = {"powers": powers.astype(np.float32), "y": y.astype(np.float32)}
        known = (
            ("particles0", start.astype(np.float32)),
            ("log_evidence0", float(exact(theta0.astype(float)))),
        )
        return Drawn(data, theta0, exact, known)

    return LatentModel(log_joint, name=f"polynomial of order {order}{where}"), draw


def methods(step_size, rate, **more):
    """A calm method, one with few particles, and one whose θ moves fast."""
    return {
        "calm": JALAEM(num_particles=200, step_size=step_size, optimizer=optax.adam(rate)),
        "few particles": JALAEM(num_particles=30, step_size=step_size, optimizer=optax.adam(rate)),
        "fast": JALAEM(num_particles=100, step_size=step_size, optimizer=optax.adam(5 * rate)),
    } | more


def families() -> list[Family]:
    """All families; made once, as a method and a model are parts of a compiled program."""
    shared = {
        "few particles": JALAEM(
            num_particles=50, step_size=1e-6, optimizer=optax.adam(5e-3), ess_threshold=0.0
        )
    }
    tame = {"target ESS": JALAEM(num_particles=200, step_size=0.2, optimizer=optax.adam(0.1), target_ess=0.9)}
    return [
        Family(*effects(6), methods(0.1, 0.02, **tame)),
        Family(*effects(40), methods(0.1, 0.02, **tame)),
        Family(*counts(8), methods(0.02, 0.02)),
        Family(*counts(30), methods(0.02, 0.02)),
        Family(*regression(50, 5), methods(0.002, 0.01)),
        Family(*regression(100, 20), methods(0.002, 0.01)),
        Family(*factors(40, 5), methods(0.02, 0.01)),
        Family(*squares(3), methods(0.01, 0.02)),
        *[
            Family(*polynomials(order, 500, start, where), shared, num_steps=400)
            for start, where in ((2 * np.log(7.5) + 1, ""), (1.0, ", theta0 as printed"))
            for order in range(3, 9)
        ],
    ]


def one_fit(family: Family, name: str, seed: list[int]) -> dict[str, Any]:
    """The record of one fit."""
    drawn = family.draw(np.random.default_rng(seed))
    settings: dict[str, Any] = {"num_steps": family.num_steps, "seed": seed[-1]} | dict(drawn.more)
    record = {"family": family.model.name, "method": name, "seed": seed}
    try:
        fit = family.methods[name].fit(family.model, drawn.theta0, data=drawn.data, **settings)
    except ev.errors.EstimationError as error:
        return record | {"verdict": "error", "signs": [str(error)[:80]]}
    theta = jax.tree.map(lambda leaf: np.asarray(leaf, float), fit.theta)
    return record | {
        "verdict": fit.verdict.word,
        "signs": list(fit.signs),
        "error": fit.log_evidence - float(drawn.exact(theta)),
        "standard_error": fit.standard_error,
        "diagnostics": dict(fit.diagnostics),
        "seconds": fit.seconds,
    }


def is_wrong(record: dict[str, Any]) -> bool:
    """Whether the error is beyond the tolerance and four standard errors, as stated."""
    bound = max(TOLERANCE, NUM_ERRORS * record["standard_error"])
    return not abs(record["error"]) <= bound


def is_right(record: dict[str, Any]) -> bool:
    """Whether the error is within the tolerance: what a calm fit should say without a sign."""
    return record["verdict"] != "error" and abs(record["error"]) <= TOLERANCE


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over some fits, and the signs of those that warned although they were right."""
    trusted = [record for record in records if record["verdict"] == "trusted"]
    right = [record for record in records if is_right(record)]
    alarms = [record for record in right if record["verdict"] != "trusted"]
    finished = [record for record in records if record["verdict"] != "error"]
    return {
        "fits": len(records),
        "refused": len(records) - len(finished),
        "trusted": len(trusted),
        "trusted_and_wrong": sum(map(is_wrong, trusted)),
        "largest_trusted_error": max((abs(record["error"]) for record in trusted), default=0.0),
        "largest_error": max((abs(record["error"]) for record in finished), default=0.0),
        "right": len(right),
        "false_alarms": len(alarms),
        "signs_of_false_alarms": dict(Counter(sign for record in alarms for sign in record["signs"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1000, help="not used while the code was written")
    parser.add_argument("--records", type=Path, help="every fit, one JSON object a line")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ev.EvidenceWarning)
    every = [(family, name) for family in families() for name in family.methods]
    records, ends = [], time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < ends:
        family, name = every[len(records) % len(every)]
        records.append(one_fit(family, name, [arguments.seed, len(records)]))
    if arguments.records:
        arguments.records.write_text("".join(json.dumps(record) + "\n" for record in records))
    names = dict.fromkeys(record["family"] for record in records)
    rows = {name: summary([record for record in records if record["family"] == name]) for name in names}
    report = {
        "machine": describe_machine(),
        "seed": arguments.seed,
        "all": summary(records),
        "families": rows,
    }
    print(json.dumps({"all": report["all"]} | rows, indent=1))
    (FOLDER / "results" / "latent-verdicts.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
