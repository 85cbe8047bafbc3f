"""What the papers claim in passing, each on a small problem: schedules, live points, modes, N².

    python -m experiments.passing_claims --quick --out somewhere

  schedules     A linear annealing schedule does poorly, a sigmoidal one better, an adaptive one as
                well (Entropy paper, section 3): root mean square error of AIS, 64 particles and
                HMC, with about as many temperatures of each.
  live points   Nested sampling with more than two live points behaves alike and takes longer
                (MaxEnt and Entropy papers): mean error, its scatter, and time, with 2 and 8.
  local modes   Particles leave poor modes early under Bayesian updating (Entropy paper, 7.1.3;
                MaxEnt paper, 5.3): the share of SGAIS's particles in a poor mode of the mixture of
                five after some numbers of rows, and that of AIS, which starts with all of them. It
                has to fall by half-way, and to end below that of AIS. A mode is poor if a
                particle's log-likelihood is more than 50 nats, and more than 0.02 nats per row,
                below that of the true parameters.
  reverse SMC   A reverse run from an exact draw bounds the evidence from above (thesis, 3.1.4).
  Algorithms    The thesis' Algorithms 6 (AIS with plain HMC) and 7 (row by row) are unbiased: log
                of the mean of Ẑ/Z.
  N²            With moves by Metropolis-Hastings, an estimator over chunks takes a time of order
                N² (MaxEnt paper, section 2; thesis, 4.1): the power of N between the two largest
                sizes, where the published SGAIS has at most 1. On the softmax regression, as sums
                stand for the rows of a linear one, and no move takes longer with more of them.

All others are on the papers' linear regression, whose evidence is exact, with new data for each
seed.

Source: Cameron, Eggers, Kroon (2019), Proceedings 33(1), 18 and Entropy 21(11), 1109; Cameron
(2020), MSc thesis, Stellenbosch.
"""

import time
import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import evidentia as ev
from evidentia.display.plots import COLORS
from evidentia.evidence.ais import linear_schedule, sigmoid_schedule
from evidentia.kernels import HMC, Unscaled
from experiments.evidence_against_rows import run_once
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings, Verdict

LINEAR = ev.models.linear_regression(num_features=5)
SOFTMAX = ev.models.softmax_regression(num_features=10, num_classes=4)
MIXTURE = ev.models.gaussian_mixture(num_components=5, num_features=2)
NUM_TEMPERATURES = 24
PLAIN = HMC(num_trajectories=1, num_steps=20, smallest_step=0.02, largest_step=0.02)
ROW_BY_ROW = replace(ev.SMC.published(), num_particles=1024)
STABLE = HMC(num_trajectories=1, num_steps=20, smallest_step=0.005, largest_step=0.005)  # to 80,000 rows
BY_METROPOLIS = replace(ROW_BY_ROW, num_particles=10, chunk_size=500, kernel=Unscaled(STABLE))
ALGORITHM_6 = ev.AIS(num_particles=1024, target_ess=0.8, kernel=Unscaled(PLAIN), bias_correction=False)
NESTED = ev.NestedSampling.published()


class Plan(NamedTuple):
    """Repeats, and numbers of rows of the parts."""

    repeats: int = 20
    num_rows: int = 300
    num_rows_one_by_one: int = 60
    num_rows_live: int = 30_000  # so many that steps take the time, not the rest
    mixture_sizes: tuple[int, ...] = (500, 1_000, 2_000, 5_000, 10_000)
    mixture_seeds: int = 3
    growth_sizes: tuple[int, ...] = (20_000, 40_000, 80_000)


QUICK = Plan(4, 100, 20, 3_000, (500, 1_000), 1, (10_000, 20_000))


