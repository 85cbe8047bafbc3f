"""Do nested samplers agree with each other, and with annealed importance sampling?

These are the two figures of the appendix, on rows simulated from a one-dimensional mixture of
three Gaussians (9 parameters):

  nested-sampling-rejection   reflecting nested sampling against rejection nested sampling, which
                              is exact and slow, from 20 to 250 rows. Rejection needs e^H draws per
                              point, with H the information: a run stored in results/ reached 100
                              rows; more did not finish in hours;
  nested-sampling-annealing   nested sampling against annealed importance sampling, from 20 to
                              1,000 rows in steps of 20: hours.

Error bars are two standard errors of the mean of the runs, from their reported errors. The papers'
values are in figures only, and not available: the verdict is on the agreement that they claim.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Appendix A.2, Figure A1, and
Proceedings 33(1), 18, Figure A1.
"""

import re
import time
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import chi2, norm

import evidentia as ev
from evidentia.display.plots import COLORS
from evidentia.kernels import Rejection
from evidentia.posterior.rows import Window
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings, Verdict

MODEL = ev.models.gaussian_mixture(num_components=3, num_features=1)
# Of six seeds tried, the one whose data have the least information, as rejection needs e^H draws
# per point. For the same reason this comparison stops with a tenth of the evidence remaining, and
# rejection has four live points.
DATA_SEED, NUM_ROWS = 5, 1000
REFLECTING, REJECTION = "reflecting nested sampling", "rejection nested sampling"
ANNEALED = "annealed importance sampling"
GIVEN_UP = "region too small"  # sign of a run that found no more points and is too low
CHANCE = 1e-3  # of a wrong rejection if errors are as reported, in each of two tests


class Plan(NamedTuple):
    """Methods to compare, numbers of rows, and runs of each."""

    methods: dict[str, Any]
    sizes: tuple[int, ...]
    num_runs: int


REJECTING = ev.NestedSampling(num_particles=4, kernel=Rejection(max_draws=10**7), remaining=0.1)
PLANS = {
    "rejection": Plan(
        {REFLECTING: ev.NestedSampling(remaining=0.1), REJECTION: REJECTING},
        (20, 50, 100, 150, 200, 250),
        5,
    ),
    "annealing": Plan(
        {REFLECTING: ev.NestedSampling(num_particles=64), ANNEALED: ev.AIS()}, tuple(range(20, 1001, 20)), 5
    ),
}
QUICK = {
    "rejection": Plan(
        {REFLECTING: ev.NestedSampling(num_particles=64, remaining=0.1), REJECTION: REJECTING}, (20, 40), 3
    ),
    "annealing": Plan(
        {
            REFLECTING: ev.NestedSampling(num_particles=64),
            ANNEALED: ev.AIS(num_particles=128, target_ess=0.97),
        },
        (20, 40, 60),
        3,
    ),
}


def estimate(method: Any, size: int, seeds: list[int]) -> dict[str, list]:
    """Runs over the first `size` rows, a window of the same arrays, so that nothing recompiles."""
    data, _ = MODEL.simulate(NUM_ROWS, DATA_SEED)
    bound, arrays = MODEL.bind(data), jax.tree.map(jnp.asarray, data)
    found = {"log_evidence": [], "standard_error": [], "seconds": [], "signs": []}
    for seed in seeds:
        started = time.perf_counter()
        *_, end = method.run(bound, Window(arrays, 0, size), jax.random.key(seed))
        found["log_evidence"].append(end.estimate.log_evidence)
        found["standard_error"].append(end.estimate.standard_error)
        found["seconds"].append(round(time.perf_counter() - started, 2))
        found["signs"].append(list(end.diagnose().signs))
    return found


def compare(plan: Plan, settings: Settings) -> Record:
    """All runs of two methods at each number of rows.

    Seeds differ between sizes: otherwise a nested sampler repeats its volume errors.
    """
    first = 1_000_000 * settings.seed
    seeds = [[first + 1000 * size + index for index in range(plan.num_runs)] for size in plan.sizes]
    runs = {name: {} for name in plan.methods}
    for size, seeds_of_size in zip(plan.sizes, seeds, strict=True):
        for name, method in plan.methods.items():
            runs[name][str(size)] = settings.remember(
                f"{name}, {size} rows", partial(estimate, method, size, seeds_of_size)
            )
    settings_of = {name: repr(method) for name, method in plan.methods.items()}
    return {"sizes": list(plan.sizes), "seeds": seeds, "methods": settings_of, "runs": runs}


def mean_and_error(runs: dict[str, list]) -> tuple[float, float]:
    """Mean of the runs, and its standard error from their reported errors."""
    errors = np.array(runs["standard_error"])
    return float(np.mean(runs["log_evidence"])), float(np.sqrt(np.mean(errors**2) / len(errors)))


def summarise(record: Record) -> dict[str, np.ndarray]:
    """Means and errors of both methods (method, size), and the second minus the first."""
    found = [[mean_and_error(runs) for runs in by_size.values()] for by_size in record["runs"].values()]
    means, errors = np.moveaxis(np.array(found), -1, 0)
    return {
        "means": means,
        "errors": errors,
        "difference": means[1] - means[0],
        "joint_error": np.hypot(errors[0], errors[1]),
    }


