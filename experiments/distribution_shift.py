"""Clusters that appear in a stream: the papers' distribution shift, with the published method.

Of 100,000 rows in the plane, the first come from 3 Gaussian clusters, those from row 1,000 on from
5, and those from row 10,000 on from 7. Mixtures with 3, 5 and 7 components process them with the
published SGAIS (10 particles, chunks and mini-batches of 500 rows), in that order and shuffled.
The papers claim that

  - the log evidence changes sharply where clusters are added;
  - the mixture of 3 components is the worst, those of 5 and 7 are nearly alike, as some clusters
    overlap;
  - the order changes the log evidence by less than the models differ;
  - the annealing steps rise at the changes, and stay high for models with too few components.

The papers give neither positions nor widths: the clusters are ours. The first five are apart; the
sixth and the seventh each overlap one of them, 0.85 standard deviations away. Beside the papers'
quantities, the record has the alarms of an `ev.ChangeDetector` on the density of the rows under a
copy of the model that saw only the first chunk (`DensityHistogram`), and the log-likelihood per
row of every particle at the end, which shows whether the particles sit in the same mode.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, sections 6.2 and 7.2, Figures 1 and 5;
Cameron (2020), MSc thesis, Figures 5.1 and 5.8.
"""

import re
import time
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

import evidentia as ev
from evidentia.display.plots import COLORS, LINE_STYLES
from evidentia.monitor import DensityHistogram
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings, Verdict

ORDERS = ("in order", "shuffled")
# Seven clusters: the sixth overlaps the first, the seventh overlaps the third.
CENTRES = np.array(
    [[-2.5, -1.5], [0.0, 2.2], [2.5, -1.2], [-2.4, 1.6], [2.4, 1.6], [-2.2, -1.2], [2.2, -0.9]]
)
WIDTHS = np.array([0.5, 0.6, 0.5, 0.4, 0.45, 0.5, 0.5])
RANGE, NUM_BINS = (-4.5, 4.5), 45  # of the histograms, in both directions
ALIKE = 0.1  # nearly alike: models whose difference is this fraction of that to the worst
SAME_MODE = 0.01  # nats per row of the best particle: 5 nats of a chunk
HIGH = 2.0  # annealing steps stay high if they are this many times those of the largest model


class Plan(NamedTuple):
    """Rows of the stream, of its changes and of a chunk, and the numbers of components."""

    num_rows: int = 100_000
    changes: tuple[int, ...] = (1_000, 10_000)
    chunk_size: int = 500
    num_clusters: tuple[int, ...] = (3, 5, 7)
    num_components: tuple[int, ...] = (3, 5, 7)
    false_alarm_rate: float = 1e-4


QUICK = Plan(4_000, (1_000, 2_000))


def simulate(plan: Plan, order: str, seed: int = 0) -> np.ndarray:
    """Rows (num_rows, 2); all clusters present at a row are equally probable."""
    generator = np.random.default_rng(seed)
    part = np.searchsorted(plan.changes, np.arange(plan.num_rows), "right")
    cluster = generator.integers(0, np.array(plan.num_clusters)[part])
    rows = CENTRES[cluster] + WIDTHS[cluster, None] * generator.normal(size=(plan.num_rows, 2))
    if order == "shuffled":
        rows = generator.permutation(rows)
    return rows.astype(np.float32)


def make_online(num_components: int, seed: int):
    model = ev.models.gaussian_mixture(num_components=num_components, num_features=2)
    return ev.Online(model, method=ev.SGAIS.published(), seed=seed)


def process(count: int, order: str, plan: Plan, seed: int) -> dict:
    """Feed the rows to a model chunk by chunk; return a column per quantity, and the alarms."""
    online, rows = make_online(count, seed), simulate(plan, order, seed)
    started = time.process_time()
    chunks = [rows[start : start + plan.chunk_size] for start in range(0, len(rows), plan.chunk_size)]
    updates = [online.update({"y": chunk}) for chunk in chunks]
    return {
        "num_observations": [int(update.num_observations) for update in updates],
        "log_predictive_per_row": [round(float(u.log_predictive / u.batch_size), 5) for u in updates],
        "log_evidence": [round(float(update.log_evidence), 3) for update in updates],
        "num_annealing_steps": [int(update.num_annealing_steps) for update in updates],
        "processor_seconds": round(time.process_time() - started, 1),
        "standard_error": round(float(online.standard_error), 4),
        "particles_log_likelihood_per_row": particles_log_likelihood(online, rows),
        "alarms": watch_densities(online, rows, plan, seed),
    }


