"""The documentation page with the benchmarks of `Online`."""


def online_page(results: dict) -> str:
    """Markdown with a section for each part that was run."""
    machine = results["machine"]
    parts = [
        f"""# Benchmarks of streams

Measured on {results["date"]} on {machine["cores"]} cores of {machine["processor"]} with Python {machine["python"]}, jax
{machine["jax"]}. The results are in `benchmarks/results/online.json`; `python benchmarks/online.py` repeats the measurements
and writes this page.
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
particles. Each line is a tenth of the updates, from row 10,000 on. The ratio of last to first is {flat["time_ratio"]:.2f} in time and
{flat["memory_ratio"]:.2f} in memory. All updates together took {flat["total_seconds"]:,.0f} s.

| tenth | median time of an update (ms) | resident memory (MiB) |
|--:|--:|--:|
{rows}"""


def _files(files: dict) -> str:
    return f"""## Larger than memory

`evidentia estimate 'parts/*.parquet' --model linear --target y` on {files["rows"]:,} rows with 5 features from
`benchmarks/generate_rows.py`:

| | |
|---|--:|
| time, including the start of Python and compilation | {files["seconds"]:,.0f} s |
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
    return f"""## Compared with data in memory

The log evidence of `Online` with batches of 5,000 rows, minus that of `estimate` on the same rows, in nats.

| model | rows | reservoir | seed | difference | s.e. of Online | s.e. in memory | in joint s.e. |
|---|--:|--:|--:|--:|--:|--:|--:|
{rows}
For the mixture, every move uses all rows in the reservoir. It takes minutes where the others take seconds; 10⁶ rows with a
reservoir of 10⁵ would take hours. Its standard error includes the possible sampling error of the reservoir, which is far
larger than the actual error here.
"""
