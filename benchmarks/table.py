"""The benchmark's records as a table, for the terminal and for the documentation."""

import math

HEADER = ["model", "rows", "method", "seconds", "× bare pass", "first call", "error (nats)", "reported s.e."]


def rows_of(records: list[dict]) -> list[list[str]]:
    """One line of text cells for each record; ratios are to the bare pass of the same model and size."""
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
    """The page of the documentation that shows the newest table."""
    machine = results["machine"]
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("jax", "numpyro", "blackjax", "numpy", "dynesty")
    )
    header = "| " + " | ".join(HEADER) + " |\n|---|--:|---|--:|--:|--:|--:|--:|\n"
    body = "".join("| " + " | ".join(row) + " |\n" for row in rows_of(results["records"]))
    return f"""# Benchmarks

Measured on {results["date"]} on {machine["cores"]} cores of {machine["processor"]} with Python {machine["python"]},
{versions}.
All methods of a model run in one process on the same data. The numbers are kept in `benchmarks/results/{source}`;
`make benchmark` measures them anew and writes this page.

{header}{body}
- **model (parameters)**: linear regression with 5 features and known noise, softmax regression with 10 features and 4
  classes, all priors N(0, 1).
- **bare pass**: every row's log-likelihood once at as many particles as `SGAIS()` has, and nothing else: the floor.
- **seconds**: median over the seeds (20 for linear, 5 for softmax, 3 for the published settings), compiled; **first call** includes compilation.
- **error**: root mean square over the seeds against the truth, which is exact for the linear model and from Laplace's
  approximation corrected by importance sampling (standard error below {_worst_truth(results):.2f} nats) for softmax.
- **reported s.e.**: mean of the standard errors that the method itself reports. That of `SGAIS.published()` does not see
  the bias of its mini-batch noise.
- **dynesty**: static nested sampling, 250 live points, jitted likelihood, one seed, stopped at the benchmark's limit and
  not tried on more rows then.
{_trajectory_section(results)}"""


def _worst_truth(results: dict) -> float:
    return max(record["truth_standard_error"] for record in results["records"]) + 0.01


def _trajectory_section(results: dict) -> str:
    found = [r for r in results["records"] if r["method"] == "SGAIS()" and r.get("trajectory_errors")]
    if not found:
        return ""
    record = max(found, key=lambda r: r["num_observations"])
    errors = record["trajectory_errors"] | {str(record["num_observations"]): record["errors"]}
    sizes = " | ".join(f"{int(n):,}" for n in errors)
    values = " | ".join(
        f"{math.sqrt(sum(e * e for e in found) / len(found)):.2f}" for found in errors.values()
    )
    return f"""
## Along the way

Root mean square error of `SGAIS()` in nats over {len(record["errors"])} seeds at points of one pass over
{record["num_observations"]:,} rows of the {record["model"]} model:

| rows | {sizes} |
|---|{"--:|" * len(errors)}
| error | {values} |
"""
