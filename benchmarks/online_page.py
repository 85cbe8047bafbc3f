"""The page of the documentation that shows how `Online` does."""


def online_page(results: dict) -> str:
    """Markdown with a section for each part that was run."""
    machine = results["machine"]
    parts = [
        f"""# Benchmarks of streams

Measured on {results["date"]} on {machine["cores"]} cores of {machine["processor"]} with Python {machine["python"]}, jax
{machine["jax"]}. The numbers are kept in `benchmarks/results/online.json`; `python benchmarks/online.py` measures them anew and
writes this page.
"""
    ]
    sections = {"flat": _flat, "files": _files, "agreement": _agreement}
    return "\n".join(parts + [make(results[name]) for name, make in sections.items() if name in results])


def _flat(flat: dict) -> str:
    tenths = zip(flat["median_seconds"], flat["resident_bytes"], strict=True)
    rows = "".join(
        f"| {index} | {1e3 * seconds:.2f} | {held / 2**20:.0f} |\n"
        for index, (seconds, held) in enumerate(tenths, 1)
    )
    return f"""## The cost of an update

The linear model with 5 features on {flat["rows"]:,} rows in batches of {flat["batch_size"]:,}, a reservoir of 100,000 rows, 512
particles; by tenths of the updates, from row 10,000 on. Last over first: {flat["time_ratio"]:.2f} in time, {flat["memory_ratio"]:.2f}
in memory. All updates together took {flat["total_seconds"]:,.0f} s.

| tenth | median time of an update (ms) | resident memory (MiB) |
|--:|--:|--:|
{rows}"""


def _files(files: dict) -> str:
    return f"""## Larger than memory

`evidentia estimate 'parts/*.parquet' --model linear --target y` on {files["rows"]:,} rows with 5 features, made by
`benchmarks/generate_rows.py`:

| | |
|---|--:|
| time, the start of Python and compilation included | {files["seconds"]:,.0f} s |
| rows per second | {files["rows_per_second"] / 1e6:.2f} million |
| rows per second of reading alone | {files["reading_rows_per_second"] / 1e6:.2f} million |
| peak memory | {files["peak_mib"]:,.0f} MiB |
| error against the exact log evidence | {files["error"]:+.3f} nats |
| reported standard error | {files["standard_error"]:.3f} nats |
"""


def _agreement(runs: list[dict]) -> str:
    rows = "".join(
        f"| {run['model']} | {run['rows']:,} | {run['reservoir_size']:,} | {run['seed']} | {run['difference']:+.3f} | "
        f"{run['standard_errors'][0]:.3f} | {run['standard_errors'][1]:.3f} | {run['joint_standard_errors']:+.1f} |\n"
        for run in runs
    )
    return f"""## Beside data in memory

The log evidence of `Online`, in batches of 5,000, less that of `estimate` on the same rows, in nats.

| model | rows | reservoir | seed | difference | s.e. of Online | s.e. in memory | in joint s.e. |
|---|--:|--:|--:|--:|--:|--:|--:|
{rows}
A mixture moves along the path with all rows that are kept, and takes minutes where the others take seconds: 10⁶ rows with 10⁵ kept
would take hours. Its standard error counts what the sample could miss, which is far more than it did miss here.
"""
