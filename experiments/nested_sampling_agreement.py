"""Do nested samplers agree with each other, and with annealed importance sampling?

These are the two figures of the appendix, on rows simulated from a one-dimensional mixture of
three Gaussians (9 parameters), with the published settings: nested sampling with 2 live points, 20
steps of reflecting SGHMC and an end where a term adds less than 1% of the evidence, annealed
importance sampling by SGHMC with 10 particles.

  nested-sampling-rejection   reflecting nested sampling against rejection nested sampling, which
                              is exact and slow, from 20 to 250 rows. Rejection needs e^H draws per
                              point, with H the information; the note of a run stored in results/
                              says how far it went. Beside it, with our settings (256 and 4 live
                              points, an end at a tenth of the evidence);
  nested-sampling-annealing   nested sampling against annealed importance sampling, from 20 to
                              1,000 rows in steps of 20: minutes. Beside it, with our settings (64
                              live points; `ev.AIS()`): hours.

Shades are the smallest and largest of five runs. The papers' values are in figures only, and not
available: the verdict is on the agreement that they claim.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Appendix A.2, Figure A1, and
Proceedings 33(1), 18, Figure A1.
"""

import re
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from math import comb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

import evidentia as ev
from evidentia.display.plots import COLORS, LINE_STYLES
from evidentia.kernels import Rejection
from evidentia.posterior.rows import Window
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings, Verdict

MODEL = ev.models.gaussian_mixture(num_components=3, num_features=1)
# Of six seeds tried, the one whose data have the least information, as rejection needs e^H draws
# per point.
DATA_SEED, NUM_ROWS = 5, 1000
REFLECTING, REJECTION = "reflecting nested sampling", "rejection nested sampling"
ANNEALED = "annealed importance sampling"
PUBLISHED, OURS = "published", "ours"
ACCEPTABLE = 0.1  # nats per row: the MaxEnt paper's band
TITLES = {PUBLISHED: f"published settings; dotted: ±{ACCEPTABLE:g} nats per row", OURS: "our settings"}
CHANCE = 1e-3  # of a wrong rejection if both methods have the same distribution


class Plan(NamedTuple):
    """Methods by settings (published or ours), numbers of rows, and runs of each method."""

    methods: dict[str, dict[str, Any]]
    sizes: tuple[int, ...]
    num_runs: int


NESTED = ev.NestedSampling.published()


def against_rejection(max_draws: int) -> dict[str, dict[str, Any]]:
    """Published settings, whose scatter hides all but large differences, and finer ones.

    Points not found in `max_draws` draws stay in place, which ends the run soon after.
    """
    kernel = Rejection(max_draws=max_draws)
    finer = ev.NestedSampling(num_particles=4, kernel=kernel, remaining=0.1)
    return {
        PUBLISHED: {REFLECTING: NESTED, REJECTION: replace(NESTED, kernel=kernel)},
        OURS: {REFLECTING: ev.NestedSampling(remaining=0.1), REJECTION: finer},
    }


AGAINST_ANNEALING = {PUBLISHED: {REFLECTING: NESTED, ANNEALED: ev.AIS.published()}}
WITH_OURS = {OURS: {REFLECTING: ev.NestedSampling(num_particles=64), ANNEALED: ev.AIS()}}
PLANS = {
    "rejection": Plan(against_rejection(10**7), (20, 50, 100, 150, 200, 250), 5),
    "annealing": Plan(AGAINST_ANNEALING | WITH_OURS, tuple(range(20, 1001, 20)), 5),
}
QUICK = {
    "rejection": Plan({PUBLISHED: against_rejection(10**5)[PUBLISHED]}, (20, 30), 3),
    "annealing": Plan(AGAINST_ANNEALING, (20, 60, 200), 3),
}


def estimate(method: Any, size: int, seeds: list[int]) -> dict[str, list]:
    """Runs over the first `size` rows, a window of the same arrays, so that nothing recompiles."""
    data, _ = MODEL.simulate(NUM_ROWS, DATA_SEED)
    bound, arrays = MODEL.bind(data), jax.tree.map(jnp.asarray, data)
    found = {"log_evidence": [], "standard_error": [], "seconds": [], "signs": []}
    for seed in seeds:
        started = time.perf_counter()
        *_, end = method.run(bound, Window(arrays, 0, size), jax.random.key(seed))
        found["log_evidence"].append(end.estimate.log_evidence)
        found["standard_error"].append(end.estimate.standard_error)
        found["seconds"].append(round(time.perf_counter() - started, 2))
        found["signs"].append(list(end.diagnose().signs))
    return found


