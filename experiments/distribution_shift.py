"""Clusters that appear in a stream: the papers' distribution shift, with alarms.

Of 100,000 rows in the plane, the first come from 3 Gaussian clusters, those from row 1,000 on from
5, and those from row 10,000 on from 7. Mixtures with 3, 5 and 7 components process them with
`ev.Online` in chunks of 500, in that order and shuffled. An `ev.ChangeDetector` watches each
mixture without changing it (on_change=None). A second detector watches the density of the rows
under a copy that saw only the first chunk (`ev.DensityHistogram`); a wrong model cannot mislead
it. The checks are:

  - in order, every model that cannot describe a change shows it within one chunk: the log
    predictive density of the chunk falls, the annealing steps rise, and there is an alarm;
  - shuffled, nothing changes, and there is no alarm;
  - the log evidence of all rows does not depend on their order, for the model that can describe
    them all. A model with fewer components has several poor modes, and the order decides in which
    one the particles settle.

The full form takes hours on 2 cores; the run stored in results/ has 20,000 rows, including both
changes. The positions and widths of the papers' clusters and the values of their figures are not
available: the clusters are ours.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, section 6.2 and Figure 5; Cameron
(2020), MSc thesis, Figure 5.8.
"""

import re
import sys
import time
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import evidentia as ev
from evidentia.display.plots import COLORS, LINE_STYLES
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings, Verdict

ORDERS = ("in order", "shuffled")
PUBLISHED_ROWS = 100_000


class Plan(NamedTuple):
    """Rows of the stream, of its changes and of a chunk, and settings of models and detectors."""

    num_rows: int = PUBLISHED_ROWS
    changes: tuple[int, ...] = (1_000, 10_000)
    chunk_size: int = 500
    num_particles: int = 512
    false_alarm_rate: float = 1e-4
    max_candidates: int = 4
    num_clusters: tuple[int, ...] = (3, 5, 7)
    num_components: tuple[int, ...] = (3, 5, 7)


# One model: compilation takes most of the time.
QUICK = Plan(800, (400,), 200, 128, max_candidates=2, num_clusters=(1, 3), num_components=(3,))


def simulate(plan: Plan, order: str, seed: int = 0) -> np.ndarray:
    """Rows (num_rows, 2); all clusters present at a row are equally probable."""
    generator = np.random.default_rng(seed)
    # On a circle, with different sizes: no two clusters overlap.
    most = plan.num_clusters[-1]
    angles = 2 * np.pi * generator.permutation(most) / most
    centres = 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    scales = generator.uniform(0.15, 0.4, most)
    part = np.searchsorted(plan.changes, np.arange(plan.num_rows), "right")
    available = np.array(plan.num_clusters)[part]
    cluster = generator.integers(0, available)
    rows = centres[cluster] + scales[cluster, None] * generator.normal(size=(plan.num_rows, 2))
    if order == "shuffled":
        rows = generator.permutation(rows)
    return rows.astype(np.float32)


def make_online(num_components: int, plan: Plan, seed: int):
    model = ev.models.gaussian_mixture(num_components=num_components, num_features=2)
    return ev.Online(model, method=ev.SGAIS(num_particles=plan.num_particles), seed=seed)


def watch(count: int, order: str, plan: Plan, seed: int) -> dict:
    """Feed the rows to a model chunk by chunk; return a column per quantity, and the alarms."""
    online, rows = make_online(count, plan, seed), simulate(plan, order, seed)
    detector = ev.ChangeDetector(online, plan.false_alarm_rate, max_candidates=plan.max_candidates, seed=seed)
    chunks, alarms, started = [], [], time.perf_counter()
    for start in range(0, len(rows), plan.chunk_size):
        report = detector.update({"y": rows[start : start + plan.chunk_size]})
        update = report.update
        chunks.append(
            {
                "num_observations": int(update.num_observations),
                "log_predictive_per_row": round(float(update.log_predictive / update.batch_size), 5),
                "log_evidence": round(float(update.log_evidence), 4),
                "standard_error": round(float(update.standard_error), 5),
                "num_annealing_steps": int(update.num_annealing_steps),
                "annealing_spike": bool(report.annealing_spike),
                "log_e_value": round(float(report.log_e_value), 3)
                if np.isfinite(report.log_e_value)
                else None,
            }
        )
        if report.alarm:
            alarms.append(report.alarm._asdict())
        if len(chunks) % 20 == 0:
            passed = f"{time.perf_counter() - started:,.0f} s"
            print(f"{key(count, order)}: {update.num_observations:,} rows, {passed}", file=sys.stderr)
    seconds = round(time.perf_counter() - started, 1)
    columns = {name: [chunk[name] for chunk in chunks] for name in chunks[0]}
    by_density = watch_densities(online, rows, plan, seed)
    return columns | {"alarms": alarms, "density_alarms": by_density, "seconds": seconds}


