"""Random intercepts of a logistic regression: log evidence, error and seconds by groups.

    python benchmarks/random_effects.py                       # some minutes on 2 cores
    python benchmarks/random_effects.py --groups 100 --seeds 5
    python benchmarks/random_effects.py --tables 20           # drawn from the prior, 100 groups
    python benchmarks/random_effects.py --ranks 100           # simulation-based calibration
    python benchmarks/random_effects.py --effects 1000000     # written to a file, with peak memory
    python benchmarks/random_effects.py --bridge --groups 100 1000    # beside NUTS and a bridge

Groups have 20 rows. Seconds are those of the first and of the last run in one process. The truth
of a table from the prior is an importance sample, whose inner integrals are sums over a grid.
Ranks of parameters among draws of their posteriors are uniform if these are right (Talts et al.
2018, arXiv:1804.06788).
"""

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from scipy.stats import kstest

import evidentia as ev

ROWS = 20  # of a group
FORMULA = "y ~ x + (1 | g)"


def table(num_groups: int) -> pd.DataFrame:
    """Rows of groups whose intercepts have deviation 1."""
    generator = np.random.default_rng(1)
    group = np.repeat(np.arange(num_groups), ROWS)
    x = generator.normal(size=len(group))
    logits = 0.5 + x + generator.normal(size=num_groups)[group]
    return pd.DataFrame(
        {"y": generator.uniform(size=len(group)) < 1 / (1 + np.exp(-logits)), "x": x, "g": group}
    )


def from_prior(num_groups: int, seed: int) -> tuple[pd.DataFrame, dict[str, float]]:
    """A table whose parameters are drawn from the regression's own prior, and these."""
    generator = np.random.default_rng(seed)
    group = np.repeat(np.arange(num_groups), ROWS)
    x = generator.normal(size=len(group))
    x = (x - x.mean()) / x.std()
    intercept, slope = 2.5 * generator.normal(size=2)
    deviation = generator.exponential()
    logits = intercept + slope * x + deviation * generator.normal(size=num_groups)[group]
    rows = pd.DataFrame(
        {"y": generator.uniform(size=len(group)) < 1 / (1 + np.exp(-logits)), "x": x, "g": group}
    )
    return rows, {"Intercept": intercept, "x": slope, "sd(Intercept|g)": deviation}


