"""Write rows of a linear regression with known coefficients to Parquet files.

    python benchmarks/generate_rows.py parts               # 10⁸ rows: 2.4 GB in 100 files
    python benchmarks/generate_rows.py parts --rows 10000000 --rows-per-file 500000 --seed 1

Columns x0, …, x4 are standard normal, and y = 0.5 + x · (1, -0.8, 0.6, -0.4, 0.2) + N(0, 1), all
float32. The same seed and rows per file give the same rows, and a longer data set starts with the
files of a shorter one.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

WEIGHTS = np.array([1.0, -0.8, 0.6, -0.4, 0.2], np.float32)
INTERCEPT = 0.5
NOISE_SCALE = 1.0


def generate_rows(
    folder: Path, num_rows: int, rows_per_file: int, seed: int = 0, compression: str = "none"
) -> list[Path]:
    """Write the rows, holding one file in memory at a time; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    num_files = -(-num_rows // rows_per_file)
    digits = max(4, len(str(num_files - 1)))  # so that the names sort by number
    paths = []
    for index in range(num_files):
        generator = np.random.default_rng([seed, index])
        columns = generator.standard_normal((len(WEIGHTS) + 1, rows_per_file), dtype=np.float32)
        features, noise = columns[:-1], columns[-1]
        noise *= NOISE_SCALE
        noise += INTERCEPT + WEIGHTS @ features
        table = pa.table({f"x{j}": column for j, column in enumerate(features)} | {"y": noise})
        paths.append(folder / f"part-{index:0{digits}}.parquet")
        pa.parquet.write_table(
            table.slice(0, num_rows - index * rows_per_file),
            paths[-1],
            compression=compression,
            use_dictionary=False,  # all values differ
            write_statistics=False,
        )
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--rows-per-file", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compression", default="none", help="none, zstd, snappy, …")
    arguments = parser.parse_args()
    started = time.perf_counter()
    paths = generate_rows(
        arguments.folder, arguments.rows, arguments.rows_per_file, arguments.seed, arguments.compression
    )
    seconds, size = time.perf_counter() - started, sum(path.stat().st_size for path in paths)
    print(
        f"{arguments.rows:,} rows in {len(paths):,} files, {size / 1e9:.2f} GB, in {seconds:.1f} s "
        f"({arguments.rows / seconds / 1e6:.1f} million rows/s)"
    )


if __name__ == "__main__":
    main()