def draw(record: Record) -> Figure:
    """Plot the log evidence per row of both methods, and below it their difference."""
    first, second = record["runs"]
    sizes, summary = np.array(record["sizes"]), summarise(record)
    figure = Figure(figsize=(7, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    shift = 0.12 * np.min(np.diff(sizes)) if len(sizes) > 1 else 0.0
    looks = ((first, -shift, COLORS[0], "o"), (second, shift, COLORS[1], "s"))
    for (name, aside, color, marker), mean, error in zip(
        looks, summary["means"], summary["errors"], strict=True
    ):
        look = {"fmt": marker, "color": color, "markersize": 4, "capsize": 2}
        top.errorbar(sizes + aside, mean / sizes, 2 * error / sizes, label=name, **look)
    top.set_ylabel("log evidence per row (nats)")
    top.legend(frameon=False, loc="lower right")
    bottom.axhline(0, color=COLORS[6], linewidth=1)
    bottom.errorbar(sizes, summary["difference"], 2 * summary["joint_error"], **look)
    bottom.set_ylabel(f"{second}\n− {first} (nats)")
    bottom.set_xlabel("number of rows")
    for ax in (top, bottom):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def table(record: Record) -> list[dict]:
    """At most eight numbers of rows, including the first and the last."""
    summary, sizes = summarise(record), record["sizes"]
    short = {REFLECTING: "reflecting", REJECTION: "rejection", ANNEALED: "annealed"}
    names = [short[name] for name in record["runs"]]
    shown = np.unique(np.linspace(0, len(sizes) - 1, min(8, len(sizes))).round().astype(int))
    return [
        {
            "rows": sizes[index],
            f"{names[0]} (nats)": f"{summary['means'][0, index]:,.2f}".replace("-", "−"),
            f"{names[1]} (nats)": f"{summary['means'][1, index]:,.2f}".replace("-", "−"),
            "difference": round(float(summary["difference"][index]), 3),
            "joint error": round(float(summary["joint_error"][index]), 3),
        }
        for index in shown
    ]


def has_sign(record: Record, size: int, sign: str) -> bool:
    """Whether any run of that size has a sign."""
    return any(sign in signs for by_size in record["runs"].values() for signs in by_size[str(size)]["signs"])


def judge(record: Record, plan: Plan | None = None) -> Verdict:
    """Agree if differences match their reported errors (χ²) and are zero on average.

    Numbers of rows where a run gave up are excluded.
    """
    summary, sizes = summarise(record), np.array(record["sizes"])
    given_up = np.array([has_sign(record, size, GIVEN_UP) for size in sizes])
    if given_up.all():
        return Verdict(False, "a run gave up at every number of rows: nothing can be compared.")
    difference, error = (summary[name][~given_up] for name in ("difference", "joint_error"))
    scores, compared = difference / error, sizes[~given_up]
    squares = float(np.sum(scores**2))
    precision = np.sum(error**-2)
    mean, mean_error = float(np.sum(difference / error**2) / precision), float(precision**-0.5)
    agrees = chi2.sf(squares, len(scores)) > CHANCE and 2 * norm.sf(abs(mean) / mean_error) > CHANCE
    first, second = record["runs"]
    sentence = (
        f"at {len(scores)} numbers of rows from {compared[0]} to {compared[-1]:,} {second} lies {mean:+.3f} ± {mean_error:.3f} "
        f"nats from {first} on weighted average; {100 * np.mean(np.abs(scores) < 2):.0f}% of the differences are below two joint "
        f"standard errors (χ² = {squares:.1f}, {len(scores)} degrees of freedom)."
    )
    for name, by_size in record["runs"].items():
        signs = [runs["signs"] for runs in by_size.values()]
        flagged = Counter(sign for of_size in signs for of_run in of_size for sign in of_run)
        if flagged:
            warned = " and ".join(f"{count} “{sign}”" for sign, count in flagged.items())
            sentence += f" Warnings in {sum(map(len, signs))} runs of {name}: {warned}."
    if given_up.any():
        sentence += f" Not compared, as a run gave up: {', '.join(map(str, sizes[given_up]))} rows."
    if plan is not None and sizes[-1] < plan.sizes[-1]:
        sentence += f" The full form continues to {plan.sizes[-1]:,} rows."
    return Verdict(bool(agrees), re.sub(r"-(?=\d)", "−", sentence))


def experiment(kind: str, title: str, claim: str, alt: str) -> Experiment:
    return Experiment(
        name=f"nested-sampling-{kind}",
        title=title,
        reproduces="Entropy paper, Appendix A.2, Figure A1; MaxEnt paper, Figure A1",
        claim=claim,
        alt=alt,
        run=lambda settings: compare((QUICK if settings.quick else PLANS)[kind], settings),
        draw=draw,
        table=table,
        judge=partial(judge, plan=PLANS[kind]),
    )


ALT = (
    "Above, log evidence per row of both methods against the number of rows: the points coincide within their error "
    "bars. Below, their difference with error bars about zero."
)
EXPERIMENTS = (
    experiment(
        "rejection",
        "Reflecting against rejection nested sampling",
        "Nested sampling by reflecting SGHMC agrees with nested sampling by rejection, which is exact.",
        ALT,
    ),
    experiment(
        "annealing",
        "Nested sampling against annealed importance sampling",
        "Nested sampling agrees with annealed importance sampling, with which it shares almost nothing.",
        ALT,
    ),
)

if __name__ == "__main__":
    main(*EXPERIMENTS)
