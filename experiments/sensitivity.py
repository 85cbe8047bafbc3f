"""How do SGAIS's settings matter? The papers' six studies, each of which varies one of them.

    python -m experiments.sensitivity                              # an hour of one core
    python -m experiments.sensitivity --quick --out somewhere      # under a minute a study
    evidentia reproduce sensitivity-target-ess

The published algorithm (`ev.SGAIS.published()`: 10 particles, chunks and mini-batches of 500 rows,
20 SGHMC steps per annealing step, learning rate 0.1/n, friction 0.2, target ESS 5) runs on
simulated rows of the mixture of five Gaussians in two dimensions, as in the papers. One setting
varies about its published value, the others stay fixed, except for two studies:

  mini-batch             chunks are as long as the mini-batches, as in all of the paper (6.1);
  learning-rate-steps    the product of rate and steps is constant (7.3.3).

The figure shows the error of the log evidence per row, the time and the number of annealing steps.
The evidence that errors refer to is that of `ev.Laplace()`, whose two runs agree to a nat: the
errors here are some fifty to a thousand.

  particles   with a target ESS of half of them;
  target ESS  of the ten particles; 1 means no annealing, since no ESS is smaller;
  error       the root mean square over seeds;
  time        of the processor, which other programs do not slow down, for all seeds but the first,
              which compiles.

The paper's values are in its figures alone, which we do not have; ours reach the ends that its
text names (a target ESS of 1, rates from 0.01 to 1). The full form has 10⁵ rows, the papers up to
10⁶, as `sensitivity_million` has with two seeds.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, 6.1, 7.3, Figures 6 to 8 and A2 to A4;
Cameron (2020), MSc thesis, Stellenbosch, 5.4 and 5.5.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import evidentia as ev
from experiments.execute import main
from experiments.experiment import Experiment
from experiments.sensitivity_verdict import WORDS, draw, judge, mean, table

MODEL = ev.models.gaussian_mixture(num_components=5, num_features=2)
METHOD = ev.SGAIS.published()
DOCUMENTS = "Entropy paper, 7.3 and one of Figures 6–8 and A2–A4; thesis, 5.4 and 5.5"


class Study(NamedTuple):
    """One setting of the published algorithm: its values, and the method for each.

    `trends` are the quantities that the paper says grow (+1) or fall (-1) with the setting;
    `acceptable` are the values at which it finds the error acceptable.
    """

    name: str
    setting: str
    published: float
    values: tuple[float, ...]
    method: Callable[[float], ev.SGAIS]
    trends: dict[str, int]
    acceptable: tuple[float, ...] = ()

    @property
    def claim(self):
        """What the paper says of this setting."""
        changes = [
            f"the {WORDS[name]} {'grows' if sign > 0 else 'falls'}" for name, sign in self.trends.items()
        ]
        said = f"With the {self.setting}, {', '.join(changes)}."
        if self.acceptable:
            shown = ", ".join(f"{value:g}" for value in self.acceptable)
            said += f" The error is acceptable at {shown}."
        return said


def with_kernel(**fields):
    return replace(METHOD, kernel=replace(METHOD.kernel, **fields))


def with_rate_and_steps(rate):
    """The product of rate and number of steps is the published one, as far as steps are whole."""
    kernel = METHOD.kernel
    num_steps = round(kernel.learning_rate * kernel.num_steps / rate)
    return with_kernel(learning_rate=rate, num_steps=num_steps)


def with_batch_size(value):
    return replace(METHOD, chunk_size=value, gradient=replace(METHOD.gradient, batch_size=value))


RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
STUDIES = (
    Study(
        "particles",
        "number of particles",
        10,
        (4, 10, 20, 50, 100),
        lambda value: replace(METHOD, num_particles=value),
        {"error": -1, "seconds": 1},
    ),
    Study(
        "target-ess",
        "target ESS",
        5,
        (1, 2, 5, 7, 9),
        lambda value: replace(METHOD, target_ess=value / METHOD.num_particles),
        {"annealing_steps": 1},
        (2, 5, 7, 9),
    ),
    Study(
        "moves",
        "number of SGHMC steps",
        20,
        (2, 6, 20, 60, 200),
        lambda value: with_kernel(num_steps=value),
        {"error": -1, "seconds": 1, "annealing_steps": -1},
    ),
    Study(
        "mini-batch",
        "mini-batch size",
        500,
        (50, 150, 500, 1500, 5000),
        with_batch_size,
        {"error": -1, "steps_per_chunk": 1},
    ),
    Study(
        "learning-rate",
        "learning rate",
        0.1,
        RATES,
        lambda value: with_kernel(learning_rate=value),
        {"error": -1, "seconds": -1, "annealing_steps": -1},
    ),
    Study(
        "learning-rate-steps",
        "learning rate (rate × steps constant)",
        0.1,
        RATES,
        with_rate_and_steps,
        {"error": 1, "seconds": -1, "annealing_steps": 1},
        (1.0,),
    ),
)


class Plan(NamedTuple):
    rows: int
    seeds: int


FULL, QUICK = Plan(100_000, 5), Plan(5_000, 2)


def run(study, settings):
    """Runs of the published algorithm at each value, and of the reference."""
    plan = QUICK if settings.quick else FULL
    values = sorted({study.values[0], study.published, study.values[-1]}) if settings.quick else study.values
    return compare(study, values, plan, settings)


def compare(study, values, plan, settings):
    seeds = tuple(range(100 * settings.seed, 100 * settings.seed + plan.seeds))
    measured_on = partial(measure, rows=plan.rows, data_seed=settings.seed)
    reference = settings.remember("reference", partial(measured_on, ev.Laplace(), seeds[:2]))
    measured = [
        settings.remember(f"{study.name} {value}", partial(measured_on, study.method(value), seeds))
        for value in values
    ]
    exact = mean(reference["log_evidence"])
    for found in [reference, *measured]:
        found["error"] = [value - exact for value in found["log_evidence"]]
    return {
        "rows": plan.rows,
        "log_evidence": exact,
        "values": list(values),
        "runs": measured,
        "reference": reference,
    }


@cache
def measure(method, seeds, rows, data_seed):
    """Measure a run with each seed; no seconds for the first one, which compiles.

    Kept in memory: the reference and the published settings are those of all studies.
    """
    data, _ = MODEL.simulate(rows, data_seed)
    found = {"log_evidence": [], "seconds": [], "annealing_steps": [], "steps_per_chunk": []}
    for seed in seeds:
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ev.EvidenceWarning)  # the errors are measured here
            evidence = ev.estimate(MODEL, data, method=method, seed=seed)
        steps = evidence.trajectory.num_annealing_steps
        found["seconds"].append(round(time.process_time() - started, 3))
        found["log_evidence"].append(evidence.log_evidence)
        found["annealing_steps"].append(int(steps.sum()))
        found["steps_per_chunk"].append(float(steps.mean()))
    return found | {"seconds": found["seconds"][1:]}


EXPERIMENTS = tuple(
    Experiment(
        name=f"sensitivity-{study.name}",
        title=f"How much the {study.setting} matters",
        reproduces=DOCUMENTS,
        claim=study.claim,
        alt=f"Three panels against the {study.setting}: error of the log evidence per row, time, and number of annealing steps "
        "of the published algorithm; a horizontal line is the time of ev.Laplace().",
        run=partial(run, study),
        draw=partial(draw, study),
        table=partial(table, study),
        judge=partial(judge, study),
    )
    for study in STUDIES
)

if __name__ == "__main__":
    main(*EXPERIMENTS)
