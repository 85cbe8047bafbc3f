"""Clusters that appear in a stream: the papers' distribution shift, with the published method.

    python -m experiments.distribution_shift          # ten seeds: half an hour of one core

Of 100,000 rows in the plane, the first come from 3 Gaussian clusters, those from row 1,000 on from
5, and those from row 10,000 on from 7. Mixtures with 3, 5 and 7 components process them with the
published SGAIS (10 particles, chunks and mini-batches of 500 rows), in that order and shuffled.
The papers claim that

  - the log evidence changes sharply where clusters are added;
  - the mixture of 3 components is the worst, those of 5 and 7 are nearly alike, as some clusters
    overlap;
  - the order changes the log evidence by less than the models differ;
  - the annealing steps rise at the changes, and stay high for models with too few components.

The papers give neither positions nor widths: the clusters are ours. The first five are apart; the
sixth and the seventh each overlap one of them, 1.5 standard deviations away. The first of ten
seeds has all rows; the others, with other rows and particles, end at 20,000, after the second
change.

Beside the papers' quantities, the record has the alarms of an `ev.ChangeDetector` on the density
of the rows under a copy of the model that saw only the first chunk (`DensityHistogram`), and the
log-likelihood per row of every particle at the end, which shows whether the particles sit in the
same mode. `distribution_shift_verdict` has the statements that are judged.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, sections 6.2 and 7.2, Figures 1 and 5;
Cameron (2020), MSc thesis, Figures 5.1 and 5.8.
"""

import time
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import numpy as np

import evidentia as ev
from evidentia.monitor import DensityHistogram
from experiments.distribution_shift_verdict import (
    NUM_BINS,
    ORDERS,
    RANGE,
    draw,
    judge,
    key,
    summarise,
    table,
)
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings

# Seven clusters: the sixth overlaps the first, the seventh overlaps the third.
OVERLAP = 1.5  # standard deviations from one to the other, in both directions alike
WIDTHS = np.array([0.5, 0.6, 0.5, 0.4, 0.45, 0.5, 0.5])
APART = np.array([[-2.5, -1.5], [0.0, 2.2], [2.5, -1.2], [-2.4, 1.6], [2.4, 1.6]])
ASIDE = OVERLAP * WIDTHS[5] * np.sqrt(0.5)
CENTRES = np.concatenate([APART, APART[[0, 2]] + ASIDE * np.array([[1, 1], [-1, 1]])])


class Plan(NamedTuple):
    """Rows of the first and of other streams, at the changes and in a chunk; components; seeds."""

    num_rows: int = 100_000
    num_rows_again: int = 20_000
    changes: tuple[int, ...] = (1_000, 10_000)
    chunk_size: int = 500
    num_clusters: tuple[int, ...] = (3, 5, 7)
    num_components: tuple[int, ...] = (3, 5, 7)
    num_seeds: int = 10
    false_alarm_rate: float = 1e-4


QUICK = Plan(3_000, changes=(1_000, 2_000), num_seeds=1)


def simulate(plan: Plan, order: str, seed: int = 0) -> np.ndarray:
    """Rows (num_rows, 2); all clusters present at a row are equally probable."""
    generator = np.random.default_rng(seed)
    part = np.searchsorted(plan.changes, np.arange(plan.num_rows), "right")
    cluster = generator.integers(0, np.array(plan.num_clusters)[part])
    rows = CENTRES[cluster] + WIDTHS[cluster, None] * generator.normal(size=(plan.num_rows, 2))
    if order == "shuffled":
        rows = generator.permutation(rows)
    return rows.astype(np.float32)


def make_online(num_components: int, seed: int):
    model = ev.models.gaussian_mixture(num_components=num_components, num_features=2)
    return ev.Online(model, method=ev.SGAIS.published(), seed=seed)