def particles_log_likelihood(online, rows: np.ndarray) -> list[float]:
    """Mean log-likelihood of the rows at each particle at the end, in nats."""
    values = jax.vmap(online.model.log_likelihood, (0, None))(online.weighted.parameters, {"y": rows})
    return np.sort(np.asarray(values.mean(axis=1))).round(5).tolist()


def watch_densities(online, rows: np.ndarray, plan: Plan, seed: int) -> list[dict]:
    """Alarms of a histogram fitted to the first chunk, and refitted after each alarm."""
    detector, alarms, first = None, [], 0
    for start in range(0, len(rows), plan.chunk_size):
        chunk = {"y": rows[start : start + plan.chunk_size]}
        if detector is None:
            histogram, first = DensityHistogram.fit(online, chunk, seed=seed), start
            detector = ev.ChangeDetector(histogram, plan.false_alarm_rate)
        elif alarm := detector.update(chunk).alarm:
            at = {name: first + getattr(alarm, name) for name in ("row", "num_observations")}
            alarms.append({**at, "log_bayes_factor": alarm.log_bayes_factor})
            detector = None
    return alarms


def key(count: int, order: str) -> str:
    return f"{count} components, {order}"


def run(settings: Settings) -> Record:
    plan = QUICK if settings.quick else Plan()
    runs = {
        key(count, order): settings.remember(
            key(count, order), partial(process, count, order, plan, settings.seed)
        )
        for order in ORDERS
        for count in plan.num_components
    }
    return {"plan": plan._asdict(), "histograms": histograms(plan, settings.seed), "runs": runs}


def histograms(plan: Plan, seed: int) -> dict[str, list[list[int]]]:
    """Counts of the rows before, between and after the changes, and of all: (y, x) bins."""
    rows = simulate(plan, "in order", seed)
    edges = [0, *plan.changes, plan.num_rows]
    parts = {f"rows {first + 1:,} to {last:,}": (first, last) for first, last in pairwise(edges)}
    parts["all rows"] = (0, plan.num_rows)
    return {
        name: np.histogram2d(*rows[first:last].T[::-1], NUM_BINS, (RANGE, RANGE))[0].astype(int).tolist()
        for name, (first, last) in parts.items()
    }


