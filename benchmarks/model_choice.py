"""Calibration of model probabilities, without any known evidence.

    python benchmarks/model_choice.py --repeats 500 --out benchmarks/results/model_choice.json
    python benchmarks/model_choice.py --page     # docs/calibration.md of that file

For each of twelve pairs, one of the two models is drawn with probability a half, its parameters
from its prior, and data from it. If both log evidences are right, the model that was drawn is the
first one in a share p of the cases in which it has the posterior probability p. Two tests of this:
the sum of what is drawn minus p, in its standard deviations (z), and the same squared over five
bins of p (chi-squared; Hosmer, Lemeshow 1980). In 95 of 100 programs that are right, the smallest
of twelve p-values exceeds 0.004. Runs that are in the file are not repeated.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine
from model_choice_pairs import Pair, pairs
from scipy import stats

import evidentia as ev

FOLDER = Path(__file__).parent
BINS = np.array([0.0, 0.05, 0.35, 0.65, 0.95, 1.0])
LEAST_IN_BIN = 1.0  # variance of a bin that counts alone


def runs_of(pair: Pair, repeats: int, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Probabilities of the first model, and whether it was drawn, those that are known first."""
    generator, started = np.random.default_rng([seed, len(pair.name)]), time.perf_counter()
    probabilities, drawn, doubtful = list(known["probabilities"]), list(known["drawn"]), known["doubtful"]
    for repeat in range(repeats):
        is_first = bool(generator.random() < 0.5)
        data = pair.simulate(is_first, generator)
        if repeat < len(drawn):
            continue
        found = [ev.estimate(each, data, seed=repeat) for each in (pair.first, pair.second)]
        doubtful += any(each.verdict.word != "trusted" for each in found)
        difference = found[1].log_evidence - found[0].log_evidence
        probabilities.append(float(1 / (1 + np.exp(np.clip(difference, -700, 700)))))
        drawn.append(is_first)
    seconds = known["seconds"] + time.perf_counter() - started
    record = {"pair": pair.name, "doubtful": doubtful, "seconds": round(seconds, 1)}
    return record | {"probabilities": probabilities, "drawn": drawn}


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


def _repeats(runs: list[dict[str, Any]]) -> str:
    counts = sorted({len(run["drawn"]) for run in runs})
    return " to ".join(map(str, [counts[0], *counts[1:][-1:]]))


def page_of(record: dict[str, Any]) -> str:
    """The table in Markdown."""
    cores, processor = record["machine"]["cores"], record["machine"]["processor"]
    lines = [
        "# Calibration of model probabilities",
        "",
        "One of two models is drawn, parameters from its prior, and data from it; `ev.estimate` gives both evidences. If they",
        "are right, a model that is given the probability *p* was drawn in a share *p* of such cases.",
        f"`python benchmarks/model_choice.py`, seed {record['seed']}, on {cores} cores of {processor}: {_repeats(record['runs'])} data sets of each pair.",
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
    known = (
        json.loads(options.out.read_text()) if options.out.exists() else {"seed": options.seed, "runs": []}
    )
    if known["seed"] != options.seed:
        parser.error(f"--seed of {options.out} is {known['seed']}; got {options.seed}.")
    runs = {run["pair"]: run for run in known["runs"]}
    nothing = {"probabilities": [], "drawn": [], "doubtful": 0, "seconds": 0.0}
    for pair in pairs():
        of_pair = runs.get(pair.name, nothing)
        if len(of_pair["drawn"]) >= options.repeats:
            continue
        runs[pair.name] = runs_of(pair, options.repeats, options.seed, of_pair)
        repeats = min(len(run["drawn"]) for run in runs.values())
        record = {"repeats": repeats, "seed": options.seed, "machine": describe_machine()}
        options.out.write_text(json.dumps(record | {"runs": list(runs.values())}) + "\n")
        print(pair.name, *test_of(*(np.array(runs[pair.name][key]) for key in ("probabilities", "drawn"))))


if __name__ == "__main__":
    main()
