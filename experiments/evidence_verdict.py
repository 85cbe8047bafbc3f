"""Figure, table and verdict of `evidence_against_rows`.

The verdict uses each estimator at the largest number of rows on which it ran. It agrees if

  - the errors of SGAIS and of the sequential estimator are at most three times the published share
    of log Z, plus two standard errors: the papers' value is one run on other data, or the
    difference from nested sampling;
  - nested sampling and AIS take longer than SGAIS, and nested sampling longer than the sequential
    estimator: a ratio below one differs, however near to one it is.

All figures of the papers are for 10⁶ rows. Fewer rows are a harder test: the share of log Z that
is lost at the start is larger, and so is the share of time that does not depend on N.
"""

import math
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from evidentia.display.plots import COLORS, LINE_STYLES
from experiments.experiment import Record, Verdict

ADAPTED = "nested sampling, adapted"  # with steps of our length
MARKERS = "os^DPv*"
TIMES_AS_FAR = 3.0  # allowed error, relative to the published one


class Published(NamedTuple):
    """Errors in percent of log Z, and ratios of times of pairs of methods, first over second."""

    percent: dict[str, float]
    ratios: dict[tuple[str, str], float]


# Entropy 21(11), 1109 for SGAIS and AIS; Proceedings 33(1), 18 for the sequential estimator: all
# at 10⁶ rows.
PUBLISHED_ROWS = 1_000_000
PUBLISHED = {
    "linear": Published(
        {"SGAIS": 0.1, "sequential": 0.01},
        {
            ("nested sampling", "SGAIS"): 3.3,
            ("AIS", "SGAIS"): 24.9,
            ("nested sampling", "sequential"): 3.0,
        },
    ),
    "softmax": Published(
        {"SGAIS": 0.6, "sequential": 0.7},
        {("nested sampling", "SGAIS"): 10.4, ("nested sampling", "sequential"): 17.0},
    ),
    "mixture": Published(
        {"SGAIS": 0.1, "sequential": 0.06},
        {("nested sampling", "SGAIS"): 4.9, ("nested sampling", "sequential"): 11.0},
    ),
}


class Accuracy(NamedTuple):
    """Mean of the runs, its error with standard error, and the true log Z, in nats."""

    rows: int
    log_evidence: float
    error: float
    standard_error: float
    truth: float

    @property
    def percent(self) -> float:
        """The error in percent of log Z."""
        return 100 * abs(self.error / self.truth)

    def is_within(self, percent: float) -> bool:
        """Whether the error is at most that share of log Z plus two standard errors."""
        return abs(self.error) <= percent / 100 * abs(self.truth) + 2 * self.standard_error


def accuracy(record: Record, name: str) -> list[Accuracy]:
    """Accuracy at each number of rows that has a reference."""
    truths, found = dict(zip(record["sizes"], record["references"], strict=True)), []
    for entry in record["runs"][name]:
        if (truth := truths[entry["num_observations"]]) is not None:
            mean, count = fmean(entry["log_evidence"]), len(entry["log_evidence"])
            spread = stdev(entry["log_evidence"]) if count > 1 else 0.0
            own = max(spread, fmean(entry["standard_error"])) / math.sqrt(count)
            error, deviation = mean - truth["log_evidence"], math.hypot(own, truth["standard_error"])
            found.append(Accuracy(entry["num_observations"], mean, error, deviation, truth["log_evidence"]))
    return found


def seconds(entry: Record) -> float:
    """Median processor time of a run."""
    return median(entry["processor_seconds"])


def time_ratio(record: Record, slow: str, fast: str) -> tuple[float, int]:
    """Time of the first over the second, at the largest size both ran on, and that size."""
    longer, shorter = (
        {entry["num_observations"]: seconds(entry) for entry in record["runs"][name]} for name in (slow, fast)
    )
    rows = max(longer.keys() & shorter.keys())
    return longer[rows] / shorter[rows], rows


def extrapolated(record: Record, name: str) -> float | None:
    """Seconds with all rows, as they grew between the last two sizes.

    None if all rows were run, or if the time does not yet grow as the rows do.
    """
    entries, total = record["runs"][name], record["sizes"][-1]
    if len(entries) < 2 or entries[-1]["num_observations"] == total:
        return None
    before, last = entries[-2:]
    growth = math.log(seconds(last) / seconds(before)) / math.log(
        last["num_observations"] / before["num_observations"]
    )
    return seconds(last) * (total / last["num_observations"]) ** growth if growth >= 1 else None


