"""How much do SGAIS's settings matter? Six studies, each of which varies one setting.

    python -m experiments.sensitivity                              # 25 minutes of one core
    python -m experiments.sensitivity --quick --out somewhere      # half a minute a study
    evidentia reproduce sensitivity-chunk-size

The published algorithm (`ev.SGAIS.published()`: 10 particles, chunks and mini-batches of 500 rows,
20 SGHMC steps per annealing step, learning rate 0.1/n, friction 0.2, target ESS 5) runs on
simulated rows of a linear regression with five features and exact evidence. One setting varies by
up to a factor of ten below and above its published value, as far as it can; the others stay fixed.
The figure shows the error of the log evidence, the time and the number of annealing steps, as
means over seeds with standard deviations, and `ev.SGAIS()` as a line, as it is the same in all
studies.

  particles   with a target ESS of half of them, at least five of them: the ESS of two cannot fall
              below one;
  target ESS  of the ten particles;
  time        of the processor, which other programs do not slow down, for all seeds but the first,
              which compiles;
  noise       of the gradient, relative to that of the kernel, in the last ten moves
              (`diagnostics["gradient_noise_share"]`).

The models, rows, values and words of the papers' figures are not available, nor which study each
shows. The claims are our reading: published settings were shown not to matter much. We take that
as an error under 0.5% of the log evidence up to ten times from the published value, five times the
papers' error on 10⁶ rows (0.1%), and that more moves, particles, temperatures or gradient rows,
and smaller chunks, take more time. A study differs if the mean error at a value is beyond 0.5% by
more than two standard errors, or the time does not grow, or fall, from one end of the range to the
other. The learning rate's effect on time is not judged: we only know that for the mixture 1.0
instead of 0.1 is 17 times faster (83 against 4.9 times as fast as nested sampling). The full form
has 10⁵ rows: 10⁶ would take four hours.

Findings: chunk size, target ESS and the numbers of moves and particles matter little. Once
gradient noise dominates, the error grows with it: with the learning rate and with the inverse
mini-batch size, beyond 0.5% at one end of each. `ev.SGAIS()` has neither this noise nor the error.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Figures 6 to 8 and A2 to A4, and
Algorithm 1 for the settings; Cameron (2020), MSc thesis, Stellenbosch, Figures 5.9 to 5.14.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

import evidentia as ev
from evidentia.display.plots import COLORS
from evidentia.display.text import with_error
from experiments.execute import cell, main
from experiments.experiment import Experiment, Verdict

MODEL = ev.models.linear_regression(num_features=5)
METHOD = ev.SGAIS.published()
PUBLISHED_ERROR = 0.001  # of |log Z| with the published settings on 10⁶ rows: Entropy 21(11), 1109
ALLOWED = 0.005  # of |log Z|: our reading of "does not matter much"
DOCUMENTS = "Entropy paper, one of Figures 6–8 and A2–A4; thesis, one of Figures 5.9–5.14"


class Study(NamedTuple):
    """One setting of the published algorithm: its values, and the method for each.

    `growth` of the time with the setting: 1 if it grows, -1 if it falls, 0 if it is not judged.
    """

    name: str
    setting: str
    published: float
    values: tuple[float, ...]
    method: Callable[[float], ev.SGAIS]
    growth: int

    @property
    def claim(self):
        """Our reading of the papers, for this setting."""
        time_too = {1: ", and the time grows with it", -1: ", and the time falls as it grows", 0: ""}
        return f"The estimate does not depend strongly on the {self.setting}{time_too[self.growth]} (our reading)."


def with_kernel(name, value):
    return replace(METHOD, kernel=replace(METHOD.kernel, **{name: value}))


def with_batch_size(value):
    return replace(METHOD, gradient=replace(METHOD.gradient, batch_size=value))


def with_target_ess(value):
    return replace(METHOD, target_ess=value / METHOD.num_particles)


NUM_ROWS, RATES = (50, 150, 500, 1500, 5000), (0.01, 0.03, 0.1, 0.3, 1.0)
STUDIES = (
    Study("chunk-size", "chunk size", 500, NUM_ROWS, lambda value: replace(METHOD, chunk_size=value), -1),
    Study("mini-batch", "mini-batch size", 500, NUM_ROWS, with_batch_size, 1),
    Study("learning-rate", "learning rate", 0.1, RATES, partial(with_kernel, "learning_rate"), 0),
    Study("moves", "number of SGHMC steps", 20, (2, 6, 20, 60, 200), partial(with_kernel, "num_steps"), 1),
    Study("target-ess", "target ESS", 5, (2, 3.5, 5, 7, 9), with_target_ess, 1),
    Study(
        "particles",
        "number of particles",
        10,
        (5, 10, 20, 50, 100),
        lambda value: replace(METHOD, num_particles=value),
        1,
    ),
)


class Plan(NamedTuple):
    rows: int
    seeds: int


FULL, QUICK = Plan(100_000, 5), Plan(10_000, 2)


def run(study, settings):
    """Runs of the published algorithm at each value, and of the default."""
    plan = QUICK if settings.quick else FULL
    values = sorted({study.values[0], study.published, study.values[-1]}) if settings.quick else study.values
    return compare(study, values, plan, settings)


def compare(study, values, plan, settings):
    data, _ = MODEL.simulate(plan.rows, settings.seed)
    exact = MODEL.exact_log_evidence(data)
    seeds = range(100 * settings.seed, 100 * settings.seed + plan.seeds)
    measured = [
        settings.remember(
            f"{study.name} {value}", lambda value=value: measure(study.method(value), data, exact, seeds)
        )
        for value in values
    ]
    return {
        "rows": plan.rows,
        "log_evidence": exact,
        "values": list(values),
        "runs": measured,
        "default": settings.remember(
            f"{study.name} default", lambda: measure(ev.SGAIS(), data, exact, seeds)
        ),
    }


def measure(method, data, exact, seeds):
    """Measure a run with each seed; no seconds for the first one, which compiles."""
    found = {"error": [], "seconds": [], "annealing_steps": [], "noise": []}
    for seed in seeds:
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ev.EvidenceWarning)  # the errors are measured here
            evidence = ev.estimate(MODEL, data, method=method, seed=seed)
        found["seconds"].append(round(time.process_time() - started, 3))
        found["error"].append(evidence.log_evidence - exact)
        found["annealing_steps"].append(int(evidence.trajectory.num_annealing_steps.sum()))
        found["noise"].append(float(evidence.diagnostics["gradient_noise_share"]))
    return found | {"seconds": found["seconds"][1:]}


def mean(values):
    return float(np.mean(values))


def spread(values):
    """Standard deviation over seeds."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def standard_error(values):
    return spread(values) / len(values) ** 0.5


