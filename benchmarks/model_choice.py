"""Calibration of model probabilities, without any known evidence.

    python benchmarks/model_choice.py --repeats 500 --out benchmarks/results/model_choice.json
    python benchmarks/model_choice.py --page     # docs/calibration.md of that file

For each of ten pairs, one of the two models is drawn with probability a half, its parameters from
its prior, and data from it. If both log evidences are right, the model that was drawn is the first
one in a share p of the cases in which it has the posterior probability p. Two tests of this: the
sum of what is drawn minus p, in its standard deviations (z), and the same squared over five bins
of p (chi-squared; Hosmer, Lemeshow 1980). In 95 of 100 programs that are right, the smallest of
ten p-values exceeds 0.005. Pairs that are in the file are not repeated.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from machine import describe_machine
from scipy import stats

import evidentia as ev

FOLDER = Path(__file__).parent
BINS = np.array([0.0, 0.05, 0.35, 0.65, 0.95, 1.0])
LEAST_IN_BIN = 1.0  # variance of a bin that counts alone
X = np.random.default_rng(0).standard_normal((30, 2)).astype(np.float32)
GROUP = np.repeat(np.arange(6), 5)

Data = dict[str, np.ndarray]


class Pair(NamedTuple):
    """Two models, and a function that draws data of the first (True) or the second."""

    name: str
    first: Any
    second: Any
    simulate: Callable[[bool, np.random.Generator], Data]


def model(prior: dict, law: Callable[[dict, dict], dist.Distribution]) -> ev.Model:
    """A model whose rows `y` have a law given parameters and the other columns."""
    return ev.Model(prior, lambda params, batch: law(params, batch).log_prob(batch["y"]))


def pair_of(name: str, first: tuple, second: tuple, columns: Data, count: int) -> Pair:
    """A pair of models that are given by priors and laws, from which data are drawn, too."""
    models = model(*first), model(*second)

    def simulate(is_first, generator):
        prior, law = first if is_first else second
        keys = jax.random.split(jax.random.key(int(generator.integers(2**32))), len(prior) + 1)
        params = {key: each.sample(one) for (key, each), one in zip(prior.items(), keys[1:], strict=True)}
        drawn = law(params, columns)
        shape = () if drawn.batch_shape == (count,) else (count,)
        return {**columns, "y": np.asarray(drawn.sample(keys[0], shape))}

    return Pair(name, *models, simulate)


def pairs() -> list[Pair]:
    """The ten pairs: eight of plain models, two of NumPyro's."""
    normal, x = dist.Normal(0.0, 1.0), {"x": X}
    slopes = dist.Normal(0.0, 1.0).expand([2]).to_event(1)
    return [
        pair_of(
            "mean zero or not",
            ({"scale": dist.HalfNormal(1.0)}, lambda p, _: dist.Normal(0.0, p["scale"])),
            (
                {"mean": normal, "scale": dist.HalfNormal(1.0)},
                lambda p, _: dist.Normal(p["mean"], p["scale"]),
            ),
            {},
            10,
        ),
        pair_of(
            "Poisson or negative binomial",
            ({"rate": dist.Gamma(2.0, 0.5)}, lambda p, _: dist.Poisson(p["rate"])),
            (
                {"rate": dist.Gamma(2.0, 0.5), "shape": dist.Exponential(0.5)},
                lambda p, _: dist.GammaPoisson(p["shape"], p["shape"] / p["rate"]),
            ),
            {},
            30,
        ),
        pair_of(
            "one feature or two",
            ({"slope": normal}, lambda p, b: dist.Normal(b["x"][:, 0] * p["slope"], 1.0)),
            ({"slopes": slopes}, lambda p, b: dist.Normal(b["x"] @ p["slopes"], 1.0)),
            x,
            30,
        ),
        pair_of(
            "logistic, with a feature or not",
            ({"level": normal}, lambda p, b: dist.Bernoulli(logits=p["level"] + 0 * b["x"][:, 0])),
            (
                {"level": normal, "slope": normal},
                lambda p, b: dist.Bernoulli(logits=p["level"] + p["slope"] * b["x"][:, 0]),
            ),
            x,
            30,
        ),
        pair_of(
            "normal or Student-t",
            (
                {"mean": normal, "scale": dist.HalfNormal(1.0)},
                lambda p, _: dist.Normal(p["mean"], p["scale"]),
            ),
            (
                {"mean": normal, "scale": dist.HalfNormal(1.0)},
                lambda p, _: dist.StudentT(2.0, p["mean"], p["scale"]),
            ),
            {},
            30,
        ),
        pair_of(
            "one normal or two",
            ({"mean": dist.Normal(0.0, 2.0)}, lambda p, _: dist.Normal(p["mean"], 1.0)),
            (
                {"share": dist.Uniform(), "means": dist.Normal(0.0, 2.0).expand([2]).to_event(1)},
                lambda p, _: dist.MixtureSameFamily(
                    dist.Categorical(jnp.stack([p["share"], 1 - p["share"]])), dist.Normal(p["means"], 1.0)
                ),
            ),
            {},
            20,
        ),
        pair_of(
            "exponential or gamma",
            ({"rate": dist.Gamma(2.0, 2.0)}, lambda p, _: dist.Gamma(1.0, p["rate"])),
            (
                {"rate": dist.Gamma(2.0, 2.0), "shape": dist.LogNormal(0.0, 0.5)},
                lambda p, _: dist.Gamma(p["shape"], p["rate"]),
            ),
            {},
            20,
        ),
        pair_of(
            "change of the mean or not",
            ({"mean": normal}, lambda p, b: dist.Normal(p["mean"] + 0 * b["time"], 1.0)),
            (
                {"mean": normal, "step": normal, "when": dist.Uniform()},
                lambda p, b: dist.Normal(p["mean"] + p["step"] * (b["time"] > p["when"]), 1.0),
            ),
            {"time": np.linspace(0.01, 0.99, 20).astype(np.float32)},
            20,
        ),
        of_numpyro("groups or not (NumPyro)", _pooled, _grouped, {"group": GROUP}),
        of_numpyro("Poisson slope or not (NumPyro)", _level, _slope, {"z": X[:, 0]}),
    ]