def process(count: int, order: str, plan: Plan, seed: int) -> dict:
    """Feed the rows to a model chunk by chunk; return a column per quantity, and the alarms."""
    online, rows = make_online(count, seed), simulate(plan, order, seed)
    started = time.process_time()
    chunks = [rows[start : start + plan.chunk_size] for start in range(0, len(rows), plan.chunk_size)]
    updates = [online.update({"y": chunk}) for chunk in chunks]
    return {
        "num_observations": [int(update.num_observations) for update in updates],
        "log_predictive_per_row": [round(float(u.log_predictive / u.batch_size), 5) for u in updates],
        "log_evidence": [round(float(update.log_evidence), 3) for update in updates],
        "num_annealing_steps": [int(update.num_annealing_steps) for update in updates],
        "processor_seconds": round(time.process_time() - started, 1),
        "standard_error": round(float(online.standard_error), 4),
        "particles_log_likelihood_per_row": particles_log_likelihood(online, rows),
        "alarms": watch_densities(online, rows, plan, seed),
    }


def particles_log_likelihood(online, rows: np.ndarray) -> list[float]:
    """Mean log-likelihood of the rows at each particle at the end, in nats."""
    values = jax.vmap(online.model.log_likelihood, (0, None))(online.weighted.parameters, {"y": rows})
    return np.sort(np.asarray(values.mean(axis=1))).round(5).tolist()


def watch_densities(online, rows: np.ndarray, plan: Plan, seed: int) -> list[dict]:
    """Alarms of a histogram fitted to the first chunk, and refitted after each alarm."""
    detector, alarms, first = None, [], 0
    for start in range(0, len(rows), plan.chunk_size):
        chunk = {"y": rows[start : start + plan.chunk_size]}
        if detector is None:
            histogram, first = DensityHistogram.fit(online, chunk, seed=seed), start
            detector = ev.ChangeDetector(histogram, plan.false_alarm_rate)
        elif alarm := detector.update(chunk).alarm:
            at = {name: first + getattr(alarm, name) for name in ("row", "num_observations")}
            alarms.append({**at, "log_bayes_factor": alarm.log_bayes_factor})
            detector = None
    return alarms


def run(settings: Settings, quick: Plan = QUICK) -> Record:
    """Runs of the first seed in full, and a summary of the runs of each seed."""
    plan = quick if settings.quick else Plan()
    first, summaries = {}, []
    for seed in range(settings.seed, settings.seed + plan.num_seeds):
        stream = plan._replace(num_rows=plan.num_rows_again) if first else plan
        runs = {
            key(count, order): settings.remember(
                f"seed {seed}, {key(count, order)}", partial(process, count, order, stream, seed)
            )
            for order in ORDERS
            for count in plan.num_components
        }
        first = first or runs
        summaries.append(summarise(stream._asdict(), runs))
    return {
        "plan": plan._asdict(),
        "histograms": histograms(plan, settings.seed),
        "runs": first,
        "summaries": summaries,
    }


def histograms(plan: Plan, seed: int) -> dict[str, list[list[int]]]:
    """Counts of the rows before, between and after the changes, and of all: (y, x) bins."""
    rows = simulate(plan, "in order", seed)
    edges = [0, *plan.changes, plan.num_rows]
    parts = {f"rows {first + 1:,} to {last:,}": (first, last) for first, last in pairwise(edges)}
    parts["all rows"] = (0, plan.num_rows)
    return {
        name: np.histogram2d(*rows[first:last].T[::-1], NUM_BINS, (RANGE, RANGE))[0].astype(int).tolist()
        for name, (first, last) in parts.items()
    }


EXPERIMENT = Experiment(
    name="distribution-shift",
    title="Clusters that appear in a stream",
    reproduces="Entropy paper, Figures 1 and 5; thesis, Figures 5.1 and 5.8",
    claim="Where clusters are added, the log evidence changes sharply and the annealing steps rise; 3 components are the worst, "
    "5 and 7 are nearly alike, whatever the order of the rows.",
    alt="Above, histograms of the rows before, between and after the changes and of all rows; in the middle, the log evidence per "
    "row of three mixtures, in order and shuffled; below, the annealing steps, which rise where clusters are added.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