def compare(plan: Plan, settings: Settings) -> Record:
    """All runs of two methods at each number of rows.

    Seeds differ between sizes: otherwise a nested sampler repeats its volume errors.
    """
    first = 1_000_000 * settings.seed
    seeds = [[first + 1000 * size + index for index in range(plan.num_runs)] for size in plan.sizes]
    found = {kind: {name: {} for name in methods} for kind, methods in plan.methods.items()}
    for kind, methods in plan.methods.items():
        for size, seeds_of_size in zip(plan.sizes, seeds, strict=True):
            for name, method in methods.items():
                found[kind][name][str(size)] = settings.remember(
                    f"{name}, {kind}, {size} rows", partial(estimate, method, size, seeds_of_size)
                )
    methods = {kind: {name: repr(each) for name, each in of.items()} for kind, of in plan.methods.items()}
    return {"sizes": list(plan.sizes), "seeds": seeds, "methods": methods, "runs": found}


class Ranges(NamedTuple):
    """Smallest, mean and largest log evidence (size) of the runs, and the error of the mean."""

    lowest: np.ndarray
    mean: np.ndarray
    highest: np.ndarray
    error: np.ndarray


def ranges(by_size: dict[str, dict[str, list]]) -> Ranges:
    """The ranges of a method's runs; errors are from the scatter of the runs."""
    values = np.array([runs["log_evidence"] for runs in by_size.values()])
    error = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    return Ranges(values.min(axis=1), values.mean(axis=1), values.max(axis=1), error)


def sizes_of(record: Record, kind: str) -> np.ndarray:
    """Numbers of rows that the runs with some settings reached."""
    return np.array([int(size) for size in next(iter(record["runs"][kind].values()))])


class Comparison(NamedTuple):
    """The second method minus the first: differences of means (size), and what follows from them.

    Attributes:
        difference: differences of the means of the runs, in nats.
        error: their standard errors.
        overlap: whether the ranges of the runs overlap.
        average: average of the differences over all sizes, and its standard error.
    """

    difference: np.ndarray
    error: np.ndarray
    overlap: np.ndarray
    average: tuple[float, float]


def summarise(record: Record, kind: str = PUBLISHED) -> Comparison:
    first, second = map(ranges, record["runs"][kind].values())
    difference, error = second.mean - first.mean, np.hypot(first.error, second.error)
    overlap = (first.lowest <= second.highest) & (second.lowest <= first.highest)
    average = float(np.mean(difference)), float(np.sqrt(np.sum(error**2)) / len(error))
    return Comparison(difference, error, overlap, average)


def draw(record: Record) -> Figure:
    """Plot log evidence per row, and the runs about the mean of both methods, for all settings."""
    sizes, kinds = sizes_of(record, PUBLISHED), list(record["runs"])
    figure = Figure(figsize=(7, 3.2 + 2.5 * len(kinds)), layout="constrained")
    top, *others = figure.subplots(1 + len(kinds), 1, sharex=True)
    for name, color, style in zip(record["runs"][PUBLISHED], COLORS, LINE_STYLES, strict=False):
        shade(top, sizes, ranges(record["runs"][PUBLISHED][name]), 1 / sizes, color, style, name)
    top.set_ylabel("log evidence per row (nats)")
    top.legend(frameon=False, loc="lower right")
    for ax, kind in zip(others, kinds, strict=True):
        sizes = sizes_of(record, kind)
        found = [ranges(by_size) for by_size in record["runs"][kind].values()]
        middle = np.mean([each.mean for each in found], axis=0)
        for each, color, style in zip(found, COLORS, LINE_STYLES, strict=False):
            about = Ranges(*(values - middle for values in each[:3]), each.error)
            shade(ax, sizes, about, np.ones(len(sizes)), color, style)
        limits = ax.get_ylim()
        for side in (-1, 1):
            ax.plot(sizes, side * ACCEPTABLE * sizes, ":", color=COLORS[6], linewidth=1)
        ax.set_ylim(*limits)
        ax.set_ylabel("log evidence − mean\nof both (nats)")
        ax.set_title(TITLES[kind], loc="left", fontsize="medium")
    others[-1].set_xlabel("number of rows")
    for ax in (top, *others):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def shade(ax, sizes, found: Ranges, scale, color: str, style: str, label: str | None = None) -> None:
    """Shade from the smallest to the largest run, and draw their mean."""
    ax.fill_between(sizes, found.lowest * scale, found.highest * scale, color=color, alpha=0.25, linewidth=0)
    ax.plot(sizes, found.mean * scale, style, color=color, linewidth=1.2, label=label)