def estimated(model: ev.Model, data, method, seed: int) -> tuple[float, float]:
    """The log evidence, without warnings, and the processor time."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ev.estimate(model, data, method=method, seed=seed)
    return found.log_evidence, time.process_time() - started


def errors(method, num_rows: int, repeats: int, seed: int) -> Record:
    """Errors of the log evidence on the linear model, and the median time of a run."""
    runs = []
    for index in range(repeats):
        data, _ = LINEAR.simulate(num_rows, 1000 * seed + index)
        value, seconds = estimated(LINEAR, data, method, 1000 * seed + index)
        runs.append((value - LINEAR.exact_log_evidence(data), seconds))
    found, seconds = np.transpose(runs)
    ratios = np.exp(found - found.max())
    return {
        "mean": float(found.mean()),
        "scatter": float(found.std(ddof=1)),
        "root_mean_square": float(np.sqrt(np.mean(found**2))),
        "log_mean_ratio": float(np.log(ratios.mean()) + found.max()),
        "relative_error": float(ratios.std(ddof=1) / np.sqrt(repeats) / ratios.mean()),
        "seconds": float(np.median(seconds)),
        "repeats": repeats,
    }


def schedules(plan: Plan, seed: int) -> Record:
    base = ev.AIS(num_particles=64)
    ways = {
        "linear": replace(base, schedule=linear_schedule(NUM_TEMPERATURES)),
        "sigmoid": replace(base, schedule=sigmoid_schedule(NUM_TEMPERATURES)),
        "adaptive": replace(base, target_ess=0.75),
    }
    return {name: errors(method, plan.num_rows, plan.repeats, seed) for name, method in ways.items()}


def num_adaptive_temperatures(plan: Plan, seed: int) -> int:
    """How many temperatures the adaptive schedule takes."""
    data, _ = LINEAR.simulate(plan.num_rows, seed)
    found = ev.estimate(LINEAR, data, method=ev.AIS(num_particles=64, target_ess=0.75), seed=seed)
    return int(np.sum(found.trajectory.num_annealing_steps))


def live_points(plan: Plan, seed: int) -> Record:
    return {
        str(count): errors(replace(NESTED, num_particles=count), plan.num_rows_live, plan.repeats // 2, seed)
        for count in (2, 8)
    }


def share_in_poor_modes(parameters, params, rows: np.ndarray) -> float:
    """The share of particles whose log-likelihood is far below that of the true parameters."""
    values = jax.vmap(MIXTURE.log_likelihood, (0, None))(parameters, {"y": rows}).sum(axis=1)
    truth = float(MIXTURE.log_likelihood(params, {"y": rows}).sum())
    return float(np.mean(np.asarray(values) < truth - max(50.0, 0.02 * len(rows))))


def local_modes(plan: Plan, seed: int) -> Record:
    """Shares in poor modes, by seed: SGAIS after each size, and AIS on all rows."""
    found: Record = {"sizes": plan.mixture_sizes, "SGAIS": [], "AIS": []}
    for index in range(plan.mixture_seeds):
        data, params = MIXTURE.simulate(plan.mixture_sizes[-1], seed + index)
        online, shares = ev.Online(MIXTURE, method=ev.SGAIS.published(), seed=seed + index), []
        for start in range(0, len(data["y"]), 500):
            online.update({"y": data["y"][start : start + 500]})
            if start + 500 in plan.mixture_sizes:
                parameters = online.weighted.parameters
                shares.append(share_in_poor_modes(parameters, params, data["y"][: start + 500]))
        found["SGAIS"].append(shares)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = ev.estimate(MIXTURE, data, method=ev.AIS.published(), seed=seed + index)
        found["AIS"].append(share_in_poor_modes(whole.weighted.parameters, params, data["y"]))
    return found


def reverse_smc(plan: Plan, seed: int) -> Record:
    """Errors of both sides of a sandwich by sequential Monte Carlo."""
    runs = [
        ev.sandwich(LINEAR, plan.num_rows, method=ev.SMC(num_particles=64), seed=1000 * seed + index)
        for index in range(plan.repeats)
    ]
    sides = {}
    for side in ("forward", "reverse"):
        found = np.array([getattr(run, side).log_evidence - run.exact for run in runs])
        sides[side] = [float(found.mean()), float(found.std(ddof=1) / np.sqrt(plan.repeats))]
    return sides


def growth(plan: Plan, seed: int) -> Record:
    """Seconds of runs over chunks of 500 rows that move by Metropolis-Hastings, and of SGAIS."""
    data, _ = SOFTMAX.simulate(plan.growth_sizes[-1], seed)
    bound, arrays = SOFTMAX.bind(data), jax.tree.map(jnp.asarray, data)
    found: Record = {"sizes": plan.growth_sizes}
    for name, method in {"Metropolis–Hastings": BY_METROPOLIS, "SGAIS": ev.SGAIS.published()}.items():
        timed = partial(run_once, method, bound, arrays, jax.random.key(seed), repeat=0)
        timed(1000)  # compiles
        found[name] = [timed(size)["processor_seconds"] for size in plan.growth_sizes]
    return found


PARTS = {
    "schedules": schedules,
    "num_adaptive_temperatures": num_adaptive_temperatures,
    "live_points": live_points,
    "local_modes": local_modes,
    "reverse_smc": reverse_smc,
    "algorithm_6": lambda plan, seed: errors(ALGORITHM_6, plan.num_rows, plan.repeats, seed),
    "algorithm_7": lambda plan, seed: errors(ROW_BY_ROW, plan.num_rows_one_by_one, plan.repeats, seed),
    "growth": growth,
}


def run(settings: Settings) -> Record:
    plan = QUICK if settings.quick else Plan()
    parts = {
        name: settings.remember(name, partial(part, plan, settings.seed)) for name, part in PARTS.items()
    }
    return {"plan": plan._asdict(), **parts}


def power(record: Record, name: str) -> float:
    """The power of N at which the time grows, between the two largest sizes."""
    sizes, seconds = record["growth"]["sizes"], record["growth"][name]
    return float(np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2]))


def check(record: Record) -> dict[str, tuple[str, bool]]:
    """For each claim, what was measured and whether it agrees."""
    off = {name: each["root_mean_square"] for name, each in record["schedules"].items()}
    few, many = record["live_points"]["2"], record["live_points"]["8"]
    both = few["scatter"] / np.sqrt(few["repeats"]), many["scatter"] / np.sqrt(many["repeats"])
    apart = abs(few["mean"] - many["mean"]) / np.hypot(*both)
    modes, ais = np.mean(record["local_modes"]["SGAIS"], axis=0), np.mean(record["local_modes"]["AIS"])
    forward, backward = record["reverse_smc"]["forward"], record["reverse_smc"]["reverse"]
    found = {
        "linear schedules do poorly": (
            f"root mean square error {', '.join(f'{name} {value:.2g}' for name, value in off.items())} nats, with "
            f"{NUM_TEMPERATURES} temperatures (adaptive: {record['num_adaptive_temperatures']})",
            off["linear"] > max(off["sigmoid"], off["adaptive"]),
        ),
        "more live points behave alike but take longer": (
            f"errors {few['mean']:+.1f} ± {both[0]:.1f} nats with 2 and {many['mean']:+.1f} ± {both[1]:.1f} with 8, scatter "
            f"{few['scatter']:.1f} and {many['scatter']:.1f}, {many['seconds'] / few['seconds']:.1f} times as long",
            bool(apart < 3 and many["seconds"] > few["seconds"]),
        ),
        "particles leave poor modes early": (
            f"shares in poor modes {', '.join(f'{value:.2f}' for value in modes)} after "
            f"{', '.join(f'{size:,}' for size in record['local_modes']['sizes'])} rows; of AIS's particles {ais:.2f}",
            bool(modes[len(modes) // 2] < modes[0] and modes[-1] < ais),
        ),
        "reverse SMC is an upper bound": (
            "forward {:+.3f} ± {:.3f}, reverse {:+.3f} ± {:.3f} nats".format(*forward, *backward),
            forward[0] < 2 * forward[1] and backward[0] > -2 * backward[1],
        ),
        "Metropolis–Hastings takes N²": (
            f"time grows as N to the power {power(record, 'Metropolis–Hastings'):.2f}, that of SGAIS {power(record, 'SGAIS'):.2f}",
            power(record, "Metropolis–Hastings") > 1.5 > power(record, "SGAIS"),
        ),
    }
    for name in ("algorithm_6", "algorithm_7"):
        ratio, error = record[name]["log_mean_ratio"], record[name]["relative_error"]
        text = (
            f"log of the mean of Ẑ/Z {ratio:+.2f} ± {error:.2f}, scatter {record[name]['scatter']:.2f} nats"
        )
        found[f"{name.replace('_', ' ').capitalize()} is unbiased"] = text, abs(ratio) < 3 * error + 0.02
    return found


def judge(record: Record) -> Verdict:
    """Agree if each claim holds."""
    parts = [
        f"{claim}: {text}" + ("" if holds else ", which differs")
        for claim, (text, holds) in check(record).items()
    ]
    return Verdict(
        all(holds for _, holds in check(record).values()), "; ".join(parts).replace("-", "−") + "."
    )


def table(record: Record) -> list[dict]:
    return [
        {"claim": claim, "agrees": holds, "measured": text.replace("-", "−")}
        for claim, (text, holds) in check(record).items()
    ]


def draw(record: Record) -> Figure:
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    off, modes, grown = figure.subplots(1, 3)
    names = list(record["schedules"])
    off.bar(names, [record["schedules"][name]["root_mean_square"] for name in names], color=COLORS[0])
    off.set(ylabel="root mean square error (nats)", title="schedules of AIS")
    shares, sizes = np.mean(record["local_modes"]["SGAIS"], axis=0), record["local_modes"]["sizes"]
    modes.plot(sizes, shares, color=COLORS[0], marker="o", label="SGAIS")
    modes.plot(sizes[-1:], [np.mean(record["local_modes"]["AIS"])], "s", color=COLORS[1], label="AIS")
    modes.set(xscale="log", ylim=(-0.05, 1.05), xlabel="number of rows", title="share in poor modes")
    for name, color in zip(list(record["growth"])[1:], COLORS, strict=False):
        grown.plot(record["growth"]["sizes"], record["growth"][name], color=color, marker="o", label=name)
    grown.set(xscale="log", yscale="log", xlabel="number of rows", title="processor time (s)")
    for axes, places in ((modes, sizes), (grown, record["growth"]["sizes"])):
        axes.set_xticks(places, [f"{place:,}" for place in places], rotation=45)
        axes.xaxis.set_minor_formatter("")
        axes.legend(frameon=False)
    for axes in (off, modes, grown):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


EXPERIMENT = Experiment(
    name="passing-claims",
    title="Claims in passing",
    reproduces="Entropy paper, sections 3 and 7.1.3; MaxEnt paper, sections 2 and 5.3; thesis, section 3.1.4 and Algorithms 6 and 7",
    claim="Linear schedules do poorly; more live points behave alike and take longer; particles leave poor modes early; reverse SMC is an "
    "upper bound; Metropolis–Hastings takes a time of order N²; Algorithms 6 and 7 are unbiased.",
    alt="Left, the error of AIS with three schedules; in the middle, the share of particles in poor modes against the number of rows; "
    "right, the time of moves by Metropolis–Hastings and of SGAIS against the number of rows.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