def summarise(record: Record) -> dict[int, dict]:
    """For each number of components: evidence, changes, steps, particles and alarms."""
    plan, summary = record["plan"], {}
    for count in plan["num_components"]:
        ordered, shuffled = (record["runs"][key(count, order)] for order in ORDERS)
        before = [ordered["num_observations"].index(row) for row in plan["changes"]]
        predictive, steps = ordered["log_predictive_per_row"], ordered["num_annealing_steps"]
        heights = np.array(ordered["particles_log_likelihood_per_row"])
        summary[count] = {
            "log_evidence": [found["log_evidence"][-1] for found in (ordered, shuffled)],
            "difference": ordered["log_evidence"][-1] - shuffled["log_evidence"][-1],
            "at_last_change": ordered["log_evidence"][before[-1]],
            "falls": [predictive[at] - predictive[at + 1] for at in before],
            "rises": [(steps[at], steps[at + 1]) for at in before],
            "late_steps": float(np.mean(steps[len(steps) // 2 :])),
            "in_best_mode": int(np.sum(heights > np.max(heights) - SAME_MODE)),
            **count_alarms(ordered["alarms"], shuffled["alarms"], plan),
        }
    return summary


def count_alarms(ordered: list[dict], shuffled: list[dict], plan: dict) -> dict[str, int]:
    """Changes found within one chunk, and other alarms in both orders."""
    seen = [alarm["num_observations"] for alarm in ordered]
    found = sum(any(row < at <= row + plan["chunk_size"] for at in seen) for row in plan["changes"])
    return {"found": found, "false": len(seen) - found + len(shuffled)}


def draw(record: Record) -> Figure:
    """Draw the rows (Figure 1), the log evidence per row and the annealing steps (Figure 5)."""
    figure = Figure(figsize=(7, 8.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1.1, 3))
    draw_rows(above, record["histograms"])
    top, bottom = below.subplots(2, 1, sharex=True)
    plan = record["plan"]
    for count, color in zip(plan["num_components"], COLORS, strict=False):
        ordered, shuffled = (record["runs"][key(count, order)] for order in ORDERS)
        at = np.array(ordered["num_observations"])
        look = {"color": color, "linewidth": 1.4}
        top.plot(at, ordered["log_evidence"] / at, label=f"{count} components", **look)
        top.plot(at, shuffled["log_evidence"] / at, linestyle=LINE_STYLES[1], **look)
        bottom.plot(at, ordered["num_annealing_steps"], **look)
    top.plot([], [], color=COLORS[6], linestyle=LINE_STYLES[1], label="shuffled")
    top.plot([], [], color=COLORS[6], linewidth=0.8, label="clusters added")
    for ax in (top, bottom):
        for row in plan["changes"]:
            ax.axvline(row, color=COLORS[6], linewidth=0.8, zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    top.set_ylabel("log evidence per row (nats)")
    top.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    bottom.set(xlabel="number of rows", ylabel="annealing steps, in order", xscale="log", yscale="log")
    bottom.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    bottom.yaxis.set_minor_formatter("")
    bottom.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    bottom.xaxis.set_minor_formatter("")
    return figure


def draw_rows(figure: Figure, counts: dict[str, list[list[int]]]) -> None:
    """Draw a histogram for each part of the stream, each on its own scale."""
    axes = figure.subplots(1, len(counts), sharey=True)
    for ax, (name, values) in zip(axes, counts.items(), strict=True):
        ax.imshow(values, origin="lower", extent=(*RANGE, *RANGE), cmap="Blues", aspect="auto")
        ax.set_title(name, fontsize="small")
        ax.set_xlabel("$y_1$")
    axes[0].set_ylabel("$y_2$")


def table(record: Record) -> list[dict]:
    rows = []
    for count, entry in summarise(record).items():
        ordered, shuffled = (f"{value:,.0f}".replace("-", "−") for value in entry["log_evidence"])
        rows.append(
            {
                "components": count,
                "log evidence": ordered,
                "if shuffled": shuffled,
                "steps at the changes": ", ".join(f"{a} → {b}" for a, b in entry["rises"]),
                "steps later": round(entry["late_steps"], 1),
                "particles in best mode": entry["in_best_mode"],
                "density alarms, false": f"{entry['found']}, {entry['false']}",
            }
        )
    return rows


def check(record: Record) -> dict[str, bool]:
    """The papers' statements, and whether the numbers agree with each."""
    summary = summarise(record)
    worst, *others = summary.values()
    *too_few, most = summary.values()
    in_order = np.array([entry["log_evidence"][0] for entry in summary.values()])
    gaps = in_order[1:] - in_order[0]
    smallest = np.min(np.diff(np.sort(in_order)))
    falls, rises = (
        [each for entry in summary.values() for each in entry[name]] for name in ("falls", "rises")
    )
    return {
        "the fewest components are the worst after the first change": all(
            worst["at_last_change"] < entry["at_last_change"]
            and max(worst["log_evidence"]) < min(entry["log_evidence"])
            for entry in others
        ),
        "the other models are nearly alike": bool(np.ptp(gaps) < ALIKE * np.min(gaps)),
        "the order matters less than the model": bool(
            max(abs(entry["difference"]) for entry in summary.values()) < smallest
        ),
        "predictive densities fall at every change": all(fall > 0 for fall in falls),
        "annealing steps rise at every change": all(after > before for before, after in rises),
        "annealing steps stay high with too few components": all(
            entry["late_steps"] > HIGH * most["late_steps"] for entry in too_few
        ),
    }


def judge(record: Record) -> Verdict:
    """Agree if the numbers agree with all the papers' statements; name those that fail."""
    plan, summary = record["plan"], summarise(record)
    entries, best = summary.values(), max(entry["log_evidence"][0] for entry in summary.values())
    sentence = (
        f"on {plan['num_rows']:,} rows with {listed(summary, 'd')} components, the log evidence is "
        f"{listed([entry['log_evidence'][0] - best for entry in entries], ',.0f')} nats from the best; in order minus shuffled "
        f"{listed([entry['difference'] for entry in entries], '+,.0f')} nats. Annealing steps of a chunk in the second half of "
        f"the rows: {listed([entry['late_steps'] for entry in entries], '.1f')}; particles in the best mode, of ten: "
        f"{listed([entry['in_best_mode'] for entry in entries], 'd')}"
    )
    failed = [statement for statement, holds in check(record).items() if not holds]
    if failed:
        sentence += f". Not so: {'; '.join(failed)}"
    return Verdict(not failed, re.sub(r"-(?=\d)", "−", sentence) + ".")


def listed(numbers, form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in numbers)


EXPERIMENT = Experiment(
    name="distribution-shift",
    title="Clusters that appear in a stream",
    reproduces="Entropy paper, Figures 1 and 5; thesis, Figures 5.1 and 5.8",
    claim="Where clusters are added, the log evidence changes sharply and the annealing steps rise; 3 components are the worst, "
    "5 and 7 are nearly alike, whatever the order of the rows.",
    alt="Above, histograms of the rows before, between and after the changes and of all rows; in the middle, the log evidence per "
    "row of three mixtures, in order and shuffled; below, the annealing steps, which rise where clusters are added.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
