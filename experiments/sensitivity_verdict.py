"""Figure, table and verdict of `sensitivity`.

A study agrees if each quantity changes from one end of the range to the other as the paper says,
and if errors that it calls acceptable are below 0.1 nats per row, what the MaxEnt paper calls so.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from evidentia.display.plots import COLORS
from experiments.execute import cell
from experiments.experiment import Verdict

ACCEPTABLE = 0.1  # nats per row: Cameron, Eggers, Kroon (2019), MaxEnt, section 5
WORDS = {"error": "error", "seconds": "time", "annealing_steps": "number of annealing steps"}
WORDS["steps_per_chunk"] = "number of annealing steps per chunk"


def mean(values):
    return float(np.mean(values))


def quantity_of(run, name):
    """The root mean square of the errors, the mean of another quantity."""
    return mean(np.square(run[name])) ** 0.5 if name == "error" else mean(run[name])


def judge(study, record):
    """Agree if all quantities change as the paper says, and errors are as small as it says."""
    values, runs, rows = record["values"], record["runs"], record["rows"]
    changes, wrong = [], []
    for name, sign in study.trends.items():
        first, last = (quantity_of(run, name) for run in (runs[0], runs[-1]))
        changes.append(f"the {WORDS[name]} from {cell(first)} to {cell(last)}")
        if not (last - first) * sign > 0:
            wrong.append(f"the {WORDS[name]} should {'grow' if sign > 0 else 'fall'}")
    for value, found in zip(values, runs, strict=True):
        per_row = quantity_of(found, "error") / rows
        if value in study.acceptable and not per_row < ACCEPTABLE:
            wrong.append(f"the error at {value:g} is {cell(per_row)} nats per row")
    sentence = (
        f"From a {study.setting} of {values[0]:g} to one of {values[-1]:g}, on {rows:,} rows, "
        f"{' and '.join([', '.join(changes[:-1]), changes[-1]] if len(changes) > 1 else changes)} (error in nats, "
        "time in seconds)."
    )
    if wrong:
        sentence += f" But {'; '.join(wrong)}."
    return Verdict(not wrong, sentence)


def table(study, record):
    """A row for each value, and one for the reference."""
    rows = zip([*record["values"], "ev.Laplace()"], [*record["runs"], record["reference"]], strict=True)
    return [
        {
            study.setting: value if isinstance(value, str) else f"{value:g}",
            "error (nats)": quantity_of(run, "error"),
            "error per row": quantity_of(run, "error") / record["rows"],
            "time (s)": mean(run["seconds"]),
            "annealing steps": mean(run["annealing_steps"]) if value != "ev.Laplace()" else None,
            "per chunk": mean(run["steps_per_chunk"]) if value != "ev.Laplace()" else None,
        }
        for value, run in rows
    ]


def draw(study, record):
    """Error, time and annealing steps against the setting."""
    figure = Figure(figsize=(10, 3.7), layout="constrained")
    panels = figure.subplots(1, 3)
    labels = {
        "error": "error (nats per row)",
        "seconds": "processor time (seconds)",
        "annealing_steps": "annealing steps",
    }
    for axes, (name, label) in zip(panels, labels.items(), strict=True):
        _panel(axes, study, record, name)
        axes.set_ylabel(label)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def _panel(axes, study, record, name):
    values, scale = record["values"], record["rows"] if name == "error" else 1
    heights = [quantity_of(run, name) / scale for run in record["runs"]]
    axes.plot(values, heights, "o-", markersize=4, color=COLORS[0], label="SGAIS as published")
    at = values.index(study.published)
    label = f"published value, {study.published:g}"
    axes.plot(values[at], heights[at], "D", markersize=8, color=COLORS[0], label=label)
    if name == "seconds":
        seconds = quantity_of(record["reference"], name)
        axes.axhline(seconds, color=COLORS[1], linestyle="--", label="ev.Laplace()")
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(study.setting)
    axes.spines[["top", "right"]].set_visible(False)
