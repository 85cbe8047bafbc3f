"""Accuracy and run time of the papers' estimators against the number of rows, to N = 10⁶.

    python -m experiments.evidence_against_rows                    # all three: a day on 2 cores
    python -m experiments.evidence_against_rows --quick --out somewhere

Models: a linear regression (5 features and an intercept; exact evidence), a softmax regression (10
features, 4 classes) and a Gaussian mixture (5 components in the plane). 10⁶ rows are simulated
once; smaller data are their first rows. Each estimator has a separate run at each N, with other
seeds, so its time at N is that of a run over N rows. The papers' claims for N = 10⁶:

  - SGAIS is off by 0.1% of log Z (linear), 0.6% (softmax), 0.1% (mixture); nested sampling takes
    3.3, 10.4 and 4.9 times as long, annealed importance sampling 24.9 times (linear). The mixture
    with a learning rate of 1.0, 83 times, is not repeated;
  - the sequential estimator is off by 0.01%, 0.7%, 0.06%; nested sampling takes 3, 17 and 11 times
    as long. Figures for the hybrid, which starts with nested sampling of 100 rows, are not
    available.

The estimators have the published settings. Added are nested sampling whose length of steps, 0.03
in the papers, follows the share of them that stay inside the contour ("adapted"), and the
library's default. If a run would pass the papers' cap of 4,000 s, assuming time proportional to N,
that size and all larger ones are skipped, and the record says so. `evidence_single_runs` does
single ones of those.

Errors are against the exact evidence, or importance sampling about the mode near the true
parameters, where the papers use nested sampling; up to 1,000 rows the mixture has many modes, and
no reference. Time is processor time, summed over threads, which other programs do not affect; the
record has wall-clock time too. Compilation in a first run over 100 rows is not counted. The
default compiles more later; the median over the repeats excludes this, except in a quick run, with
its one repeat. `evidence_verdict` has the criteria of the verdict.

Source: Cameron, Eggers, Kroon (2019), Proceedings 33(1), 18, Figures 1 to 3 (sequential estimator,
hybrid) and Entropy 21(11), 1109, Figures 2 to 4 (SGAIS); Cameron (2020), MSc thesis, Stellenbosch,
Figures 5.5 to 5.7.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import evidentia as ev
from evidentia import weights
from evidentia.evidence.population.importance import Sampling, weighted_draws
from evidentia.evidence.population.mixture import Mixture
from evidentia.kernels import ReflectingSGHMC
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window
from experiments.evidence_verdict import ADAPTED, PUBLISHED, draw, judge, seconds, table
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings

MODELS = {
    "linear": ev.models.linear_regression(num_features=5),
    "softmax": ev.models.softmax_regression(num_features=10, num_classes=4),
    "mixture": ev.models.gaussian_mixture(num_components=5, num_features=2),
}
NESTED = ev.NestedSampling.published()
METHODS = {
    "SGAIS": ev.SGAIS.published(),
    "sequential": ev.Sequential.published(),
    "hybrid": ev.Sequential.published(initial=NESTED),
    "nested sampling": NESTED,
    ADAPTED: replace(NESTED, kernel=ReflectingSGHMC(num_steps=20, friction=0.1)),
    "AIS": ev.AIS.published(),
    "our default": ev.SGAIS(),
}
WARM_UP = 100  # rows of the run that compiles
FEW_ROWS = 1000  # up to which the mixture has many modes
NUM_DRAWS = (
    8,
    512,
)  # of the reference: batches, and draws in each, as many as the default's particles (compiled)


class Plan(NamedTuple):
    """Numbers of rows, runs at each, time limit of a run in seconds, and methods to skip."""

    sizes: tuple[int, ...]
    repeats: int
    time_cap: float
    left_out: tuple[str, ...] = ()


FULL = Plan((100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000), 3, 4000.0)
# Compilation takes longer than a run here. Methods without a published claim are skipped where it
# is slow.
QUICK = {
    "linear": Plan((100, 300, 1000, 3000, 10_000, 30_000), 1, 4.0, (ADAPTED,)),
    "softmax": Plan((1000, 10_000, 30_000), 1, 8.0, (ADAPTED, "hybrid", "AIS")),
    "mixture": Plan((3000, 10_000), 1, 8.0, (ADAPTED, "hybrid", "AIS", "our default")),
}


def run(problem: str, settings: Settings) -> Record:
    plan, model = QUICK[problem] if settings.quick else FULL, MODELS[problem]
    data, params = model.simulate(plan.sizes[-1], settings.seed)
    bound, arrays = model.bind(data), jax.tree.map(jnp.asarray, data)
    record = plan._asdict() | {"problem": problem, "references": [], "runs": {}, "skipped": {}}
    for size in plan.sizes:
        find = partial(reference, model, bound, Window(arrays, 0, size), params)
        record["references"].append(settings.remember(f"reference, {size} rows", find))
    chosen = {name: method for name, method in METHODS.items() if name not in plan.left_out}
    for name, method in chosen.items():
        measure = partial(run_once, method, bound, arrays, jax.random.key(settings.seed))
        record["runs"][name], reason = up_to_the_cap(name, measure, plan, settings)
        record["skipped"] |= {name: reason} if reason else {}
    return record


def up_to_the_cap(
    name: str, measure: Callable[[int, int], Record], plan: Plan, settings: Settings
) -> tuple[list[Record], str]:
    """Run at each number of rows up to the time cap; return the columns and why it stopped."""
    entries: list[Record] = []
    compiled = cache(lambda: measure(min(WARM_UP, plan.sizes[0]), 0))

    def timed(size, repeat):
        compiled()
        return measure(size, repeat)

    for size in plan.sizes:
        wanted = seconds(entries[-1]) * size / entries[-1]["num_observations"] if entries else 0.0
        if wanted > plan.time_cap:
            reason = f"a run would take {wanted:,.0f} s, and the cap is {plan.time_cap:g} s"
            return entries, f"{size:,} rows and more: {reason}"
        found = [
            settings.remember(f"{name}, {size} rows, run {repeat}", partial(timed, size, repeat))
            for repeat in range(plan.repeats)
        ]
        columns = {column: [one[column] for one in found] for column in found[0]}
        entries.append({"num_observations": size, **columns})
        print(f"{name}, {size:,} rows: {seconds(entries[-1]):.2f} s", flush=True)
    return entries, ""


def run_once(method: Any, bound, arrays, key, size: int, repeat: int) -> Record:
    """Run over the first rows, a window of the same arrays, so that nothing recompiles."""
    # Seeds differ between sizes: otherwise a nested sampler repeats its volume errors.
    key = jax.random.fold_in(jax.random.fold_in(key, size), repeat)
    clock, processor = time.perf_counter(), time.process_time()
    *_, end = method.run(bound, Window(arrays, 0, size), key)
    return {
        "log_evidence": end.estimate.log_evidence,
        "standard_error": end.estimate.standard_error,
        "processor_seconds": round(time.process_time() - processor, 6),
        "clock_seconds": round(time.perf_counter() - clock, 6),
    }


def reference(model: ev.Model, bound, rows: Window, params) -> Record | None:
    """Exact log evidence, or importance sampling from a Student t about the mode; None if neither.

    The mode is the one nearest to the true parameters.
    """
    if model.exact_log_evidence is not None:
        exact = model.exact_log_evidence(jax.tree.map(lambda leaf: leaf[: rows.stop], rows.arrays))
        return {"log_evidence": exact, "standard_error": 0.0}
    if model.exchangeable and rows.size <= FEW_ROWS:
        return None
    start = bound.unconstrain(jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), params))
    mode = newton(bound, rows, np.asarray(start))
    assert mode is not None
    # The weights account for the copies of the mode from interchangeable components.
    batches, size = NUM_DRAWS
    generator = np.random.default_rng(rows.size)
    draws = [weighted_draws(Sampling(bound, rows, generator, size), Mixture((mode,))) for _ in range(batches)]
    log_weights = np.concatenate([batch.log_weights + batch.offset for batch in draws])
    error = math.sqrt(weights.relative_variance(log_weights))
    return {"log_evidence": weights.log_mean(log_weights), "standard_error": error}


def _experiment(problem: str, model: str) -> Experiment:
    percent, ratios = PUBLISHED[problem]
    longer = ", ".join(f"{slow} {ratio:g} times as long as {fast}" for (slow, fast), ratio in ratios.items())
    return Experiment(
        name=f"evidence-{problem}",
        title=f"Evidence of a {model}, up to a million rows",
        reproduces="Entropy paper, one of Figures 2–4; MaxEnt paper, one of Figures 1–3; thesis, one of Figures 5.5–5.7",
        claim=f"At a million rows SGAIS is off by {percent['SGAIS']:g}% of log Z, and the sequential estimator by "
        f"{percent['sequential']:g}%. Run time: {longer}.",
        alt="Three panels against the number of rows, with a line for each estimator: log evidence per row, its error in "
        "nats, and processor time on logarithmic axes.",
        run=partial(run, problem),
        draw=draw,
        table=table,
        judge=judge,
    )


EXPERIMENTS = (
    _experiment("linear", "linear regression"),
    _experiment("softmax", "softmax regression"),
    _experiment("mixture", "Gaussian mixture"),
)

if __name__ == "__main__":
    main(*EXPERIMENTS)