def table(record: Record) -> list[dict]:
    """At most eight numbers of rows, including the first and the last, for all settings."""
    short = {REFLECTING: "reflecting", REJECTION: "rejection", ANNEALED: "annealed"}
    rows = []
    for kind, methods in record["runs"].items():
        summary, sizes = summarise(record, kind), sizes_of(record, kind)
        shown = np.unique(np.linspace(0, len(sizes) - 1, min(8, len(sizes))).round().astype(int))
        for index in shown:
            row = {"rows": int(sizes[index]), "settings": kind}
            for name, by_size in methods.items():
                found = ranges(by_size)
                low, high = (f"{values[index]:,.1f}" for values in (found.lowest, found.highest))
                row[f"{short[name]} (nats)"] = f"{low} to {high}".replace("-", "−")
            row["difference of means"] = round(float(summary.difference[index]), 2)
            rows.append(row | {"error": round(float(summary.error[index]), 2)})
    return rows


def judge(record: Record, plan: Plan | None = None) -> Verdict:
    """Agree if, with published settings, ranges overlap and means differ by 0.1 nats per row.

    Ranges of r runs of one distribution fail to overlap with probability 2 / C(2r, r): more
    failures than that explains are a difference. A mean difference may exceed 0.1 nats per row,
    which the paper calls acceptable, by two standard errors.
    """
    summary, sizes = summarise(record), sizes_of(record, PUBLISHED)
    num_runs = len(record["seeds"][0])
    apart = int(np.sum(~summary.overlap))
    by_chance = binom.sf(apart - 1, len(sizes), 2 / comb(2 * num_runs, num_runs))
    excess = np.abs(summary.difference) - 2 * summary.error - ACCEPTABLE * sizes
    agrees = by_chance > CHANCE and np.all(excess <= 0)
    sentence = " ".join(
        describe(record, kind, name)
        for kind, name in ((PUBLISHED, ""), (OURS, "With our settings "))
        if kind in record["runs"]
    )
    if plan is not None and sizes[-1] < plan.sizes[-1]:
        sentence += f" The full form continues to {plan.sizes[-1]:,} rows."
    return Verdict(bool(agrees), re.sub(r"-(?=\d)", "−", sentence))


def describe(record: Record, kind: str, start: str) -> str:
    """Averages, overlaps and warnings of the runs with some settings."""
    summary, sizes = summarise(record, kind), sizes_of(record, kind)
    (first, second), methods = record["runs"][kind], record["runs"][kind]
    average, error = summary.average
    sentence = (
        f"{start}{second} lies {average:+.2f} ± {error:.2f} nats from {first} on average over {len(sizes)} numbers of rows "
        f"from {sizes[0]} to {sizes[-1]:,}, and nowhere more than {np.max(np.abs(summary.difference) / sizes):.3f} nats per row "
        f"away; the ranges of the runs overlap at {int(np.sum(summary.overlap))} of them."
    )
    for name, by_size in methods.items():
        signs = [signs for runs in by_size.values() for signs in runs["signs"]]
        flagged = Counter(sign for of_run in signs for sign in of_run)
        if flagged:
            warned = " and ".join(f"{count} “{sign}”" for sign, count in flagged.items())
            sentence += f" Warnings in {len(signs)} runs of {name}: {warned}."
    return sentence


def experiment(kind: str, title: str, claim: str, alt: str) -> Experiment:
    return Experiment(
        name=f"nested-sampling-{kind}",
        title=title,
        reproduces="Entropy paper, Appendix A.2, Figure A1; MaxEnt paper, Figure A1",
        claim=claim,
        alt=alt,
        run=lambda settings: compare((QUICK if settings.quick else PLANS)[kind], settings),
        draw=draw,
        table=table,
        judge=partial(judge, plan=PLANS[kind]),
    )


ALT = (
    "Above, log evidence per row of both methods against the number of rows, with a shade from the smallest to the largest "
    "of the runs. Below, the same in nats about the mean of both methods: the shades overlap."
)
EXPERIMENTS = (
    experiment(
        "rejection",
        "Reflecting against rejection nested sampling",
        "Nested sampling by reflecting SGHMC agrees with nested sampling by rejection, which is exact.",
        ALT,
    ),
    experiment(
        "annealing",
        "Nested sampling against annealed importance sampling",
        "Nested sampling agrees with annealed importance sampling, with which it shares almost nothing.",
        ALT,
    ),
)

if __name__ == "__main__":
    main(*EXPERIMENTS)
