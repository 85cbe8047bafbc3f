"""The picture of `error_model`: all repeats, and climbs on one data set as in Figures 7 and 8."""

import numpy as np
from matplotlib.figure import Figure

from evidentia.display.plots import COLORS, LINE_STYLES
from experiments.error_models import FREEDOM, NAMES
from experiments.experiment import Record

LABELS = {"gaussian": "Gaussian", "student": "Student-t"}
PARAMETERS = {"log σ²": 0.0, "log α": 0.0, "log ν": np.log(FREEDOM)}  # and their true values
EVERY = 10  # steps between those of a climb that are kept


def draw(record: Record) -> Figure:
    sizes = sorted({found["rows"] for found in record.values()})
    figure = Figure(figsize=(9, 5 + 4.6 * len(sizes)), layout="constrained")
    above, *others = figure.subfigures(1 + len(sizes), 1, height_ratios=[5, *[4.6] * len(sizes)])
    _draw_all_repeats(above, record)
    for part, size in zip(others, sizes, strict=True):
        part.suptitle(f"one data set of {size:,} rows", fontsize="medium")
        panels = part.subplots(len(NAMES), 3)
        for row, truth in zip(panels, NAMES, strict=True):
            (climbs,) = (
                each["first_repeat"]
                for each in record.values()
                if (each["truth"], each["rows"]) == (truth, size)
            )
            _draw_climbs(row, truth, climbs)
    return figure


def _draw_all_repeats(figure, record: Record) -> None:
    """Bayes factors of all repeats, and errors along the climbs where exact values are known."""
    (top, bottom), (below, theta) = figure.subplots(2, 2)
    for (label, found), color, style in zip(record.items(), COLORS, LINE_STYLES, strict=False):
        ordered = np.sort(found["log_bayes_factors"]["published"])
        look = {"color": color, "linestyle": style, "label": label}
        top.plot(ordered, (np.arange(len(ordered)) + 1) / len(ordered), **look)
        if "steps" not in found:
            continue
        errors, apart = np.array(found["log_evidence_errors"]), np.array(found["theta_minus_maximiser"])
        mean, error = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
        bottom.plot(found["steps"], mean, **look)
        bottom.fill_between(found["steps"], mean - 2 * error, mean + 2 * error, color=color, alpha=0.2, lw=0)
        for ax, index in ((below, 0), (theta, 1)):
            ax.plot(found["steps"], np.abs(apart[..., index]).mean(axis=0), **look)
    top.axvline(0, color=COLORS[6], linewidth=1)
    top.set_xlabel("log Bayes factor of the truth (nats)")
    top.set_ylabel("share of repeats at or below")
    bottom.axhline(0, color=COLORS[6], linewidth=1)
    bottom.set_ylabel("log evidence − exact (nats),\nmean ± 2 standard errors")
    below.set_ylabel("|log σ² − maximiser|, mean")
    theta.set_ylabel("|log α − maximiser|, mean")
    for ax in (bottom, below, theta):
        ax.set_xlabel("step")
    for ax in (below, theta):
        ax.set_ylim(0)
    for ax in (top, bottom, below, theta):
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(*top.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)


def _draw_climbs(panels, truth: str, climbs: Record) -> None:
    """θ of both models, with dotted true values, and their log Z, against the step."""
    *of_theta, right = panels
    for ax, name, look in zip(of_theta, NAMES, LINE_STYLES, strict=False):
        values = np.array(climbs[name]["theta"])
        steps = EVERY * np.arange(len(values))
        for path, (label, true), color in zip(values.T, PARAMETERS.items(), COLORS, strict=False):
            ax.plot(steps, path, color=color, label=label)
            if label != "log ν" or truth == "student":
                ax.axhline(true, color=color, linestyle=":", linewidth=1)
        ax.set_title(f"{LABELS[truth]} data, {LABELS[name]} model", fontsize="small")
        right.plot(
            steps,
            climbs[name]["log_evidence"],
            color=COLORS[6],
            linestyle=look,
            label=f"{LABELS[name]} model",
        )
    of_theta[1].legend(frameon=False, fontsize="small")
    right.set_ylabel("log evidence (nats)")
    right.legend(frameon=False, fontsize="small")
    for ax in panels:
        ax.set_xlabel("step")
        ax.spines[["top", "right"]].set_visible(False)
