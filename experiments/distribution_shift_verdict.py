"""Summary, figure, table and verdict of `distribution_shift`.

A statement of the papers agrees if it holds for most of the seeds: the papers have one run. The
sentence gives the number of seeds for each statement that does not hold for all.
"""

import re

import numpy as np
from matplotlib.figure import Figure

from evidentia.display.plots import COLORS, LINE_STYLES
from experiments.experiment import Record, Verdict

ORDERS = ("in order", "shuffled")
RANGE, NUM_BINS = (-4.5, 4.5), 45  # of the histograms, in both directions
ALIKE = 0.1  # nearly alike: models whose difference is this fraction of that to the worst
SAME_MODE = 0.01  # nats per row of the best particle: 5 nats of a chunk
HIGH = 2.0  # annealing steps stay high if they are this many times those of the largest model


def key(count: int, order: str) -> str:
    return f"{count} components, {order}"


def summarise(plan: dict, runs: Record) -> list[dict]:
    """For each number of components: evidence, changes, steps, particles and alarms."""
    summary = []
    for count in plan["num_components"]:
        ordered, shuffled = (runs[key(count, order)] for order in ORDERS)
        before = [ordered["num_observations"].index(row) for row in plan["changes"]]
        predictive, steps = ordered["log_predictive_per_row"], ordered["num_annealing_steps"]
        heights = np.array(ordered["particles_log_likelihood_per_row"])
        summary.append(
            {
                "components": count,
                "num_rows": plan["num_rows"],
                "log_evidence": [found["log_evidence"][-1] for found in (ordered, shuffled)],
                "at_last_change": ordered["log_evidence"][before[-1]],
                "falls": [predictive[at] - predictive[at + 1] for at in before],
                "rises": [[steps[at], steps[at + 1]] for at in before],
                "late_steps": float(np.mean(steps[len(steps) // 2 :])),
                "in_best_mode": int(np.sum(heights > np.max(heights) - SAME_MODE)),
                **count_alarms(ordered["alarms"], shuffled["alarms"], plan),
            }
        )
    return summary


def count_alarms(ordered: list[dict], shuffled: list[dict], plan: dict) -> dict[str, int]:
    """Changes found within one chunk, and other alarms in both orders."""
    seen = [alarm["num_observations"] for alarm in ordered]
    found = sum(any(row < at <= row + plan["chunk_size"] for at in seen) for row in plan["changes"])
    return {"found": found, "false": len(seen) - found + len(shuffled)}


def check(summary: list[dict]) -> dict[str, bool]:
    """The papers' statements, and whether the runs of a seed agree with each."""
    worst, *others = summary
    *too_few, most = summary
    in_order = np.array([entry["log_evidence"][0] for entry in summary])
    gaps = in_order[1:] - in_order[0]
    return {
        "the fewest components are the worst after the first change": all(
            worst["at_last_change"] < entry["at_last_change"]
            and max(worst["log_evidence"]) < min(entry["log_evidence"])
            for entry in others
        ),
        "the other models are nearly alike": bool(np.ptp(gaps) < ALIKE * np.min(gaps)),
        "the order matters less than the model": bool(
            max(abs(ordered - shuffled) for ordered, shuffled in (e["log_evidence"] for e in summary))
            < np.min(np.diff(np.sort(in_order)))
        ),
        "predictive densities fall at every change": all(fall > 0 for e in summary for fall in e["falls"]),
        "annealing steps rise at every change": all(
            after > before for e in summary for before, after in e["rises"]
        ),
        "annealing steps stay high with too few components": all(
            entry["late_steps"] > HIGH * most["late_steps"] for entry in too_few
        ),
    }


def judge(record: Record) -> Verdict:
    """Agree if each of the papers' statements holds for most seeds; name those that do not."""
    plan, summaries = record["plan"], record["summaries"]
    per_row = evidence_per_row(summaries)
    above, apart = per_row[..., 0] - per_row[:, :1, 0], per_row[..., 0] - per_row[..., 1]
    falls, rises = column(summaries, "falls"), column(summaries, "rises")
    seeds = f"{len(summaries)} seed{'s' if len(summaries) > 1 else ''}"
    again = f" (with the others {plan['num_rows_again']:,})" if len(summaries) > 1 else ""
    sentence = (
        f"on {plan['num_rows']:,} rows with the first of {seeds}{again}, with {listed(plan['num_components'], 'd')} components: "
        f"log evidence above that of the fewest components {listed(above.mean(0), '.4f')} nats per row; in order minus shuffled "
        f"{listed(apart.mean(0), '+.4f')}. At the changes, on average over the models, predictive densities fall by "
        f"{listed(falls.mean((0, 1)), '.2f')} nats per row, and annealing steps of a chunk go from "
        f"{listed(rises[..., 0].mean((0, 1)), '.0f')} to {listed(rises[..., 1].mean((0, 1)), '.0f')}; in the second half of the rows "
        f"they are {listed(column(summaries, 'late_steps').mean(0), '.1f')}. Particles in the best mode, of ten: "
        f"{listed(column(summaries, 'in_best_mode').mean(0), '.1f')}"
    )
    held = {name: sum(check(each)[name] for each in summaries) for name in check(summaries[0])}
    partly = [f"{name} ({count} of {seeds})" for name, count in held.items() if count < len(summaries)]
    if partly:
        sentence += f". Not always so: {'; '.join(partly)}"
    agrees = all(2 * count > len(summaries) for count in held.values())
    return Verdict(agrees, re.sub(r"-(?=\d)", "−", sentence) + ".")


def column(summaries: list[list[dict]], name: str) -> np.ndarray:
    """One quantity of all summaries, (seeds, models, …)."""
    return np.array([[entry[name] for entry in summary] for summary in summaries], float)


def evidence_per_row(summaries: list[list[dict]]) -> np.ndarray:
    """Log evidence over the number of rows, (seeds, models, orders)."""
    return column(summaries, "log_evidence") / column(summaries, "num_rows")[..., None]


def listed(numbers, form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in numbers)


def table(record: Record) -> list[dict]:
    """Means over the seeds; the log evidence is per row."""
    rows = []
    for index, count in enumerate(record["plan"]["num_components"]):
        entries = [[summary[index]] for summary in record["summaries"]]
        ordered, shuffled = evidence_per_row(entries)[:, 0].mean(0)
        rises = column(entries, "rises")[:, 0].mean(0)
        found, false = (column(entries, name).mean() for name in ("found", "false"))
        rows.append(
            {
                "components": count,
                "log evidence per row": f"{ordered:.4f}".replace("-", "−"),
                "if shuffled": f"{shuffled:.4f}".replace("-", "−"),
                "steps at the changes": ", ".join(f"{a:.0f} → {b:.0f}" for a, b in rises),
                "steps later": round(float(column(entries, "late_steps").mean()), 1),
                "particles in best mode": round(float(column(entries, "in_best_mode").mean()), 1),
                "density alarms, false": f"{found:.1f}, {false:.1f}",
            }
        )
    return rows


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
