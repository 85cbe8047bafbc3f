"""The prior mean of logistic regression weights: JALA-EM, PGD and SOUL against exact values.

    python -m experiments.breast_cancer --data-dir FOLDER             # half an hour on 2 cores
    python -m experiments.breast_cancer --data-dir FOLDER --quick

Data: Wisconsin breast cancer (683 complete rows; 9 features, standardised to mean 0 and standard
deviation 1). Model: a row with features f is malignant with probability 1 / (1 + exp(-f·w)). The
weights w ~ N(θ, 5) of all features are latent; their common mean θ is estimated, from θ₀ = 0 on.
Four fifths of each class are used for training.

The paper gives each method 5 seconds with 100, 50 and 10 particles. It shows θ, after 200 steps
and at the end, and the posterior of the second weight, w₂. The step h, of particles and of θ
alike, is chosen by the log predictive density of held-out rows (LPPD, 3 folds). The paper's
measurements are not available to us, except that the methods find the same θ.

Exact values are computed too: log Z(θ) from importance draws that serve all θ, its maximiser with
its Monte Carlo error, and the posterior of w₂ there. All runs should end within 0.05 of the
maximiser. With few particles the last θ keeps fluctuating, so its mean over the second half of the
run is reported as well. JALA-EM's log evidence is compared with the exact one at its θ, for the
chosen h and for the shortest, because LPPD does not measure how long steps degrade the weights.

Our choices are:
  - `STEPS`: numbers of steps that take about 5 s on one core. A clock would make the results
    depend on the machine's load. Cross-validation takes a fifth of the steps;
  - the grid of h. Appendix C.2 builds its grid from 0.99/L, with L the largest eigenvalue of FᵀF/4
    + 1/5. L treats all rows as undecided, where most are clear, and is some 30 times the curvature
    at the posterior mode. Our grid goes up from 0.99/L to 0.01, about the value of Kuntz et al.
JALA-EM starts from draws of the posterior given θ₀, the others from draws of the prior. One step
of SOUL is a sequential chain of as many Langevin steps as there are particles.

Source: Cuin, Carbone, Akyildiz (2025), section 5.1 and appendix C.2; the model: Kuntz, Lim,
Johansen (2023), appendix F.4.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student_t

from evidentia import weights
from evidentia.display.plots import COLORS, LINE_STYLES
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

STEPS = {  # that take about 5 s, by number of particles
    "JALA-EM": {100: 10_000, 50: 20_000, 10: 60_000},
    "PGD": {100: 12_000, 50: 25_000, 10: 80_000},
    "SOUL": {100: 6000, 50: 12_000, 10: 40_000},
}
TOLERANCE = 0.05
QUICK = Plan(num_particles=(50,), multiples=(4, 8), num_runs=3, num_draws=20_000, most_steps=1000)


def choose_and_repeat(settings, study, name, count):
    """Repeat runs with the h chosen by cross-validation."""
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
        time = num_steps * multiples[0] * study.unit_step
        cell["expected_error_of_shortest"] = time * study.exact.slope_variance / count
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
    """Plot θ against the step and the final density of w₂, for each number of particles."""
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
            steps, theta = cell["steps"], cell["theta"]
            way.plot(steps, theta["mean"], **look)
            way.fill_between(steps, theta["lowest"], theta["highest"], color=color, alpha=0.2, linewidth=0)
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
    """Agree if there are no `faults`; log evidence with the chosen step is only reported."""
    exact, cells = record["exact"], record["cells"]
    worst = max(cells, key=lambda cell: _farthest(cell["theta_averaged"], exact["theta"]))
    last = np.abs(np.concatenate([cell["theta_last"] for cell in cells]) - exact["theta"])
    narrow = min(cells, key=lambda cell: np.mean(cell["w2_sd"]))
    evidence = ", ".join(
        f"{np.mean(last_error(cell['log_evidence_error_of_shortest'])):+.2f} ({cell['expected_error_of_shortest']:.2f} "
        f"expected) and {np.mean(last_error(cell['log_evidence_error'])):+.2f} nats with {cell['num_particles']} particles"
        for cell in cells
        if cell["method"] == "JALA-EM"
    )
    found = faults(record)
    measured = (
        f"the exact maximiser is {exact['theta']:.3f} ± {exact['standard_error']:.3f}; θ averaged over the second half of a run is at "
        f"most {_farthest(worst['theta_averaged'], exact['theta']):.3f} from it ({_name(worst)}), the last θ at most {last.max():.3f}, and within {TOLERANCE} in "
        f"{np.mean(last < TOLERANCE):.0%} of {len(last)} runs; the mean of w₂, exactly {exact['w2_mean']:.2f}, averaged over the "
        f"runs is at most {max(abs(np.mean(cell['w2_mean']) - exact['w2_mean']) for cell in cells):.2f} off, its standard deviation, "
        f"exactly {exact['w2_sd']:.2f}, is smallest for {_name(narrow)}, {np.mean(narrow['w2_sd']):.2f}; JALA-EM's final log evidence minus the exact one, with the "
        f"shortest step and with the chosen one: {evidence}"
    )
    return Verdict(not found, measured + (f"; outside the tolerance: {', '.join(found)}." if found else "."))


def faults(record: Record) -> list[str]:
    """Quantities that deviate from their exact values: θ, the mean of w₂, and the log evidence.

    The tolerances are, for θ averaged over a run's second half, 0.05 plus 4 standard errors of the
    maximiser; for w₂ a quarter of its standard deviation, because Langevin steps are biased; and
    for the log evidence with the shortest step half of its variance, the bias of a logarithm, plus
    4 standard errors of the exact value. The last two add a margin that Student's t of the runs
    exceeds once in 1000.

    The log evidence is expected to be slightly too high. A step of θ is h times the particles'
    mean slope, which has variance v/N about zero once θ has converged. Its apparent gain is that
    step times the same slope, h v/N on average, and vanishes with fresh noise.
    """
    exact, found = record["exact"], []
    for cell in record["cells"]:
        if _farthest(cell["theta_averaged"], exact["theta"]) >= TOLERANCE + 4 * exact["standard_error"]:
            found.append(f"θ of {_name(cell)}")
        if _exceeds(np.array(cell["w2_mean"]) - exact["w2_mean"], 0.25 * exact["w2_sd"]):
            found.append(f"w₂ of {_name(cell)}")
        if cell["method"] == "JALA-EM":
            errors = last_error(cell["log_evidence_error_of_shortest"]) - cell["expected_error_of_shortest"]
            if _exceeds(errors, 0.5 * np.var(errors) + 4 * exact["log_evidence_standard_error"]):
                found.append(f"log evidence of {_name(cell)}")
    return found


def _farthest(values, target):
    return np.abs(np.array(values) - target).max()


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
    "there; right: their densities of the second weight and the exact one.",
    run=run,
    draw=draw,
    table=table,
    judge=judge,
)

if __name__ == "__main__":
    main(EXPERIMENT)
