"""Tables of the gauntlet: one line for each problem and each family."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

IMPOSSIBLE = "impossible"  # the family of what has no evidence
UNCERTAIN = 0.1  # standard error of a truth, in nats, that readers must know
SILENT_ERRORS, SILENT_NATS = 4.0, 0.1  # standard errors and nats above which a failure is silent


class Counts(NamedTuple):
    """Numbers of runs, and sums over them."""

    runs: int = 0
    failed: int = 0
    covered: int = 0
    warned: int = 0
    silent: int = 0
    square: float = 0.0  # of the errors, in nats²
    variance: float = 0.0  # reported
    seconds: float = 0.0  # of the second and later runs

    def __add__(self, other) -> "Counts":
        return Counts(*(mine + its for mine, its in zip(self, other, strict=True)))


def counts_of(record: Mapping) -> Counts:
    """Counts of a problem's runs; none if the truth is unknown."""
    total, truth, truth_error = Counts(), record.get("truth", math.nan), record.get("truth_error", 0.0)
    if math.isnan(truth):
        return total
    for run in record["runs"]:
        if "failed" in run:
            total += Counts(runs=1, failed=1)
            continue
        error = abs(run["log_evidence"] - truth)
        scale = math.hypot(run["standard_error"], truth_error)
        is_far = error > SILENT_ERRORS * scale and error > SILENT_NATS
        total += Counts(
            runs=1,
            covered=error < 2 * scale + 1e-4 * SILENT_NATS,
            warned=run["warned"],
            silent=is_far and not run["warned"],
            square=error**2,
            variance=run["standard_error"] ** 2,
            seconds=run["seconds"] if run["seed"] else 0.0,
        )
    return total


def cells(counts: Counts) -> list[str]:
    """Runs, coverage, warnings, silent failures, error, reported error and seconds, as text."""
    finished = counts.runs - counts.failed
    if not finished:
        return [str(counts.runs), "", "", "", "", "", ""]
    return [
        str(counts.runs),
        f"{100 * counts.covered / finished:.0f}%",
        f"{100 * counts.warned / finished:.0f}%",
        str(counts.silent),
        f"{math.sqrt(counts.square / finished):.3f}",
        f"{math.sqrt(counts.variance / finished):.3f}",
        f"{counts.seconds / max(1, finished - 1):.2g}",
    ]


def summary_of(record: Mapping) -> str:
    """One line for the terminal."""
    if record.get("stopped"):
        return f"{record['name']:45s} {record['stopped']}"
    failed = [run["failed"] for run in record["runs"] if "failed" in run]
    if failed:
        return f"{record['name']:45s} {len(failed)} failed: {failed[0]}"
    return f"{record['name']:45s} " + "  ".join(f"{cell:>6s}" for cell in cells(counts_of(record)))


HEADER = (
    "| problem | runs | covered | warned | silent failures | root mean square error | reported | seconds |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|\n"
)


def markdown_page(results: Mapping, families: Mapping[str, str]) -> str:
    """The documentation page."""
    records, machine = results["records"], results["machine"]
    counts = {record["name"]: counts_of(record) for record in records}
    by_family = {
        family: sum((counts[name] for name in counts if families[name] == family), Counts())
        for family in dict.fromkeys(families.values())
        if family != IMPOSSIBLE
    }
    total = sum(counts.values(), Counts())
    dates, processors = (
        sorted({record.get(key, default) for record in records})
        for key, default in (("date", results["date"]), ("processor", machine["processor"]))
    )
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    lines = [_line(f"**{family}**", found) for family, found in by_family.items()]
    tables = "\n".join(
        f"## {family.capitalize()}\n\n{HEADER}"
        + "".join(_line(name, counts[name]) for name in _of(families, family) if counts[name].runs)
        for family in by_family
    )
    stopped = [f"{record['name']} ({record['stopped']})" for record in records if record.get("stopped")]
    unknown = [
        _agreement(record)
        for record in records
        if len(record["runs"]) > 1 and math.isnan(record["truth"]) and families[record["name"]] != IMPOSSIBLE
    ]
    refusals = [
        f"| {record['name']} | {_refusal(record)} |"
        for record in records
        if families[record["name"]] == IMPOSSIBLE
    ]
    return f"""# The gauntlet

`ev.estimate(model, data)`, with no method named, on {sum(found.runs > 0 for found in counts.values())} problems whose log evidence is known: exactly, by quadrature,
or from two long independent methods. Development used these problems; for
others see [fresh problems](gauntlet-fresh.md). Measured on {days} on {machine["cores"]} cores of {" and ".join(processors)}
with Python {machine["python"]}, jax {machine["jax"]}; `python benchmarks/gauntlet.py` repeats it.

*Covered*: the share of runs within two standard errors of the truth (target: 90 to 99%), where the standard error includes
that of the truth{_uncertain(records)}. *Warned*: the share with a `DiagnosticWarning` (target: at
most 10%). *Silent failures*: runs without a warning whose error is above {SILENT_ERRORS:g} standard errors and above
{SILENT_NATS} nats (target: none). *Reported*: the root mean square of the reported standard errors. Errors are in nats. Seconds
are the mean without the first run, which compiles.
{results.get("remark", "")}

{HEADER}{"".join(lines)}{_line("**all**", total)}
{"Not measured: " + "; ".join(stopped) + "." if stopped else ""}

{tables}
## Without a known truth

Here runs with different seeds can only be compared with each other; they are not counted above.

| problem | runs | warned | mean log evidence | standard deviation over runs | reported | seconds |
|---|--:|--:|--:|--:|--:|--:|
{chr(10).join(unknown)}

## Impossible

What cannot be estimated must end in an error, in every run.

| problem | error |
|---|---|
{chr(10).join(refusals)}
"""


def _uncertain(records: Sequence[Mapping]) -> str:
    """The problems whose truth is known less well than runs report, and how well."""
    found = {
        record["name"]: record.get("truth_error", 0.0)
        for record in records
        if record.get("truth_error", 0.0) > UNCERTAIN
    }
    return "".join(f' ({error:.2f} nats for "{name}")' for name, error in found.items())


def _refusal(record: Mapping) -> str:
    """The error of all runs, or how many gave a result."""
    failed = [run.get("failed", "") for run in record["runs"]]
    if all(failed):
        return failed[0].replace("|", "\\|") if failed else "not run"
    return f"**none in {failed.count('')} of {len(failed)} runs**"


def _agreement(record: Mapping) -> str:
    """How far the runs of a problem without a known truth agree."""
    runs = [run for run in record["runs"] if "failed" not in run]
    if len(runs) < 2:
        return f"| {record['name']} | {len(record['runs'])} of which {len(record['runs']) - len(runs)} failed |  |  |  |  |  |"
    found = [run["log_evidence"] for run in runs]
    reported = math.sqrt(statistics.mean(run["standard_error"] ** 2 for run in runs))
    seconds = statistics.mean(run["seconds"] for run in runs[1:])
    warned = statistics.mean(run["warned"] for run in runs)
    return (
        f"| {record['name']} | {len(record['runs'])} | {100 * warned:.0f}% | {statistics.mean(found):,.3f} "
        f"| {statistics.stdev(found):.3f} | {reported:.3f} | {seconds:.2g} |"
    )


def _of(families: Mapping[str, str], family: str) -> Sequence[str]:
    return [name for name, its in families.items() if its == family]


def _line(name: str, counts: Counts) -> str:
    return "| " + " | ".join([name, *cells(counts)]) + " |\n"
