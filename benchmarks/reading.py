"""How fast a source delivers its rows if nothing is done with them: a baseline for estimates.

    python benchmarks/reading.py 'parts/*.parquet' --target y
    python benchmarks/reading.py table.csv --chunk-size 500 --json

Peak memory is that of the process; `imported_mib` is the part used before the first row.
"""

import argparse
import json
import resource
import sys
import time

from evidentia.data.batches import recut
from evidentia.data.sources import Source, open_source


def measure_reading(source: Source, chunk_size: int | None = None) -> dict[str, float]:
    """Read a source once, optionally re-cut into chunks; return rows, seconds and MiB."""
    before = peak_memory()
    started = time.perf_counter()
    batches = source.batches() if chunk_size is None else recut(source.batches(), chunk_size)
    rows, first = 0, 0.0
    for batch in batches:
        first = first or time.perf_counter() - started
        rows += batch.num_rows
    seconds = time.perf_counter() - started
    return {
        "rows": rows,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "seconds_to_first_batch": first,
        "peak_mib": peak_memory(),
        "imported_mib": before,
    }


def peak_memory() -> float:
    """The largest resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--target", help="the column that becomes y; all others are x")
    parser.add_argument("--chunk-size", type=int, help="re-cut into chunks of this many rows")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    def columns(names):
        features = [name for name in names if name != arguments.target]
        return {"x": features} | ({} if arguments.target is None else {"y": arguments.target})

    measured = measure_reading(open_source(arguments.paths, columns), arguments.chunk_size)
    if arguments.json:
        print(json.dumps(measured))
    else:
        print(
            f"{measured['rows']:,} rows in {measured['seconds']:.2f} s: {measured['rows_per_second'] / 1e6:.2f} million "
            f"rows/s; first batch after {measured['seconds_to_first_batch'] * 1e3:.0f} ms; peak memory "
            f"{measured['peak_mib']:.0f} MiB, {measured['imported_mib']:.0f} MiB of it before the first row"
        )


if __name__ == "__main__":
    main()
