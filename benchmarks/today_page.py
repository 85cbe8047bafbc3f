"""The page of `today_peers.py`: docs/peers.md, with the text that stands here."""

import json
import math
from pathlib import Path

from today_peers import SAMPLERS
from today_problems import PROBLEMS

PAGE = Path(__file__).parents[1] / "docs" / "peers.md"


def write(file: Path) -> None:
    """Write the page of the records in a file."""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    intro, outro = (Path(__file__).parent / "today_page.md").read_text().split("TABLES\n")
    PAGE.write_text(intro + "\n".join(_table(name, records) for name in PROBLEMS) + outro)


def _table(problem: str, records: list[dict]) -> str:
    truth = PROBLEMS[problem]().truth()
    lines = [f"### {problem[0].upper()}{problem[1:]}", "", f"{PROBLEMS[problem].__doc__}"]
    lines[-1] += f" Log evidence {truth:.3f}."
    lines += [
        "",
        "| sampler | errors (nats) | stated error | evaluations | seconds |",
        "|---|---|---|---|---|",
    ]
    for sampler in SAMPLERS:
        own = [one for one in records if (one["sampler"], one["problem"]) == (sampler, problem)]
        lines.append(_row(sampler, own, truth))
    return "\n".join(lines) + "\n"


def _row(sampler: str, records: list[dict], truth: float) -> str:
    if not records:
        return f"| {sampler} | not run | | | |"
    done = [one for one in records if "failure" not in one]
    if not done:
        return f"| {sampler} | {records[0]['failure']} in {records[0]['cap']:g} s | | | |"
    errors = ", ".join(_error(one, truth) for one in done)
    stated = [one["standard_error"] for one in done if one["standard_error"] is not None]
    counts = [one["evaluations"] for one in done if one["evaluations"] is not None]
    error = f"{math.sqrt(sum(x * x for x in stated) / len(stated)):.3f}" if stated else "none"
    count = f"{sum(counts) / len(counts):,.0f}" if counts else "not counted"
    seconds = sum(one["seconds"] for one in done) / len(done)
    return f"| {sampler} | {errors} | {error} | {count} | {seconds:.0f} |"


def _error(record: dict, truth: float) -> str:
    """The error, in bold beyond four stated errors and 0.1 nats, with the mark of a warning."""
    error, stated = record["log_evidence"] - truth, record["standard_error"]
    is_wrong = abs(error) > max(0.1, 4 * (stated or 0.0)) and stated is not None
    mark = "" if record["word"] in ("", "trusted") else " (warned)"
    return (f"**{error:+.3f}**" if is_wrong else f"{error:+.3f}") + mark