def judge(record: Record) -> Verdict:
    published, checks = PUBLISHED[record["problem"]], []
    for name, percent in published.percent.items():
        last = accuracy(record, name)[-1]
        found = f"{name} is {last.error:+,.1f} nats off at N = {last.rows:,}, {last.percent:.2g}% of log Z"
        checks.append((f"{found} (paper: {percent:g}%)", last.is_within(TIMES_AS_FAR * percent)))
    for (slow, fast), ratio in published.ratios.items():
        measured, rows = time_ratio(record, slow, fast)
        found = f"{slow} takes {measured:.2g} times as long as {fast} at N = {rows:,}"
        if (later := extrapolated(record, slow)) and extrapolated(record, fast) is None:
            times = later / seconds(record["runs"][fast][-1])
            found += f", extrapolated to N = {record['sizes'][-1]:,} about {times:.0f} times"
        if slow == "nested sampling" and ADAPTED in record["runs"]:
            measured_too, rows = time_ratio(record, ADAPTED, fast)
            found += f", with adapted steps {measured_too:.2g} times at N = {rows:,}"
        checks.append((f"{found} (paper: {ratio:g})", measured >= 1))
    parts = [found if is_right else f"{found}, which differs" for found, is_right in checks]
    # None if it was left out, or if only sizes without a reference fit the cap.
    for ours in accuracy(record, "our default")[-1:] if "our default" in record["runs"] else []:
        parts.append(
            f"our default is {ours.error:+.3f} ± {ours.standard_error:.3f} nats off at N = {ours.rows:,}"
        )
    sentence = f"{'; '.join(parts)}. The papers' figures are for N = {PUBLISHED_ROWS:,}; only the order of the times is judged."
    return Verdict(all(is_right for _, is_right in checks), sentence.replace("-", "−"))


def table(record: Record) -> list[dict[str, Any]]:
    """Each method at its largest number of rows; time ratios at the largest that both have."""
    published, rows = PUBLISHED[record["problem"]], []
    for name, entries in record["runs"].items():
        row: dict[str, Any] = {"method": name, "rows": entries[-1]["num_observations"]}
        for last in accuracy(record, name)[-1:]:
            row |= {
                "rows": last.rows,
                "log evidence (nats)": last.log_evidence,
                "error (nats)": last.error,
                "% of log Z": last.percent,
            }
        row |= {
            "paper": published.percent.get(name),
            "processor (s)": seconds(entries[-1]),
            "all rows, extrapolated (s)": extrapolated(record, name),
        }
        for fast in ("SGAIS", "sequential"):
            row[f"time / {fast}"] = time_ratio(record, name, fast)[0]
            row[f"paper / {fast}"] = published.ratios.get((name, fast))
        rows.append(row)
    return rows


def draw(record: Record) -> Figure:
    """Plot log evidence per row, error (with two standard errors) and time against the rows."""
    figure = Figure(figsize=(7.5, 9.5), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    known = [truth for truth in zip(record["sizes"], record["references"], strict=True) if truth[1]]
    sizes, values = zip(*((size, truth["log_evidence"] / size) for size, truth in known), strict=True)
    top.plot(sizes, values, color="black", linewidth=5, alpha=0.2, label="reference")
    middle.axhline(0, color="black", linewidth=5, alpha=0.2)
    for index, (name, entries) in enumerate(record["runs"].items()):
        style = {"color": COLORS[index], "linestyle": LINE_STYLES[index % 4], "marker": MARKERS[index]}
        style |= {"markersize": 8 if MARKERS[index] == "*" else 5, "label": name}
        at = [entry["num_observations"] for entry in entries]
        top.plot(
            at, [fmean(entry["log_evidence"]) / n for n, entry in zip(at, entries, strict=True)], **style
        )
        points, aside = accuracy(record, name), 1.05 ** (index - 2.5)  # to separate the error bars
        middle.errorbar(
            [aside * point.rows for point in points],
            [point.error for point in points],
            [2 * point.standard_error for point in points],
            capsize=2,
            **style,
        )
        bottom.plot(at, [seconds(entry) for entry in entries], **style)
        if (later := extrapolated(record, name)) is not None:
            ends = [at[-1], record["sizes"][-1]], [seconds(entries[-1]), later]
            hollow = {"marker": style["marker"], "markerfacecolor": "none", "markevery": [1]}
            bottom.plot(*ends, color=style["color"], linestyle=":", linewidth=1, **hollow)
    top.set_ylabel("log evidence per row (nats)")
    middle.set_ylabel("error of the log evidence (nats)")
    middle.set_yscale("symlog", linthresh=0.1, linscale=0.5)
    bottom.set_ylabel("processor time (s)\n(hollow: extrapolated)")
    bottom.set(xscale="log", yscale="log", xlabel="number of rows N")
    for axes in (top, middle, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#808080", alpha=0.25, linewidth=0.6)
    top.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)
    return figure
