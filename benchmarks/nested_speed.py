"""Why nested sampling takes longer than the sequential estimator: number and cost of gradients.

    python benchmarks/nested_speed.py                    # the papers' models, 10⁵ rows: minutes
    python benchmarks/nested_speed.py --rows 1000000     # a quarter of an hour

The papers print how many times as long nested sampling takes: 3 (linear), 17 (softmax) and 11
(mixture), at a million rows. Both estimators spend their time on gradients of single rows, whose
numbers are known: nested sampling takes 20 steps with all rows for each point that it removes, and
the sequential estimator moves ten particles by 20 steps with mini-batches after each chunk. So the
ratio of times is that of the numbers, times that of the costs of a gradient. The nested sampler
is the one whose steps adapt.

The second table has moves of more steps on the mixture. Where points lag behind, a run ends at a
smaller prior mass than that of the posterior, and removes more points. Both tables are kept in
results/nested_speed.json, by number of rows.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.posterior.rows import Window

sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments.evidence_against_rows import ADAPTED, METHODS, MODELS, WARM_UP, reference
from experiments.execute import describe_machine

STEPS = 20  # of a move, in both
NUM_PARTICLES = 10  # of the sequential estimator; nested sampling moves one point at a time
BATCH = 500  # rows of its mini-batches, and of its chunks
WIDTHS = [14] * 4 + [12] * 3  # of the table
METHOD_NAMES = ADAPTED, "sequential"
OUT = Path(__file__).parent / "results" / "nested_speed.json"


def timed(method, bound, arrays, size: int, seed: int):
    """The last snapshot of a run over the first rows, and its processor time."""
    clock = time.process_time()
    *_, end = method.run(bound, Window(arrays, 0, size), jax.random.key(seed))
    return end, time.process_time() - clock


def gradients_of_a_row(name: str, end, size: int) -> float:
    """How often a run took the gradient of each row, on average over the rows."""
    if name == ADAPTED:
        return STEPS * end.diagnose().measured["num_iterations"]
    return NUM_PARTICLES * STEPS * BATCH * (size // BATCH) / size


def compare(size: int) -> dict[str, dict[str, float]]:
    """Both numbers, both costs, and the ratio of times, for each model; they are printed too."""
    found: dict[str, dict[str, float]] = {}
    print(f"{'':10}{'gradients of a row':>28}{'ns of a gradient':>28}{'ratios':>34}")
    columns = "nested", "sequential", "nested", "sequential", "number", "cost", "time"
    print(" " * 10 + "".join(f"{column:>{width}}" for column, width in zip(columns, WIDTHS, strict=True)))
    for problem, model in MODELS.items():
        data, _ = model.simulate(size, 0)
        bound, arrays = model.bind(data), jax.tree.map(jnp.asarray, data)
        numbers, costs = [], []
        for name in METHOD_NAMES:
            timed(METHODS[name], bound, arrays, WARM_UP, 0)  # compiles
            end, seconds = timed(METHODS[name], bound, arrays, size, 1)
            numbers.append(gradients_of_a_row(name, end, size))
            costs.append(1e9 * seconds / size / numbers[-1])
        ratios = numbers[0] / numbers[1], costs[0] / costs[1]
        names = "gradients, nested", "gradients, sequential", "ns, nested", "ns, sequential"
        found[problem] = dict(zip(names, (*numbers, *costs), strict=True)) | {"times": ratios[0] * ratios[1]}
        print(
            f"{problem:10}"
            + "".join(f"{value:14,.0f}" for value in numbers)
            + "".join(f"{value:14,.1f}" for value in costs)
            + "".join(f"{value:12.2g}" for value in (*ratios, ratios[0] * ratios[1])),
            flush=True,
        )
    return found


def lengthen(size: int = 10_000, repeats: int = 3) -> dict[str, dict[str, float]]:
    """Points removed, information and error with longer moves, on average over seeds."""
    model = MODELS["mixture"]
    data, params = model.simulate(size, 0)
    bound, arrays = model.bind(data), jax.tree.map(jnp.asarray, data)
    truth = reference(model, bound, Window(arrays, 0, size), params)
    assert truth is not None
    nested, found = METHODS[ADAPTED], {}
    print(f"\n{size:,} rows, log evidence {truth['log_evidence']:,.1f}")
    print(f"{'steps of a move':>16}{'points removed':>16}{'information':>14}{'error':>10}")
    for num_steps in (STEPS, 5 * STEPS, 20 * STEPS):
        method = replace(nested, kernel=replace(nested.kernel, num_steps=num_steps))
        ends = [timed(method, bound, arrays, size, seed)[0] for seed in range(repeats)]
        measured = [end.diagnose().measured for end in ends]
        removed, information = (
            float(np.mean([each[name] for each in measured])) for name in ("num_iterations", "information")
        )
        errors = [end.estimate.log_evidence - truth["log_evidence"] for end in ends]
        found[str(num_steps)] = {"removed": removed, "information": information, "errors": errors}
        print(f"{num_steps:16}{removed:16,.0f}{information:14,.0f}{np.mean(errors):10,.0f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    kept = json.loads(OUT.read_text()) if OUT.exists() else {"machine": describe_machine()}
    kept |= {f"{rows} rows": compare(rows), "longer moves, 10000 rows": lengthen()}
    OUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