def _pooled(group, y=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(group)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def _grouped(group, y=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    deviation = numpyro.sample("deviation", dist.HalfNormal(1.0))
    effects = numpyro.sample("effects", dist.Normal(0.0, 1.0).expand([6]).to_event(1))
    with numpyro.plate("rows", len(group)):
        numpyro.sample("y", dist.Normal(mean + deviation * effects[group], 1.0), obs=y)


def _level(z, y=None):
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(z)):
        numpyro.sample("y", dist.Poisson(jnp.exp(level + 0 * z)), obs=y)


def _slope(z, y=None):
    level, slope = (numpyro.sample(name, dist.Normal(0.0, 1.0)) for name in ("level", "slope"))
    with numpyro.plate("rows", len(z)):
        numpyro.sample("y", dist.Poisson(jnp.exp(level + slope * z)), obs=y)


def of_numpyro(name: str, first: Callable, second: Callable, columns: Data) -> Pair:
    """A pair of NumPyro models of the same columns."""

    def simulate(is_first, generator):
        seeded = numpyro.handlers.seed(first if is_first else second, int(generator.integers(2**31)))
        return {**columns, "y": np.asarray(_traced(seeded, columns))}

    return Pair(name, ev.Model.from_numpyro(first), ev.Model.from_numpyro(second), simulate)


def _traced(program: Callable, columns: Data) -> Any:
    return numpyro.handlers.trace(program).get_trace(**columns)["y"]["value"]


def runs_of(pair: Pair, repeats: int, seed: int) -> dict[str, Any]:
    """Probabilities of the first model, and whether it was drawn."""
    generator, started = np.random.default_rng([seed, len(pair.name)]), time.perf_counter()
    probabilities, drawn, doubtful = [], [], 0
    for repeat in range(repeats):
        is_first = bool(generator.random() < 0.5)
        data = pair.simulate(is_first, generator)
        found = [ev.estimate(each, data, seed=repeat) for each in (pair.first, pair.second)]
        doubtful += any(each.verdict.word != "trusted" for each in found)
        difference = found[1].log_evidence - found[0].log_evidence
        probabilities.append(float(1 / (1 + np.exp(np.clip(difference, -700, 700)))))
        drawn.append(is_first)
    seconds = time.perf_counter() - started
    known = {"pair": pair.name, "doubtful": doubtful, "seconds": round(seconds, 1)}
    return known | {"probabilities": probabilities, "drawn": drawn}


def test_of(probabilities: np.ndarray, drawn: np.ndarray) -> tuple[float, float]:
    """z of all cases, and the p-value over bins; bins of small variance count together."""
    excess, variance = drawn - probabilities, probabilities * (1 - probabilities)
    z = excess.sum() / np.sqrt(variance.sum())
    bins = np.clip(np.digitize(probabilities, BINS) - 1, 0, len(BINS) - 2)
    sums = np.bincount(bins, excess, len(BINS) - 1), np.bincount(bins, variance, len(BINS) - 1)
    is_large = sums[1] >= LEAST_IN_BIN
    squares = (sums[0][is_large] ** 2 / sums[1][is_large]).tolist()
    rest = sums[0][~is_large].sum() ** 2 / max(sums[1][~is_large].sum(), 1e-300)
    squares += [rest] if sums[1][~is_large].sum() >= LEAST_IN_BIN else []
    return float(z), float(stats.chi2.sf(sum(squares), len(squares)))


def page_of(record: dict[str, Any]) -> str:
    """The table in Markdown."""
    cores, processor = record["machine"]["cores"], record["machine"]["processor"]
    lines = [
        "# Calibration of model probabilities",
        "",
        "One of two models is drawn, parameters from its prior, and data from it; `ev.estimate` gives both evidences. If they",
        "are right, a model that is given the probability *p* was drawn in a share *p* of such cases.",
        f"`python benchmarks/model_choice.py --repeats {record['repeats']}`, seed {record['seed']}, on {cores} cores of {processor}.",
        "*z*: cases in which the first model was drawn minus the sum of its probabilities, in standard deviations. *p-value*: of",
        "the squared deviations over five bins of *p* (Hosmer, Lemeshow 1980).",
        "",
        "| pair | *p* below 0.05, drawn | 0.05–0.35 | 0.35–0.65 | 0.65–0.95 | above 0.95 | z | p-value | doubtful | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for run in record["runs"]:
        p, drawn = np.array(run["probabilities"]), np.array(run["drawn"], float)
        bins = np.clip(np.digitize(p, BINS) - 1, 0, len(BINS) - 2)
        cells = [
            f"{drawn[bins == one].sum():.0f} of {np.sum(bins == one)} ({p[bins == one].sum():.1f})"
            for one in range(len(BINS) - 1)
        ]
        z, p_value = test_of(p, drawn)
        lines.append(
            f"| {run['pair']} | {' | '.join(cells)} | {z:+.1f} | {p_value:.2g} | {run['doubtful']} | {run['seconds']:.0f} |"
        )
    lines += ["", "In brackets: how many were expected."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=FOLDER / "results" / "model_choice.json")
    parser.add_argument("--page", action="store_true", help="write the page of the results and end")
    options = parser.parse_args()
    if options.page:
        page = page_of(json.loads((FOLDER / "results" / "model_choice.json").read_text()))
        (FOLDER.parent / "docs" / "calibration.md").write_text(page)
        return
    warnings.simplefilter("ignore")
    record = {"repeats": options.repeats, "seed": options.seed, "machine": describe_machine(), "runs": []}
    if options.out.exists():
        known = json.loads(options.out.read_text())
        if (known["repeats"], known["seed"]) == (options.repeats, options.seed):
            record["runs"] = known["runs"]
    done = {run["pair"] for run in record["runs"]}
    for pair in pairs():
        if pair.name in done:
            continue
        record["runs"].append(runs_of(pair, options.repeats, options.seed))
        options.out.write_text(json.dumps(record) + "\n")
        print(pair.name, *test_of(*(np.array(record["runs"][-1][key]) for key in ("probabilities", "drawn"))))


if __name__ == "__main__":
    main()
