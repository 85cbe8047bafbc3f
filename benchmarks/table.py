"""The benchmark's records as a table, for the terminal and for the documentation."""

import math

HEADER = ["model", "rows", "method", "seconds", "× bare pass", "first call", "error (nats)", "reported s.e."]


def rows_of(records: list[dict]) -> list[list[str]]:
    """One row of text cells per record; ratios are to the bare pass of that model and size."""
    bare = {
        (record["model"], record["num_observations"]): record["seconds"][0]
        for record in records
        if record["method"] == "bare pass"
    }
    return [_cells(record, bare[record["model"], record["num_observations"]]) for record in records]


def _cells(record: dict, bare_seconds: float) -> list[str]:
    errors = record.get("errors", [])
    if errors:
        error = f"{_root_mean_square(errors):.2f}"
        standard_error = f"{sum(record['standard_errors']) / len(errors):.2f}"
    else:
        unfinished = "did not finish" if record["seconds"] else "not tried"
        error, standard_error = (unfinished if record.get("finished") is False else ""), ""
    times = sorted(record["seconds"])
    seconds = times[len(times) // 2] if times else None
    return [
        f"{record['model']} ({record['num_parameters']})",
        f"{record['num_observations']:,}",
        record["method"],
        _three_digits(seconds) if seconds else "",
        _three_digits(seconds / bare_seconds) if seconds else "",
        f"{record['cold_seconds']:.1f}" if record.get("cold_seconds") else "",
        error,
        standard_error,
    ]


def _root_mean_square(values: list[float]) -> float:
    return math.sqrt(sum(value**2 for value in values) / len(values))


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def print_table(records: list[dict], *, header: bool) -> None:
    """Print the records with aligned columns."""
    widths = [14, 10, 18, 8, 12, 11, 15, 14]
    lines = ([HEADER] if header else []) + rows_of(records)
    for line in lines:
        print("".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)), flush=True)


def markdown_page(results: dict, source: str) -> str:
    """The documentation page with the newest tables."""
    machine, records = results["machine"], results["records"]
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("jax", "numpyro", "blackjax", "numpy", "dynesty")
    )
    header = "| " + " | ".join(HEADER) + " |\n|---|--:|---|--:|--:|--:|--:|--:|\n"
    body = "".join("| " + " | ".join(row) + " |\n" for row in rows_of(records))
    return f"""# Benchmarks

Measured on {results["date"]} on {machine["cores"]} cores of {machine["processor"]} with Python {machine["python"]},
{versions}.
All methods for a problem run in one process on the same data. The results are in `benchmarks/results/{source}`;
`make benchmark` repeats the measurements and writes this page. `benchmarks/problems.py` describes the problems.
{results.get("remark", "")}

{header}{body}
- **bare pass**: every row's log-likelihood once, at as many particles as `SGAIS()` has (512): a lower bound on the time.
- **seconds**: median over the seeds (10), compiled beforehand; **first call** includes compilation, as does the one run
  of each mixture.
- **error**: root mean square over the seeds against the truth. It is exact for the linear models; for the others it comes
  from importance sampling around the mode with float64 likelihoods, over all permutations for the mixtures. On mixture 0
  it misses a tail of the posterior, and is too low by some 0.2 nats ([limits](limits.md)).
- **reported s.e.**: mean of the standard errors that the method reports. That of `SGAIS.published()` omits the bias of its
  mini-batch noise.
- **dynesty**: static nested sampling, 250 live points, jitted likelihood, one seed.

## Accuracy along the run

Root mean square error of `SGAIS()` in nats at several numbers of rows during one pass over the data. The standard error of
the truth is in brackets where it exceeds 0.02. A cell is n/a if there is no mode to start from, and empty if the run
skipped that number of rows.

{_along_the_way(records)}
## The error bar

{_calibration(results.get("calibration"))}"""


def _along_the_way(records: list[dict]) -> str:
    found = [
        record
        for record in records
        if len(record.get("trajectory_errors", {})) > 1 and record["method"] == "SGAIS()"
    ]
    marks = ["500", "1000", "10000", "100000"]
    lines = ["| model | " + " | ".join(f"{int(mark):,}" for mark in marks) + " | all | allowed |"]
    lines += ["|---|" + "--:|" * (len(marks) + 2)]
    for record in found:
        cells = [_with_truth(record, mark) for mark in [*marks, str(record["num_observations"])]]
        lines.append(f"| {record['model']} | " + " | ".join(cells) + f" | {record['bound']:g} |")
    return "\n".join(lines) + "\n"


def _with_truth(record: dict, mark: str) -> str:
    errors = record["trajectory_errors"].get(mark)
    if errors is None:
        return ""
    if not all(math.isfinite(error) for error in errors):
        return "n/a"
    truth_error = record["truths"][mark][1]
    return f"{_root_mean_square(errors):.2f}" + (f" ({truth_error:.2f})" if truth_error > 0.02 else "")


def _calibration(calibration: list[dict] | None) -> str:
    if not calibration:
        return "Run `python benchmarks/calibration.py` for the coverage of the standard error.\n"
    lines = [
        f"The models have an exact evidence. Each line summarises {calibration[0]['runs']} runs, each on different data, "
        "at the numbers of rows that the",
        "method is meant for: the share of runs whose interval of two standard errors covers the exact value (target: 90 to 99%),",
        "the mean error in units of the standard error (target: below a third), and the largest error in units of its own",
        "standard error. With `refresh=False` all runs stay on the annealed path.",
        "",
        "| model | method | rows | covered | mean error / s.e. | largest | root mean square error | mean s.e. |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in calibration:
        sizes, largest = row.get("sizes"), row.get("largest_score")
        lines.append(
            f"| {row['model']} | {row['method']} | {f'{sizes[0]:,} to {sizes[-1]:,}' if sizes else ''} | "
            f"{100 * row['covered']:.0f}% | {row['mean_score']:+.2f} | {f'{largest:.1f}' if largest else ''} | "
            f"{row['error']:.3f} | {row['standard_error']:.3f} |"
        )
    return "\n".join(lines) + "\n"
