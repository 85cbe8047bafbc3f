"""The records of `estimators.py` as tables, for the terminal and for docs/choosing.md."""

import math
import statistics
import textwrap
from pathlib import Path

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
LABELS = {
    "dynesty": "dynesty",
    "nautilus": "nautilus",
    "ultranest": "UltraNest",
    "blackjax": "BlackJAX, tempered SMC",
    "pymc": "PyMC, `sample_smc`",
}
PACKAGES = ["jax", "numpyro", "numpy", "dynesty", "nautilus-sampler", "ultranest", "blackjax", "pymc"]
DETAILS = [
    "problem",
    "method",
    "error (nats)",
    "reported s.e.",
    "seconds",
    "first call",
    "likelihood evaluations",
    "runs",
]


def label(record: dict) -> str:
    """The display name of the method."""
    return LABELS[record["method"]] if record["peer"] else f"`{record['method']}()`"


def cells(record: dict) -> dict[str, str]:
    """The cells of a record, by the names in `DETAILS`; empty where unknown."""
    runs, warm = record["runs"], record["runs"][1:]
    errors = [run["log_evidence"] - record["truth"]["log_evidence"] for run in runs]
    standard_errors = [run["standard_error"] for run in runs if run["standard_error"] is not None]
    evaluations = [run["evaluations"] for run in runs if run["evaluations"] is not None]
    return {
        "problem": record["problem"],
        "method": label(record),
        "error (nats)": _nats(_root_mean_square(errors)) if errors else record["stopped"].replace("|", "/"),
        "reported s.e.": _nats(statistics.fmean(standard_errors)) if standard_errors else "",
        "seconds": _digits(statistics.median(run["seconds"] for run in warm)) if warm else "",
        "first call": _digits(runs[0]["seconds"]) if runs else "",
        "likelihood evaluations": f"{statistics.median_low(evaluations):,}" if evaluations else "",
        "runs": f"{len(runs)}, then stopped" if runs and record["stopped"] else str(len(runs)),
    }


def print_record(record: dict) -> None:
    """Print a record on one line."""
    shown = cells(record)
    numbers = ", ".join(f"{name} {shown[name]}" for name in DETAILS[2:] if shown[name])
    note = f" ({record['stopped']})" if record["stopped"] and record["runs"] else ""
    print(f"{shown['problem']:8} {shown['method']:24} {numbers}{note}", flush=True)


def write_page(page: Path, results: dict, source: str) -> None:
    """Replace the text between the two marks of a page by the measured tables."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + BEGIN + "\n\n" + _measured(results, source) + "\n" + END + after)


def _measured(results: dict, source: str) -> str:
    machine, records = results["machine"], results["records"]
    versions = ", ".join(f"{name} {machine[name]}" for name in PACKAGES if name in machine)
    details = [[cells(record)[name] for name in DETAILS] for record in records]
    sentences = (
        f"Measured on {results['date']} on {machine['cores']} cores of {machine['processor']} with Python "
        f"{machine['python']}, {versions}. Each cell shows the root mean square error in nats (mean reported standard error) "
        "and the median seconds per run, without the first run, which compiles."
    )
    return f"""{textwrap.fill(sentences, 120, break_on_hyphens=False)}

{_summary(records)}
All runs, with the time of the first call, which compiles, and the likelihood evaluations that the peers report. Each
method had {results["limit"]:g} seconds for all its runs on a problem, if not said otherwise above. The results are in
`benchmarks/results/{source}`.

{_table(DETAILS, details, left=2)}"""


def _summary(records: list[dict]) -> str:
    """One line for each method, one column for each problem."""
    problems = list(dict.fromkeys(record["problem"] for record in records))
    methods = list(dict.fromkeys(label(record) for record in records))
    found = {(label(record), record["problem"]): record for record in records}
    truths = {record["problem"]: record["truth"] for record in records}
    header = [f"{name} ({truths[name]['num_parameters']})" for name in problems]
    lines = [[method, *(_short(found.get((method, name))) for name in problems)] for method in methods]
    first = ["truth", *(_truth(truths[name]) for name in problems)]
    return _table(["", *header], [first, *lines], left=1)


def _short(record: dict | None) -> str:
    if record is None:
        return ""
    shown = cells(record)
    if not record["runs"]:
        return shown["error (nats)"]
    standard_error = f" ({shown['reported s.e.']})" if shown["reported s.e."] else ""
    seconds = f"{shown['seconds']} s" if shown["seconds"] else "one run"
    return f"{shown['error (nats)']}{standard_error}, {seconds}"


def _truth(truth: dict) -> str:
    error = f" ± {_nats(truth['standard_error'])}" if truth["standard_error"] else ", exact"
    return f"{truth['log_evidence']:,.2f}{error}"


def _table(header: list[str], lines: list[list[str]], *, left: int) -> str:
    rule = ["---"] * left + ["--:"] * (len(header) - left)
    return "".join("| " + " | ".join(line) + " |\n" for line in [header, rule, *lines])


def _root_mean_square(values: list[float]) -> float:
    return math.sqrt(statistics.fmean(value**2 for value in values))


def _nats(number: float) -> str:
    if not math.isfinite(number):
        return "not finite"
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}" if number >= 0.1 else f"{number:.3f}"


def _digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}" if number < 10 else f"{number:.0f}"
