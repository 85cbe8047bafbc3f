"""Tables of runs on drawn problems: one line for each family, and the rate of silent failures."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scipy import stats

FRESH_FROM = 1_000_000  # seeds from here on are not used in development
SILENT_ERRORS, SILENT_NATS = 4.0, 0.1  # standard errors and nats above which a failure is silent
CONFIDENCE = 0.95
COLUMNS = (
    *("runs", "no answer", "covered", "warned", "trusted", "silent failures", "below"),
    *("root mean square error", "reported", "median seconds", "mean seconds"),
)
RULE = "|---|" + "--:|" * len(COLUMNS) + "\n"


class Counts(NamedTuple):
    """What a table says about some runs; errors in nats."""

    runs: int
    unanswered: int
    covered: int
    warned: int
    trusted: int
    silent: int
    errors: list[float]
    reported: list[float]
    seconds: list[float]


def error_of(record: Mapping) -> float:
    """The error in nats; NaN if there was no answer."""
    return record["log_evidence"] - record["truth"] if "log_evidence" in record else math.nan


def is_silent(record: Mapping) -> bool:
    """Whether a run is trusted and far from the truth."""
    if record.get("verdict") != "trusted":
        return False
    far = max(SILENT_NATS, SILENT_ERRORS * record["standard_error"])
    return not abs(error_of(record)) <= far


def counts_of(records: Iterable[Mapping]) -> Counts:
    """Counts of runs."""
    records = list(records)
    answers = [each for each in records if "log_evidence" in each and math.isfinite(each["log_evidence"])]
    errors = [error_of(each) for each in answers]
    reported = [each["standard_error"] for each in answers if math.isfinite(each["standard_error"])]
    # A part in ten million of the log evidence is the precision of sums in float32.
    covered = sum(
        abs(error_of(each)) <= 2 * each["standard_error"] + 1e-5 + 1e-7 * abs(each["truth"])
        for each in answers
    )
    return Counts(
        runs=len(records),
        unanswered=len(records) - len(answers),
        covered=covered,
        warned=sum(each["verdict"] != "trusted" for each in answers),
        trusted=sum(each["verdict"] == "trusted" for each in answers),
        silent=sum(map(is_silent, answers)),
        errors=errors,
        reported=reported,
        seconds=[each["seconds"] for each in records],
    )


def upper_bound(failures: int, runs: int) -> float:
    """The upper 95% bound of a rate, one-sided (Clopper and Pearson 1934, Biometrika 26, 404)."""
    return 1.0 if failures >= runs else float(stats.beta.ppf(CONFIDENCE, failures + 1, runs - failures))


def cells(counts: Counts, is_all: bool) -> list[str]:
    """The columns of a line, as text; a bound only for all runs, as those of a family are few."""
    answers = counts.runs - counts.unanswered

    def share(number: int) -> str:
        return f"{100 * number / answers:.0f}%" if answers else ""

    def root_mean_square(values: Sequence[float]) -> str:
        return f"{math.sqrt(statistics.fmean(v * v for v in values)):.3g}" if values else ""

    return [
        str(counts.runs),
        str(counts.unanswered),
        share(counts.covered),
        share(counts.warned),
        str(counts.trusted),
        str(counts.silent),
        f"{100 * upper_bound(counts.silent, counts.trusted):.2g}%" if is_all and counts.trusted > 100 else "",
        root_mean_square(counts.errors),
        root_mean_square(counts.reported),
        f"{statistics.median(counts.seconds):.2g}" if counts.seconds else "",
        f"{statistics.fmean(counts.seconds):.2g}" if counts.seconds else "",
    ]


def table_of(records: Sequence[Mapping]) -> str:
    """A Markdown table: families, then all."""
    families = sorted({record["family"] for record in records})
    lines = [(name, [each for each in records if each["family"] == name]) for name in families]
    return (
        "| family | "
        + " | ".join(COLUMNS)
        + " |\n"
        + RULE
        + "".join(
            "| " + " | ".join([name, *cells(counts_of(some), name == "**all**")]) + " |\n"
            for name, some in [*lines, ("**all**", records)]
        )
    )


def silent_failures(records: Iterable[Mapping]) -> list[str]:
    """One line for each silent failure."""
    return [
        f"{each['family']}, seed {each['seed']}, {each['method']}: {error_of(each):+.3g} ± "
        f"{each['standard_error']:.2g} nats; {', '.join(f'{k} {v}' for k, v in each['drawn'].items())}"
        for each in sorted(filter(is_silent, records), key=lambda each: (each["family"], each["seed"]))
    ]


def summary_of(records: Sequence[Mapping]) -> str:
    """The table and the silent failures, for the terminal."""
    if not records:
        return "No run: all are in the file, or no seed is of these families."
    return "\n".join([table_of(records), *silent_failures(records)])


def markdown_page(records: Sequence[Mapping], machine: Mapping) -> str:
    """The documentation page: for each method the fresh seeds, then those of development."""
    parts = []
    for title, is_fresh in (("Fresh seeds", True), ("Seeds used in development", False)):
        some = [record for record in records if (record["seed"] >= FRESH_FROM) == is_fresh]
        parts.append(f"## {title}\n")
        parts += [_section(name, some) for name in sorted({record["method"] for record in some})]
        if not some:
            parts.append("Not measured yet.\n")
    return f"""# Fresh problems

Models of many families with exact log evidences, drawn at random by a seed: sizes, data, noise and conflict between prior and
data (`benchmarks/fresh_families/`). `python benchmarks/fresh.py --seeds 1000000:1003000 --out FILE` repeats it, and
`--page` writes this page. Here on {machine["cores"]} cores of {machine["processor"]}, Python {machine["python"]}, jax {machine["jax"]}.

Seeds below {FRESH_FROM:,} are used in development; those from {FRESH_FROM:,} on only for code that was frozen before, at the
commit named. The two are never counted together. Families and seeds of development are chosen as work needs them, so that
their overall rates estimate nothing.

*No answer*: an error, or stopped after two minutes (five at e7cbce090be1, whose machine was loaded: its seconds are not
comparable). *Covered*: the share of answers within two standard errors of the truth.
*Warned*: the share with a verdict other than "trusted". *Silent failures*: trusted, with an error above {SILENT_ERRORS:g} standard
errors and above {SILENT_NATS} nats. *Below*: the upper 95% bound of their rate among trusted runs, if these are more than 100
(Clopper and Pearson). *Reported*: the root mean square of the standard errors. Errors are in nats; seconds include compilation.

{chr(10).join(parts)}"""


def _section(method: str, records: Sequence[Mapping]) -> str:
    mine = [record for record in records if record["method"] == method]
    commits = sorted({record["commit"] for record in mine})
    parts = [_of_commit(commit, [one for one in mine if one["commit"] == commit]) for commit in commits]
    dates = sorted({record["date"] for record in mine})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    silent = "".join(f"- {line}\n" for line in silent_failures(mine))
    return f"### {method}\n\n{days}. {' '.join(parts)}\n\n{table_of(mine)}\n{silent}"


def _of_commit(commit: str, records: Sequence[Mapping]) -> str:
    counts = counts_of(records)
    return f"Commit {commit}: {counts.runs} runs, {counts.trusted} trusted, {counts.silent} silent failures."