def judge(study, record):
    """Agree if no error is over the limit by two standard errors, and times change as expected."""
    values, runs, size = record["values"], record["runs"], abs(record["log_evidence"])
    errors = np.array([mean(run["error"]) for run in runs]) / size
    allowed = ALLOWED + 2 * np.array([standard_error(run["error"]) for run in runs]) / size
    is_far = ~(np.abs(errors) <= allowed)
    first, last = (mean(run["seconds"]) for run in (runs[0], runs[-1]))
    is_right_way = study.growth == 0 or (last - first) * study.growth > 0
    sentence = (
        f"With a {study.setting} from {values[0]:g} to {values[-1]:g} the mean error on {record['rows']:,} rows is "
        f"{percent(errors.min())} to {percent(errors.max())} of |log Z| (published value {study.published:g}: "
        f"{percent(errors[values.index(study.published)])}), and the time goes from {first:.2g} s to {last:.2g} s."
    )
    if is_far.any():
        beyond = [
            f"{values[i]:g} ({percent(errors[i])}; the gradient's noise is {cell(mean(runs[i]['noise']))} times the kernel's)"
            for i in np.flatnonzero(is_far)
        ]
        sentence += f" Beyond {100 * ALLOWED:g}%: {', '.join(beyond)}."
    if not is_right_way:
        sentence += f" The time should {'grow' if study.growth > 0 else 'fall'}."
    return Verdict(bool(not is_far.any() and is_right_way), sentence)


