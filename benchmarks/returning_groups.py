"""`Online` where rows of old groups keep arriving, against exact values (streaming.md).

    python benchmarks/returning_groups.py normal --seeds 20
    python benchmarks/returning_groups.py bernoulli --seeds 20

The mean of all groups and their deviation are unknown. Given the deviation, normal rows have a
normal marginal likelihood; binary ones have an integral over each group, and one over the mean.
"""

import argparse
import time

import numpy as np
import numpyro
import numpyro.distributions as dist

import evidentia as ev

GROUPS, ROWS, BATCH = 12, 300, 60
NOISE, SLOPES = 0.7, 0.5  # deviations
MEAN = {"normal": 2.0, "bernoulli": 1.5}  # the deviation of its prior


def normal(group, x, y):
    """Rows of a line for each group."""
    mean = numpyro.sample("mean", dist.Normal(0, MEAN["normal"]))
    deviation = numpyro.sample("deviation", dist.HalfNormal(1))
    with numpyro.plate("groups", GROUPS):
        level = numpyro.sample("level", dist.Normal(mean, deviation))
        slope = numpyro.sample("slope", dist.Normal(0, SLOPES))
    numpyro.sample("y", dist.Normal(level[group] + slope[group] * x, NOISE), obs=y)


def bernoulli(group, y):
    """Coins of each group."""
    mean = numpyro.sample("mean", dist.Normal(0, MEAN["bernoulli"]))
    deviation = numpyro.sample("deviation", dist.HalfNormal(1))
    with numpyro.plate("groups", GROUPS):
        level = numpyro.sample("level", dist.Normal(mean, deviation))
    numpyro.sample("y", dist.Bernoulli(logits=level[group]), obs=y)


def simulated(kind, seed):
    """Rows of random groups."""
    rng = np.random.default_rng(seed)
    group, deviation = rng.integers(0, GROUPS, ROWS), abs(rng.normal())
    level = rng.normal() + deviation * rng.normal(size=GROUPS)
    if kind == "bernoulli":
        return {"group": group, "y": (rng.random(ROWS) < 1 / (1 + np.exp(-level[group]))).astype(int)}
    x, slope = rng.normal(size=ROWS), SLOPES * rng.normal(size=GROUPS)
    y = level[group] + slope[group] * x + NOISE * rng.normal(size=ROWS)
    return {"group": group, "x": x.astype(np.float32), "y": y.astype(np.float32)}


def exact(kind, data):
    """The log evidence, by the trapezoidal rule over the deviation of groups."""
    deviations = np.linspace(1e-4, 6.0, 2401 if kind == "normal" else 241)
    log_prior = np.log(2) - 0.5 * deviations**2 - 0.5 * np.log(2 * np.pi)
    given = {"normal": normal_given, "bernoulli": bernoulli_given}[kind]
    values = np.array([given(data, deviation) for deviation in deviations])
    return log_trapezoid(values + log_prior, deviations)


def normal_given(data, deviation):
    """The log density of all rows, given the deviation of levels."""
    log_density, precision, shift = 0.0, MEAN["normal"] ** -2, 0.0
    for group in range(GROUPS):
        x, y = (data[name][data["group"] == group].astype(float) for name in "xy")
        covariance = NOISE**2 * np.eye(len(x)) + SLOPES**2 * np.outer(x, x) + deviation**2
        weights = np.linalg.solve(covariance, np.ones(len(x)))
        squares = y @ np.linalg.solve(covariance, y)
        log_density -= 0.5 * (len(x) * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + squares)
        precision, shift = precision + weights.sum(), shift + weights @ y
    return log_density - 0.5 * np.log(precision * MEAN["normal"] ** 2) + 0.5 * shift**2 / precision


def bernoulli_given(data, deviation):
    """The log probability of all coins, given the deviation of levels."""
    means = np.linspace(-8.0, 8.0, 321)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    eta, log_weights = means[:, None] + deviation * nodes, np.log(weights) - 0.5 * np.log(2 * np.pi)
    counts, heads = (np.bincount(data["group"], each, GROUPS) for each in (None, data["y"]))
    total = -0.5 * (means / MEAN["bernoulli"]) ** 2 - 0.5 * np.log(2 * np.pi * MEAN["bernoulli"] ** 2)
    for count, one in zip(counts, heads, strict=True):
        values = one * eta - count * np.logaddexp(0, eta)
        total += np.logaddexp.reduce(values + log_weights, axis=1)
    return log_trapezoid(total, means)


def log_trapezoid(log_values, places):
    """The logarithm of an integral."""
    highest = log_values.max()
    return highest + np.log(np.trapezoid(np.exp(log_values - highest), places))


def main():
    """Print each error, then their size in standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["normal", "bernoulli"])
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    program = {"normal": normal, "bernoulli": bernoulli}[arguments.kind]
    model, scores = ev.Model.from_numpyro(program, groups="group"), []
    for seed in range(arguments.seeds):
        data, started = simulated(arguments.kind, seed), time.process_time()
        online = ev.Online(model, seed=seed)
        for first in range(0, ROWS, BATCH):
            online.update({name: array[first : first + BATCH] for name, array in data.items()})
        seconds, value = time.process_time() - started, exact(arguments.kind, data)
        scores.append((online.log_evidence - value) / online.standard_error)
        shown = f"{online.log_evidence:.4f} ± {online.standard_error:.4f}, z {scores[-1]:.2f}"
        print(f"seed {seed}: exact {value:.4f}, found {shown}, {seconds:.1f} CPU seconds", flush=True)
    print(
        f"root mean square of z {np.sqrt(np.mean(np.square(scores))):.2f}, largest {max(map(abs, scores)):.2f}"
    )


if __name__ == "__main__":
    main()