def arrays_of(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Response, standardised column and group of each row."""
    x = (rows["x"] - rows["x"].mean()) / rows["x"].std(ddof=0)
    return {
        "y": rows["y"].to_numpy(np.float32),
        "x": x.to_numpy(np.float32),
        "g": rows["g"].to_numpy(np.int32),
    }


PRIOR: dict[str, Any] = {"a": dist.Normal(0, 2.5), "b": dist.Normal(0, 2.5), "sd": dist.Exponential(1.0)}
GRID = np.linspace(-6, 6, 241, dtype=np.float32)


def by_grid() -> ev.Model:
    """A group is a row of the data; its effect is summed over a grid."""
    log_weights = -0.5 * GRID**2 + np.log((GRID[1] - GRID[0]) / np.sqrt(2 * np.pi)).astype(np.float32)

    def log_likelihood(params, batch):
        fixed = params["a"] + params["b"] * batch["x"]
        predictor = fixed[:, None] + params["sd"] * GRID[:, None]
        terms = batch["y"][:, None] * predictor - jax.nn.softplus(predictor)
        return jax.nn.logsumexp(jnp.sum(terms, axis=2) + log_weights, axis=1)

    return ev.Model(PRIOR, log_likelihood)


def with_parameters(num_groups: int) -> ev.Model:
    """All effects are parameters."""

    def log_likelihood(params, batch):
        predictor = params["a"] + params["b"] * batch["x"] + params["sd"] * params["u"][batch["g"]]
        return dist.Bernoulli(logits=predictor).log_prob(batch["y"])

    return ev.Model({**PRIOR, "u": dist.Normal(0, 1).expand([num_groups]).to_event(1)}, log_likelihood)


def timed(model: Any, data: Any, **options: Any) -> tuple[ev.Evidence, float]:
    """A result and its seconds."""
    started = time.perf_counter()
    return ev.estimate(model, data, **options), time.perf_counter() - started


def of_tables(count: int, num_groups: int = 100) -> None:
    """Tables drawn from the prior: how far results are from the truth, in standard errors."""
    print("| table | log evidence | truth | errors apart | verdict | seconds |")
    print("|--:|--:|--:|--:|---|--:|")
    apart = []
    for seed in range(count):
        rows, _ = from_prior(num_groups, seed)
        if rows["y"].nunique() == 1:
            print(f"| {seed} | all responses are alike | | | | |", flush=True)
            continue
        found, seconds = timed(ev.Regression(FORMULA, family="bernoulli"), rows, seed=seed)
        arrays = {name: array.reshape(num_groups, ROWS) for name, array in arrays_of(rows).items()}
        del arrays["g"]
        truth, _ = timed(by_grid(), arrays, method=ev.Laplace())
        joint = np.hypot(found.standard_error, truth.standard_error)
        apart.append((found.log_evidence - truth.log_evidence) / joint)
        cells = (
            f"{found.log_evidence:,.3f} ± {found.standard_error:.3f}",
            f"{truth.log_evidence:,.3f} ± {truth.standard_error:.3f}",
            f"{apart[-1]:.1f}",
            found.verdict.word,
            f"{seconds:.0f}",
        )
        print(f"| {seed} | {' | '.join(cells)} |", flush=True)
    close = np.mean(np.abs(apart) < 2)
    print(
        f"within two standard errors: {close:.0%}; root mean square {np.sqrt(np.mean(np.square(apart))):.2f}"
    )


def ranks_of_tables(count: int, num_groups: int = 100) -> None:
    """Ranks of parameters in their posteriors, of tables drawn from the prior."""
    ranks: dict[str, list[float]] = {}
    for seed in range(count):
        rows, known = from_prior(num_groups, seed)
        if rows["y"].nunique() == 1:  # a choice by the data, which leaves ranks uniform
            continue
        found = ev.estimate(ev.Regression(FORMULA, family="bernoulli"), rows, seed=seed)
        shares = np.exp(found.weighted.log_weights - np.logaddexp.reduce(found.weighted.log_weights))
        for name, value in known.items():
            ranks.setdefault(name, []).append(float(shares @ (found.weighted[name] < value)))
    print("| parameter | tables | mean rank | below 0.05 | above 0.95 | p of uniform ranks |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, values in ranks.items():
        low, high = np.mean(np.less(values, 0.05)), np.mean(np.greater(values, 0.95))
        p = kstest(values, "uniform").pvalue
        print(
            f"| `{name}` | {len(values)} | {np.mean(values):.2f} | {low:.0%} | {high:.0%} | {p:.2f} |",
            flush=True,
        )


def beside_bridge(sizes: list[int]) -> None:
    """Seconds beside those of NUTS and bridge sampling, with effects as parameters."""
    print("| groups | here | seconds | bridge sampling | seconds | ratio of seconds at equal error |")
    print("|--:|--:|--:|--:|--:|--:|")
    for num_groups in sizes:
        rows = table(num_groups)
        found, seconds = timed(ev.Regression(FORMULA, family="bernoulli"), rows)
        method = ev.BridgeSampling(num_particles=20_000)
        other, long = timed(with_parameters(num_groups), arrays_of(rows), method=method)
        ratio = long / seconds * (other.standard_error / found.standard_error) ** 2
        mine, theirs = (f"{one.log_evidence:,.3f} ± {one.standard_error:.3f}" for one in (found, other))
        print(
            f"| {num_groups:,} | {mine} | {seconds:.0f} | {theirs} | {long:.0f} | {ratio:.0f} |", flush=True
        )


def written_effects(num_groups: int) -> None:
    """Peak memory and seconds of an estimate, and of all effects written to a file."""

    def peak() -> str:
        return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB at most so far"

    rows, regression = table(num_groups), ev.Regression(FORMULA, family="bernoulli")
    print(
        f"{num_groups:,} groups, a table of {rows.memory_usage().sum() / 2**30:.2f} GiB; {peak()}", flush=True
    )
    found, seconds = timed(regression, rows)
    print(f"{found.log_evidence:,.3f} ± {found.standard_error:.3f} in {seconds:.0f} s; {peak()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path, started = Path(folder, "effects.parquet"), time.perf_counter()
        ev.group_effects(regression, found, rows, path=path)
        print(f"written in {time.perf_counter() - started:.0f} s, {path.stat().st_size:,} bytes; {peak()}")


def by_size(sizes: list[int], num_seeds: int) -> None:
    """Log evidence and seconds for some numbers of groups."""
    print("| groups | log evidence by seed | largest reported s.e. | first run, s | last run, s |")
    print("|--:|---|--:|--:|--:|")
    for num_groups in sizes:
        rows, found, seconds = table(num_groups), [], []
        for seed in range(num_seeds):
            started = time.perf_counter()
            found.append(ev.estimate(ev.Regression(FORMULA, family="bernoulli"), rows, seed=seed))
            seconds.append(time.perf_counter() - started)
        values = ", ".join(f"{one.log_evidence:,.2f}" for one in found)
        error = max(one.standard_error for one in found)
        print(
            f"| {num_groups:,} | {values} | {error:.3f} | {seconds[0]:.0f} | {seconds[-1]:.0f} |", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", type=int, help="drawn from the prior")
    parser.add_argument("--ranks", type=int, help="of parameters, in tables drawn from the prior")
    parser.add_argument("--effects", type=int, help="written to a file, of so many groups")
    parser.add_argument("--bridge", action="store_true", help="beside bridge sampling")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.tables:
        of_tables(arguments.tables)
    elif arguments.effects:
        written_effects(arguments.effects)
    elif arguments.ranks:
        ranks_of_tables(arguments.ranks)
    elif arguments.bridge:
        beside_bridge(arguments.groups)
    else:
        by_size(arguments.groups, arguments.seeds)


if __name__ == "__main__":
    main()
