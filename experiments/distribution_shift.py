"""Clusters that appear: the papers' experiment on a change of distribution, with alarms.

    python -m experiments.distribution_shift                 # hours on 2 cores
    python -m experiments.distribution_shift --rows 20000    # both changes, and 10,000 rows more
    python -m experiments.distribution_shift --quick --out somewhere

Rows in the plane come from 3 Gaussian clusters, from row 1,000 on from 5, from row 10,000 on from 7, of 100,000. Mixtures with
3, 5 and 7 components take them in by `ev.Online` in chunks of 500, in that order and shuffled, watched by an
`ev.ChangeDetector` that leaves them alone (on_change=None), and by another one of how probable a copy of the model that saw
only the first chunk finds the rows (`ev.DensityHistogram`), which a wrong model cannot mislead. What `summarise` looks at:

  - in order, every model that cannot describe a change sees it within one chunk: the log predictive density of the chunk
    falls, the annealing steps rise, and there is an alarm;
  - shuffled, nothing changes, and there is no alarm;
  - the log evidence of all rows does not depend on their order: the two differ by less than their errors.

Each run is written to the JSON file as it ends, and not repeated when the script is called again.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, section 5.2 and Figure 5.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import evidentia as ev
from evidentia.plot import COLORS, LINE_STYLES

NUM_CLUSTERS = (3, 5, 7)
ORDERS = ("in order", "shuffled")


class Plan(NamedTuple):
    """Rows in all, the rows with which clusters are added, rows of a chunk, particles."""

    num_rows: int = 100_000
    changes: tuple[int, int] = (1_000, 10_000)
    chunk_size: int = 500
    num_particles: int = 512
    false_alarm_rate: float = 1e-4
    max_candidates: int = 4


QUICK = Plan(3_000, (500, 1_500), 250, 128)


def simulate(plan, order, seed=0):
    """Rows (num_rows, 2): all clusters that there are at a row are equally probable."""
    generator = np.random.default_rng(seed)
    # On a circle, each of another size: no two overlap, and the number of clusters is plain to see.
    angles = 2 * np.pi * generator.permutation(NUM_CLUSTERS[-1]) / NUM_CLUSTERS[-1]
    centres = 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    scales = generator.uniform(0.15, 0.4, NUM_CLUSTERS[-1])
    available = np.array(NUM_CLUSTERS)[np.searchsorted(plan.changes, np.arange(plan.num_rows), "right")]
    cluster = generator.integers(0, available)
    rows = centres[cluster] + scales[cluster, None] * generator.normal(size=(plan.num_rows, 2))
    if order == "shuffled":
        rows = generator.permutation(rows)
    return rows.astype(np.float32)


def make_online(num_components, plan, seed):
    model = ev.models.gaussian_mixture(num_components=num_components, num_features=2)
    return ev.Online(model, method=ev.SGAIS(num_particles=plan.num_particles), seed=seed)


def watch(online, rows, plan, seed=0):
    """Feed the rows chunk by chunk; one entry per chunk, and the alarms."""
    detector = ev.ChangeDetector(online, plan.false_alarm_rate, max_candidates=plan.max_candidates, seed=seed)
    chunks, alarms, started = [], [], time.perf_counter()
    for start in range(0, len(rows), plan.chunk_size):
        chunk = {"y": rows[start : start + plan.chunk_size]}
        report = detector.update(chunk)
        update = report.update
        chunks.append(
            {
                "num_observations": int(update.num_observations),
                "log_predictive_per_row": float(update.log_predictive / update.batch_size),
                "log_evidence": float(update.log_evidence),
                "standard_error": float(update.standard_error),
                "num_annealing_steps": int(update.num_annealing_steps),
                "annealing_spike": bool(report.annealing_spike),
                "log_e_value": report.log_e_value if np.isfinite(report.log_e_value) else None,
            }
        )
        if len(chunks) % 20 == 0:
            print(f"  {update.num_observations:,} rows, {time.perf_counter() - started:,.0f} s", flush=True)
        if report.alarm:
            alarms.append(report.alarm._asdict())
            print(f"  {report.alarm}", flush=True)
    seconds = round(time.perf_counter() - started, 1)
    by_density = watch_densities(online, rows, plan, seed)
    return {"chunks": chunks, "alarms": alarms, "density_alarms": by_density, "seconds": seconds}


def watch_densities(online, rows, plan, seed=0):
    """Alarms of a histogram that is fitted to the first chunk, and anew to the chunk after each alarm."""
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


def summarise(found, plan):
    """Per number of components: which changes were found within a chunk, other alarms, evidences in both orders."""
    summary = {}
    for count in NUM_CLUSTERS:
        if any(key(count, order) not in found for order in ORDERS):
            continue
        ordered, shuffled = (found[key(count, order)] for order in ORDERS)
        alarms = {kind: _count(ordered[kind], shuffled[kind], plan) for kind in ("alarms", "density_alarms")}
        last = [run["chunks"][-1] for run in (ordered, shuffled)]
        difference = last[0]["log_evidence"] - last[1]["log_evidence"]
        summary[count] = {
            **alarms,
            "log_evidence": [entry["log_evidence"] for entry in last],
            "difference_in_order_minus_shuffled": difference,
            "joint_standard_error": float(np.hypot(*(entry["standard_error"] for entry in last))),
        }
    return summary


def _count(ordered, shuffled, plan):
    seen = [alarm["num_observations"] for alarm in ordered]
    in_time = {row: any(row < at <= row + plan.chunk_size for at in seen) for row in plan.changes}
    return {
        "found_within_one_chunk": in_time,
        "other_alarms": len(seen) - sum(in_time.values()),
        "alarms_shuffled": len(shuffled),
    }


def key(count, order):
    return f"{count} components, {order}"


def draw(found, plan, path):
    """Log predictive density of the chunks in order, alarms as triangles; below, their annealing steps."""
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, layout="constrained")
    for count, color, style in zip(NUM_CLUSTERS, COLORS, LINE_STYLES, strict=False):
        if key(count, "in order") not in found:
            continue
        run = found[key(count, "in order")]
        chunks = run["chunks"]
        at = [chunk["num_observations"] for chunk in chunks]
        value = [chunk["log_predictive_per_row"] for chunk in chunks]
        look = {"color": color, "linestyle": style, "linewidth": 1.2}
        top.plot(at, value, label=f"{count} components", **look)
        bottom.plot(at, [chunk["num_annealing_steps"] for chunk in chunks], **look)
        seen = [at.index(alarm["num_observations"]) for alarm in run["alarms"]]
        top.plot([at[i] for i in seen], [value[i] for i in seen], "v", color=color, markersize=7)
    for axes in (top, bottom):
        for row in plan.changes:
            axes.axvline(row, color=COLORS[6], linewidth=1)
        axes.spines[["top", "right"]].set_visible(False)
    top.plot([], [], "v", color=COLORS[6], label="alarm")
    top.plot([], [], color=COLORS[6], linewidth=1, label="clusters added")
    top.set_ylabel("log predictive density\nper row of the chunk (nats)")
    top.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    bottom.set_ylabel("annealing steps of the chunk")
    bottom.set_xlabel("number of observations")
    bottom.set_xscale("log")
    bottom.set_yscale("log")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3,000 rows and few particles: minutes")
    parser.add_argument("--rows", type=int, default=Plan().num_rows, help="in all")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    plan = QUICK if arguments.quick else Plan(num_rows=arguments.rows)
    path = arguments.out / "distribution_shift.json"
    stored = json.loads(path.read_text()) if path.is_file() else {}
    settings = {**json.loads(json.dumps(plan._asdict())), "seed": arguments.seed}
    found = stored["runs"] if stored.get("plan") == settings else {}
    for order in ORDERS:
        rows = simulate(plan, order, arguments.seed)
        for count in NUM_CLUSTERS:
            if key(count, order) in found:
                continue
            print(key(count, order), flush=True)
            online = make_online(count, plan, arguments.seed)
            found[key(count, order)] = watch(online, rows, plan, arguments.seed)
            result = {"plan": settings, "summary": summarise(found, plan), "runs": found}
            path.write_text(json.dumps(result) + "\n")
    print(json.dumps(summarise(found, plan), indent=1))
    draw(found, plan, arguments.out / "distribution_shift.png")


if __name__ == "__main__":
    main()