def percent(share):
    return f"{cell(100 * share)}%"


def table(study, record):
    """A row for each value, and one for the default."""
    rows = zip([*record["values"], "ev.SGAIS()"], [*record["runs"], record["default"]], strict=True)
    return [
        {
            study.setting: value if isinstance(value, str) else f"{value:g}",
            "error (nats)": with_error(mean(run["error"]), standard_error(run["error"])).replace("-", "−"),
            "|error| (%)": 100 * abs(mean(run["error"]) / record["log_evidence"]),
            "papers (%)": 100 * PUBLISHED_ERROR if value == study.published else None,
            "time (s)": mean(run["seconds"]),
            "annealing steps": mean(run["annealing_steps"]),
            "noise": mean(run["noise"]) if value != "ev.SGAIS()" else None,
        }
        for value, run in rows
    ]


def draw(study, record):
    """Error, time and annealing steps against the setting."""
    figure = Figure(figsize=(10, 3.7), layout="constrained")
    panels = figure.subplots(1, 3)
    labels = {
        "error": "error (nats)",
        "seconds": "processor time (seconds)",
        "annealing_steps": "annealing steps",
    }
    for axes, (quantity, label) in zip(panels, labels.items(), strict=True):
        _panel(axes, study, record, quantity)
        axes.set_ylabel(label)
    limit = ALLOWED * abs(record["log_evidence"])
    panels[0].axhspan(-limit, limit, color=COLORS[6], alpha=0.15, linewidth=0, label="±0.5% of log Z")
    errors = [error for run in record["runs"] for error in run["error"]]
    panels[0].set_yscale("symlog", linthresh=1, linscale=0.5)
    panels[0].set_ylim(2 * min(-limit, *errors), 2 * max(1, *errors))  # estimates are below the exact value
    panels[0].axhline(0, color="black", linewidth=0.8)
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace("-", "−")))
    for axes in panels[1:]:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def _panel(axes, study, record, quantity):
    values = record["values"]
    means = [mean(run[quantity]) for run in record["runs"]]
    spreads = [spread(run[quantity]) for run in record["runs"]]
    axes.errorbar(
        values,
        means,
        spreads,
        marker="o",
        markersize=4,
        capsize=3,
        color=COLORS[0],
        label="SGAIS as published",
    )
    at = values.index(study.published)
    axes.plot(
        values[at],
        means[at],
        "D",
        markersize=8,
        color=COLORS[0],
        label=f"published value, {study.published:g}",
    )
    default, width = mean(record["default"][quantity]), spread(record["default"][quantity])
    axes.axhline(default, color=COLORS[1], linestyle="--", label="ev.SGAIS()")
    axes.axhspan(default - width, default + width, color=COLORS[1], alpha=0.25, linewidth=0)
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(study.setting)
    axes.spines[["top", "right"]].set_visible(False)


EXPERIMENTS = tuple(
    Experiment(
        name=f"sensitivity-{study.name}",
        title=f"How much the {study.setting} matters",
        reproduces=DOCUMENTS,
        claim=study.claim,
        alt=f"Three panels against the {study.setting}: error of the log evidence, time, and number of annealing steps of the "
        "published algorithm, with those of ev.SGAIS() as horizontal lines.",
        run=partial(run, study),
        draw=partial(draw, study),
        table=partial(table, study),
        judge=partial(judge, study),
    )
    for study in STUDIES
)

if __name__ == "__main__":
    main(*EXPERIMENTS)