def watch_densities(online, rows: np.ndarray, plan: Plan, seed: int) -> list[dict]:
    """Alarms of a histogram fitted to the first chunk, and refitted after each alarm."""
    detector, alarms, first = None, [], 0
    for start in range(0, len(rows), plan.chunk_size):
        chunk = {"y": rows[start : start + plan.chunk_size]}
        if detector is None:
            histogram, first = ev.DensityHistogram.fit(online, chunk, seed=seed), start
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
            key(count, order), partial(watch, count, order, plan, settings.seed)
        )
        for order in ORDERS
        for count in plan.num_components
    }
    return {"plan": plan._asdict(), "runs": runs}


def summarise(record: Record) -> dict[int, dict]:
    """For each number of components: changes found, other alarms, evidence in both orders."""
    summary = {}
    for count in record["plan"]["num_components"]:
        ordered, shuffled = (record["runs"][key(count, order)] for order in ORDERS)
        alarms = {
            kind: count_alarms(ordered[kind], shuffled[kind], record["plan"])
            for kind in ("alarms", "density_alarms")
        }
        before = [ordered["num_observations"].index(row) for row in record["plan"]["changes"]]
        predictive, steps = ordered["log_predictive_per_row"], ordered["num_annealing_steps"]
        summary[count] = {
            **alarms,
            "log_evidence": [found["log_evidence"][-1] for found in (ordered, shuffled)],
            "difference": ordered["log_evidence"][-1] - shuffled["log_evidence"][-1],
            "joint_error": float(np.hypot(ordered["standard_error"][-1], shuffled["standard_error"][-1])),
            "smallest_fall": min(predictive[at] - predictive[at + 1] for at in before),
            "smallest_rise": min(steps[at + 1] / steps[at] for at in before),
            "largest_rise_shuffled": float(np.max(np.divide(*_next_and_before(shuffled)))),
        }
    return summary


def _next_and_before(run: dict) -> tuple[np.ndarray, np.ndarray]:
    steps = np.array(run["num_annealing_steps"])
    return steps[1:], steps[:-1]


def count_alarms(ordered: list[dict], shuffled: list[dict], plan: dict) -> dict[str, int]:
    """Changes found within one chunk, other alarms in order, and alarms when shuffled."""
    seen = [alarm["num_observations"] for alarm in ordered]
    found = sum(any(row < at <= row + plan["chunk_size"] for at in seen) for row in plan["changes"])
    return {"found": found, "other": len(seen) - found, "shuffled": len(shuffled)}


