"""CPU seconds of each standard test: best of several in one process, after import.

python benchmarks/standard_tests.py
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpyro.distributions as dist

import evidentia as ev

REPEATS = 30
DRUG1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
SLEEP = {"y": DRUG1 + DRUG2, "a": ["p"] * 10 + ["q"] * 10, "b": list("rs") * 10}
SMALL: dict[str, Callable[[], Any]] = {
    "t test, pairs": lambda: ev.bf.t_test(DRUG2, DRUG1, paired=True),
    "t test, one-sided": lambda: ev.bf.t_test(DRUG2, DRUG1, paired=True, alternative="greater"),
    "t test, informed": lambda: ev.bf.t_test(DRUG2, DRUG1, prior=dist.StudentT(3, 0.35, 0.102)),
    "t test, interval null": lambda: ev.bf.t_test(DRUG2, DRUG1, null=(-0.2, 0.2)),
    "correlation": lambda: ev.bf.correlation(DRUG1, DRUG2),
    "rank correlation": lambda: ev.bf.correlation(DRUG1, DRUG2, "kendall"),
    "proportion": lambda: ev.bf.proportion(15, 25),
    "contingency table": lambda: ev.bf.contingency([[50, 48], [21, 41]]),
    "t tests of two studies": lambda: ev.bf.meta_t_test([2.1, 1.4], [30, 25]),
    "meta-analysis": lambda: ev.bf.meta_analysis([0.4, 0.2, 0.5, -0.1], [0.15, 0.1, 0.2, 0.12]),
    "ANOVA, one factor": lambda: ev.bf.anova("y ~ a", SLEEP),
    "ANOVA, two factors": lambda: ev.bf.anova("y ~ a * b", SLEEP),
}


def crossed(rows: int = 10_000, levels: int = 100) -> dict[str, Any]:
    """Three crossed factors and a random one, unbalanced."""
    generator = np.random.default_rng(0)
    table = {
        name: generator.choice(list(values), rows)
        for name, values in zip("abc", ("pqr", "pq", "pqrs"), strict=True)
    }
    who = generator.integers(0, levels, rows)
    y = generator.normal(size=rows) + 0.5 * generator.normal(size=levels)[who] + 0.1 * (table["a"] == "p")
    return {**table, "who": who, "y": y}


def best(run: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of several runs."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


def main() -> None:
    """Print a line for each test."""
    for name, run in SMALL.items():
        print(f"{name:<28} {1000 * best(run, REPEATS):7.1f} ms")
    table = crossed()
    anova = best(lambda: ev.bf.anova("y ~ a * b * c + who", table, random="who"), 3)
    print(f"{'19 models, 10,000 rows':<28} {1000 * anova:7.1f} ms")
    design = best(lambda: ev.bf.design(0.5, n_max=200), 1)
    print(f"{'design, 10,000 runs':<28} {1000 * design:7.1f} ms")


if __name__ == "__main__":
    main()
