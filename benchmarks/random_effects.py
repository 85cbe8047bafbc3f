"""Random intercepts of a logistic regression: log evidence, error and seconds by groups.

    python benchmarks/random_effects.py                  # some minutes on 2 cores
    python benchmarks/random_effects.py --groups 100 --seeds 5

Groups have 20 rows. Seconds are those of the first and of the last run in one process.
"""

import argparse
import time

import numpy as np
import pandas as pd

import evidentia as ev

ROWS = 20  # of a group
FORMULA = "y ~ x + (1 | g)"


def table(num_groups: int) -> pd.DataFrame:
    """Rows of groups whose intercepts have deviation 1."""
    generator = np.random.default_rng(1)
    group = np.repeat(np.arange(num_groups), ROWS)
    x = generator.normal(size=len(group))
    logits = 0.5 + x + generator.normal(size=num_groups)[group]
    return pd.DataFrame(
        {"y": generator.uniform(size=len(group)) < 1 / (1 + np.exp(-logits)), "x": x, "g": group}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print("| groups | log evidence by seed | largest reported s.e. | first run, s | last run, s |")
    print("|--:|---|--:|--:|--:|")
    for num_groups in arguments.groups:
        rows, found, seconds = table(num_groups), [], []
        for seed in range(arguments.seeds):
            started = time.perf_counter()
            found.append(ev.estimate(ev.Regression(FORMULA, family="bernoulli"), rows, seed=seed))
            seconds.append(time.perf_counter() - started)
        values = ", ".join(f"{one.log_evidence:,.2f}" for one in found)
        error = max(one.standard_error for one in found)
        print(
            f"| {num_groups:,} | {values} | {error:.3f} | {seconds[0]:.0f} | {seconds[-1]:.0f} |", flush=True
        )


if __name__ == "__main__":
    main()
