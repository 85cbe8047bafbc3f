"""The section of a report that shows a stream, drawn from the journal of its updates."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evidentia.display.stream_plot import StreamCurves, draw_stream
from evidentia.monitor.e_detector import Change
from evidentia.report.pictures import Picture, png
from evidentia.report.section import Section


def stream_section(journal: Path) -> Section | None:
    """The section of a run; None if its journal has no line."""
    curves = _curves(journal)
    if not len(curves.num_observations):
        return None
    several = bool(curves.probabilities)
    figure = Figure(figsize=(8, 6.4 if several else 4.2), layout="constrained")
    draw_stream(curves, figure.subplots(2, 1, sharex=True) if several else [figure.subplots()])
    models = ", ".join(curves.log_predictive)
    shown = "Top: how well" if several else "How well"
    picture = Picture(
        "stream",
        f"Log predictive density per row of {len(curves.num_observations)} batches by {models}, against rows, with "
        f"{len(curves.changes)} changes.",
        f"{shown} each batch was predicted from the rows before it. "
        + "Bottom: model probabilities after each batch. " * several
        + "A solid line is the row of a change, in the area of its interval; a dotted line the row at which it was seen."
        * bool(curves.changes),
        png(figure),
    )
    return Section("The stream, batch by batch", pictures=[picture])


def _curves(journal: Path) -> StreamCurves:
    counts: list[int] = []
    predictive: dict[str, list[float]] = {}
    probabilities: dict[str, list[float]] = {}
    changes = list[Change]()
    with journal.open(encoding="utf-8") as file:
        for line in file:
            update: dict[str, Any] = json.loads(line)
            counts.append(update["num_observations"])
            for name, model in update["models"].items():
                density = _number(model["log_predictive"]) / update["batch_size"]
                predictive.setdefault(name, []).append(density)
                probabilities.setdefault(name, []).append(_number(model["probability"]))
            for alarm in update["alarms"]:
                changes.append(Change(**{name: alarm[name] for name in Change._fields}))
    if len(probabilities) < 2:
        probabilities = {}
    return StreamCurves(
        np.array(counts),
        {name: np.array(values) for name, values in predictive.items()},
        {name: np.array(values) for name, values in probabilities.items()},
        changes,
    )


def _number(value: float | None) -> float:
    """A number of JSON, where None stands for what is not finite."""
    return np.nan if value is None else value