def draw(record: Record) -> Figure:
    """Plot the log predictive density with alarms, and below it the annealing steps, per chunk."""
    plan = record["plan"]
    figure = Figure(figsize=(7, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    for index, count in enumerate(plan["num_components"]):
        found, color = record["runs"][key(count, "in order")], COLORS[index]
        at, value = found["num_observations"], found["log_predictive_per_row"]
        look = {
            "color": color,
            "linestyle": LINE_STYLES[index],
            "linewidth": 1.2,
            "marker": "" if len(at) > 10 else ".",
        }
        top.plot(at, value, label=f"{count} components", **look)
        bottom.plot(at, found["num_annealing_steps"], **look)
        seen = [at.index(alarm["num_observations"]) for alarm in found["alarms"]]
        top.plot([at[i] for i in seen], [value[i] for i in seen], "v", color=color, markersize=7)
    for ax in (top, bottom):
        for row in plan["changes"]:
            ax.axvline(row, color=COLORS[6], linewidth=1)
        ax.spines[["top", "right"]].set_visible(False)
    top.plot([], [], "v", color=COLORS[6], label="alarm")
    top.plot([], [], color=COLORS[6], linewidth=1, label="clusters added")
    top.set_ylabel("log predictive density\nper row of the chunk (nats)")
    top.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    bottom.set(xlabel="number of observations", ylabel="annealing steps of the chunk", yscale="log")
    bottom.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    bottom.yaxis.set_minor_formatter("")
    if plan["num_rows"] > 10 * plan["chunk_size"]:
        bottom.set_xscale("log")
    bottom.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return figure


def table(record: Record) -> list[dict]:
    rows = []
    for count, entry in summarise(record).items():
        alarms = record["runs"][key(count, "in order")]["alarms"]
        ordered, shuffled = (f"{value:,.2f}".replace("-", "−") for value in entry["log_evidence"])
        rows.append(
            {
                "components": count,
                "alarms after row": ", ".join(f"{alarm['num_observations']:,}" for alarm in alarms) or "none",
                "shuffled": entry["alarms"]["shuffled"] or "none",
                "log evidence": ordered,
                "if shuffled": shuffled,
                "error": round(entry["joint_error"], 3),
            }
        )
    return rows


def judge(record: Record) -> Verdict:
    """Agree if each change shows and alarms the histogram, nothing else does, and evidences agree.

    A change shows if the predictive density falls and the annealing steps rise more than they ever
    do on the shuffled rows. The evidences in both orders may differ by four standard errors, for
    the model that can describe all rows. The guarantee on alarms holds for the histogram whatever
    the model; alarms by evidence are counted but not judged, as most of these models are wrong.
    """
    plan, summary = record["plan"], summarise(record)
    entries, num_changes = list(summary.values()), len(plan["changes"])
    found = {kind: sum(entry[kind]["found"] for entry in entries) for kind in ("alarms", "density_alarms")}
    false = {kind: sum(entry[kind]["other"] + entry[kind]["shuffled"] for entry in entries) for kind in found}
    is_plain = all(
        entry["smallest_fall"] > 0 and entry["smallest_rise"] > entry["largest_rise_shuffled"]
        for entry in entries
    )
    able = summary[max(summary)]
    agrees = (
        is_plain
        and found["density_alarms"] == num_changes * len(entries)
        and false["density_alarms"] == 0
        and abs(able["difference"]) < 4 * able["joint_error"]
    )
    rise, usual = (
        pick(entry[name] for entry in entries)
        for pick, name in ((min, "smallest_rise"), (max, "largest_rise_shuffled"))
    )
    total = num_changes * len(entries)
    sentence = (
        f"on {plan['num_rows']:,} of the papers' {PUBLISHED_ROWS:,} rows, the annealing steps rise {rise:.1f}-fold or more "
        f"{'at the change' if total == 1 else f'at {total} changes'} (at most {usual:.1f}-fold if shuffled); alarms within a "
        f"chunk: {found['alarms']} by evidence, {found['density_alarms']} by density; other alarms in both orders: "
        f"{false['alarms']} and {false['density_alarms']}. In order and shuffled the log evidence differs by "
        f"{able['difference']:+.3f} ± {able['joint_error']:.3f} nats with {max(summary)} components, which can describe all rows"
    )
    wrong = [
        f"{entry['difference']:+,.1f} with {count}" for count, entry in summary.items() if entry is not able
    ]
    if wrong:
        sentence += f", and by {' and '.join(wrong)}, which cannot"
    return Verdict(bool(agrees), re.sub(r"-(?=\d)", "−", sentence) + ".")


EXPERIMENT = Experiment(
    name="distribution-shift",
    title="Clusters that appear in a stream",
    reproduces="Entropy paper, Figure 5; thesis, Figure 5.8",
    claim="Where clusters are added, the predictive density of the next chunk falls and its annealing steps rise, and the log "
    "evidence of all rows stays correct.",
    alt="Above, the log predictive density of the chunks against the number of rows, which falls at each change, marked by an "
    "alarm; below, the annealing steps, which rise there.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
