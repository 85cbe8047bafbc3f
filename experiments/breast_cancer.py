"""Which mean do the weights of a logistic regression have? JALA-EM, particle gradient descent and SOUL beside the exact answer.

    python -m experiments.breast_cancer --data-dir FOLDER             # half an hour on 2 cores
    python -m experiments.breast_cancer --data-dir FOLDER --quick

Wisconsin breast cancer (683 complete rows; 9 features, each with mean 0 and standard deviation 1 over them): a row with features f
is malignant with probability 1 / (1 + exp(-f·w)); the weights w ~ N(θ, 5) of all features are latent, their mean θ is chosen, from
θ₀ = 0 on. Four fifths of each class are for training.

The paper gives each method 5 seconds with 100, 50 and 10 particles, and looks at θ, after 200 steps and at the end, and at the
posterior of the second weight, w₂. The step h, of particles and of θ alike, is chosen by the log predictive density of held-out
rows (LPPD, 3 folds). What the paper measured is not at hand, beyond that the methods find the same θ.

Beside that is what is exact: log Z(θ) from importance draws that serve all θ, its maximiser with its Monte Carlo error, and the
posterior of w₂ there. All runs are to end within 0.05 of the maximiser. The last θ never comes to rest with few particles: its
mean over the second half of the run stands beside it. JALA-EM's log evidence is compared with that of its θ, with the chosen h
and with the shortest, since LPPD has no eye for what a long step costs its weights.

Ours are:
  - `STEPS`, numbers of steps that take about 5 s on one core, in place of a clock, with which results would depend on what else
    the machine does; a fifth of them in cross-validation;
  - the grid: of appendix C.2 we know that it is built from 0.99/L, L = the largest eigenvalue of FᵀF/4 + 1/5. As L takes all rows
    to be undecided, where most are clear, and is some 30 times the curvature at the posterior's mode, ours goes up from 0.99/L.
JALA-EM begins with draws of the posterior given θ₀, the others with draws of the prior. A step of SOUL is a chain of as many
Langevin steps as there are particles, one after the other.

Source: Cuin, Carbone, Akyildiz (2025), section 5.1 and appendix C.2; the model: Kuntz, Lim, Johansen (2023), appendix F.4.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student_t

from evidentia import weights
from evidentia.plot import COLORS, LINE_STYLES
from experiments.breast_cancer_runs import (
    METHODS,
    MILESTONE,
    SECOND,
    W2,
    Plan,
    cross_validate,
    prepare,
    repeat,
)
from experiments.execute import main
from experiments.experiment import Experiment, Record, Settings, Verdict

STEPS = {  # in about 5 s, by the number of particles
    "JALA-EM": {100: 6000, 50: 12_000, 10: 30_000},
    "PGD": {100: 12_000, 50: 20_000, 10: 40_000},
    "SOUL": {100: 2500, 50: 5000, 10: 20_000},
}
TOLERANCE = 0.05
QUICK = Plan(num_particles=(50,), multiples=(8, 32), num_runs=3, num_draws=20_000, most_steps=600)


def choose_and_repeat(settings, study, name, count):
    """The runs with the h that cross-validation chooses."""
    num_steps, multiples = min(STEPS[name][count], study.plan.most_steps), study.plan.multiples

    def runs(multiple):
        return settings.remember(
            f"{name} {count} {multiple}", lambda: repeat(study, name, count, num_steps, multiple)
        )

    lppd = settings.remember(
        f"{name} {count} folds", lambda: cross_validate(study, name, count, max(num_steps // 5, MILESTONE))
    )
    cell = runs(multiples[int(np.argmax(np.mean(lppd, axis=1)))]) | {"lppd_of_folds": lppd}
    if name == "JALA-EM":
        cell["log_evidence_error_of_shortest"] = runs(multiples[0])["log_evidence_error"]
    return cell


def run(settings: Settings) -> Record:
    plan = QUICK if settings.quick else Plan()
    study = prepare(settings, plan)
    exact, w2 = study.exact, study.exact.draws[:, SECOND]
    shares = exact.shares(exact.theta)
    mean = float(shares @ w2)
    edges = np.append(W2, 2 * W2[-1] - W2[-2]) - 0.5 * (W2[1] - W2[0])
    return {
        "unit_step": study.unit_step,
        "multiples": list(plan.multiples),
        "w2": W2.round(3).tolist(),
        "exact": {
            "theta": exact.theta,
            "standard_error": exact.standard_error,
            "log_evidence": exact.log_evidence(exact.theta),
            "log_evidence_standard_error": weights.relative_variance(exact.log_weights(exact.theta)) ** 0.5,
            "w2_mean": mean,
            "w2_sd": float(np.sqrt(shares @ (w2 - mean) ** 2)),
            "w2_density": np.histogram(w2, edges, weights=shares, density=True)[0].round(4).tolist(),
        },
        "cells": [
            choose_and_repeat(settings, study, name, count)
            for count in plan.num_particles
            for name in METHODS
        ],
    }


def draw(record: Record) -> Figure:
    """For each number of particles θ on its way, mean and range of the runs, and the density of w₂ at the end."""
    counts = list(dict.fromkeys(cell["num_particles"] for cell in record["cells"]))
    exact = record["exact"]
    figure = Figure(figsize=(8.5, 1.2 + 2.4 * len(counts)), layout="constrained")
    panels = figure.subplots(len(counts), 2, squeeze=False, sharex="col")
    for count, (way, density) in zip(counts, panels, strict=True):
        way.axhspan(exact["theta"] - TOLERANCE, exact["theta"] + TOLERANCE, color="black", alpha=0.1, lw=0)
        way.axhline(exact["theta"], color="black", linewidth=1)
        way.axvline(MILESTONE, color=COLORS[6], linewidth=0.8, linestyle=":")
        density.fill_between(record["w2"], exact["w2_density"], color="black", alpha=0.15, linewidth=0)
        density.plot(record["w2"], exact["w2_density"], color="black", linewidth=1, label="exact")
        cells = [cell for cell in record["cells"] if cell["num_particles"] == count]
        for cell, color, style in zip(cells, COLORS, LINE_STYLES, strict=False):
            look = {"color": color, "linestyle": style, "linewidth": 1.4, "label": cell["method"]}
            steps, thetas = cell["steps"], np.array(cell["theta"])
            way.plot(steps, thetas.mean(axis=0), **look)
            way.fill_between(steps, thetas.min(axis=0), thetas.max(axis=0), color=color, alpha=0.2, lw=0)
            density.plot(record["w2"], cell["w2_density"], **look)
        way.set_xscale("log")
        way.set_ylabel(f"{count} particles\nθ")
        way.set_ylim(-0.1, 1.5)
        density.set_ylabel("density")
        density.set_xlim(-3, 3.5)
        density.set_ylim(0)
        for axes in (way, density):
            axes.spines[["top", "right"]].set_visible(False)
    panels[-1][0].set_xlabel(f"step of θ (dotted: {MILESTONE})")
    panels[-1][1].set_xlabel("w₂ of the particles after the last step")
    figure.legend(
        *panels[0][1].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False
    )
    return figure


def table(record: Record) -> list[dict]:
    """Means over the runs ± their standard deviation."""
    return [
        {
            "method, particles": f"{cell['method']}, {cell['num_particles']}",
            "h·L/0.99": cell["multiple"],
            f"θ after {MILESTONE}": float(np.mean(cell["theta_at_milestone"])),
            "last θ": with_spread(cell["theta_last"], 3),
            "θ averaged": with_spread(cell["theta_averaged"], 3),
            "mean of w₂": with_spread(cell["w2_mean"], 2),
            "test error (%)": 100 * float(np.mean(cell["test_error"])),
            "LPPD (nats/row)": float(np.mean(cell["test_lppd"])),
            "log Z − exact (nats)": with_spread(last_error(cell["log_evidence_error"]), 2),
            "with shortest h": with_spread(last_error(cell.get("log_evidence_error_of_shortest")), 2),
            "seconds": cell["seconds"],
        }
        for cell in record["cells"]
    ]


def last_error(errors):
    return None if errors is None else np.array(errors)[:, -1]


def with_spread(values, digits):
    if values is None:
        return None
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}".replace("-", "−")


def judge(record: Record) -> Verdict:
    """θ of each run, w₂ on average, and JALA-EM's log evidence with the shortest step, beside what is exact.

    θ averaged over a run's second half may be 0.05 from the maximiser, and 4 of its standard errors; the mean of w₂ a quarter of its
    standard deviation, as Langevin steps are biased, and the log evidence half of its variance, by which a logarithm is too low, and 4
    standard errors of the exact one; both beyond that what Student's t of the runs exceeds once in 1000. The log evidence with the
    chosen step is told, not judged.
    """
    exact, cells = record["exact"], record["cells"]
    away = {_name(cell): np.abs(np.array(cell["theta_averaged"]) - exact["theta"]).max() for cell in cells}
    last = np.abs(np.concatenate([cell["theta_last"] for cell in cells]) - exact["theta"])
    w2 = {_name(cell): np.array(cell["w2_mean"]) - exact["w2_mean"] for cell in cells}
    known = [cell for cell in cells if cell["log_evidence_error"]]
    shortest = {_name(cell): last_error(cell["log_evidence_error_of_shortest"]) for cell in known}
    rounding = 4 * exact["log_evidence_standard_error"]
    wrong = [
        *(f"θ of {n}" for n, far in away.items() if far >= TOLERANCE + 4 * exact["standard_error"]),
        *(f"w₂ of {n}" for n, errors in w2.items() if _exceeds(errors, 0.25 * exact["w2_sd"])),
        *(
            f"log evidence of {n}"
            for n, errors in shortest.items()
            if _exceeds(errors, 0.5 * np.var(errors) + rounding)
        ),
    ]
    farthest = max(away, key=away.get)
    evidence = ", ".join(
        f"{np.mean(shortest[_name(cell)]):+.2f} and {np.mean(last_error(cell['log_evidence_error'])):+.2f} nats "
        f"({cell['num_particles']} particles)"
        for cell in known
    )
    measured = (
        f"the exact maximiser is {exact['theta']:.3f} ± {exact['standard_error']:.3f}; θ averaged over the second half of a run is at "
        f"most {away[farthest]:.3f} from it ({farthest}), the last θ at most {last.max():.3f}, within {TOLERANCE} in "
        f"{np.mean(last < TOLERANCE):.0%} of {len(last)} runs; the mean of w₂, exactly {exact['w2_mean']:.2f}, is at most "
        f"{max(abs(errors.mean()) for errors in w2.values()):.2f} off; JALA-EM's log evidence at the end less the exact one, with the "
        f"shortest step and with the chosen one: {evidence}"
    )
    return Verdict(not wrong, measured + (f"; not as it should be: {', '.join(wrong)}." if wrong else "."))


def _exceeds(errors, allowed):
    chance = student_t.ppf(0.9995, len(errors) - 1) * np.std(errors, ddof=1) / np.sqrt(len(errors))
    return abs(np.mean(errors)) > allowed + chance


def _name(cell):
    return f"{cell['method']} with {cell['num_particles']}"


EXPERIMENT = Experiment(
    name="breast-cancer",
    title="Wisconsin breast cancer: the mean of a logistic regression's weights",
    reproduces="JALA-EM paper, section 5.1",
    claim="JALA-EM, particle gradient descent and SOUL find the same θ with 100, 50 and 10 particles, and the same posterior of w₂.",
    alt="For each number of particles, left: θ of three methods rises from 0 into a band of 0.05 about the exact maximiser and stays "
    "there; right: their densities of the second weight beside the exact one.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
