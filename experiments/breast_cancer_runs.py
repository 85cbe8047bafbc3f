"""The runs of `breast_cancer`: cross-validation of the step, and repeats over seeds."""

from typing import NamedTuple

import numpy as np
from scipy.stats import gaussian_kde

from evidentia import weights
from evidentia.latent import JALAEM, PGD, SOUL
from experiments.experiment import Settings
from experiments.logistic_evidence import MODEL, ExactEvidence, longest_safe_step
from experiments.real_data import breast_cancer, stratified_parts

METHODS = {"JALA-EM": JALAEM, "PGD": PGD, "SOUL": SOUL}
NUM_FOLDS, MILESTONE = 3, 200
SECOND = 1  # w₂
W2 = np.linspace(-4, 4, 81)  # where its density is evaluated


class Plan(NamedTuple):
    """Size of the experiment; `multiples` are steps in units of 0.99/L."""

    num_particles: tuple[int, ...] = (100, 50, 10)
    multiples: tuple[int, ...] = (1, 2, 4, 8)
    num_runs: int = 10
    num_draws: int = 100_000
    most_steps: int = 80_000


class Labelled(NamedTuple):
    features: np.ndarray
    labels: np.ndarray

    def part(self, chosen):
        return Labelled(self.features[chosen], self.labels[chosen])


class Study(NamedTuple):
    """Data and settings that all runs share."""

    train: Labelled
    test: Labelled
    exact: ExactEvidence
    plan: Plan
    seed: int

    @property
    def unit_step(self):
        return longest_safe_step(self.train.features)


def prepare(settings: Settings, plan: Plan) -> Study:
    features, labels = breast_cancer(settings.data_dir)
    rows = Labelled((features - features.mean(axis=0)) / features.std(axis=0), labels)
    is_test = stratified_parts(labels, 5, np.random.default_rng([settings.seed, 0])) == 0
    train = rows.part(~is_test)
    return Study(
        train, rows.part(is_test), ExactEvidence(*train, plan.num_draws, settings.seed), plan, settings.seed
    )


def climb(method, rows, num_steps, seed):
    data = rows.features.astype(np.float32), (2 * rows.labels - 1).astype(np.float32)
    return method.fit(MODEL, 0.0, data=data, num_steps=num_steps, seed=seed)


def predict(fit, rows):
    """LPPD in nats per row, and the share of misclassified rows."""
    margins = (2 * rows.labels - 1) * (fit.particles.astype(float) @ rows.features.T)
    each = [weights.log_sum_exp(fit.log_weights - np.logaddexp(0, -margin)) for margin in margins.T]
    return float(np.mean(each)), float(np.mean(np.array(each) < np.log(0.5)))


def cross_validate(study, name, count, num_steps):
    """LPPD of the folds with each step h of the grid, (steps, folds)."""
    rows = study.train
    folds = stratified_parts(rows.labels, NUM_FOLDS, np.random.default_rng([study.seed, 1]))

    def lppd(method, fold):
        return predict(
            climb(method, rows.part(folds != fold), num_steps, study.seed), rows.part(folds == fold)
        )[0]

    sizes = [multiple * study.unit_step for multiple in study.plan.multiples]
    methods = [METHODS[name](num_particles=count, step_size=size) for size in sizes]
    return [[lppd(method, fold) for fold in range(NUM_FOLDS)] for method in methods]


def repeat(study, name, count, num_steps, multiple):
    """Results of runs from several seeds with one step h."""
    method = METHODS[name](num_particles=count, step_size=multiple * study.unit_step)
    fits = [climb(method, study.train, num_steps, study.seed + run) for run in range(study.plan.num_runs)]
    thetas = np.array([fit.trajectory.theta for fit in fits], float)
    shown = np.unique(np.geomspace(1, num_steps, 60).round().astype(int))
    shares, w2 = np.array([(np.exp(fit.log_weights), fit.particles[:, SECOND]) for fit in fits]).swapaxes(
        0, 1
    )
    mean = np.sum(shares * w2, axis=1)
    predicted = np.array([predict(fit, study.test) for fit in fits])
    errors = [
        [
            fit.trajectory.log_evidence[step] - study.exact.log_evidence(theta[step])
            for step in (MILESTONE, -1)
        ]
        for fit, theta in zip(fits, thetas, strict=True)
    ]
    return {
        "method": name,
        "num_particles": count,
        "multiple": multiple,
        "num_steps": num_steps,
        "steps": shown.tolist(),
        "theta": {
            name: of_runs(thetas[:, shown], axis=0).round(4).tolist()
            for name, of_runs in (("mean", np.mean), ("lowest", np.min), ("highest", np.max))
        },
        "theta_at_milestone": thetas[:, MILESTONE].tolist(),
        "theta_last": thetas[:, -1].tolist(),
        "theta_averaged": thetas[:, num_steps // 2 :].mean(axis=1).tolist(),
        "w2_mean": mean.tolist(),
        "w2_sd": np.sqrt(np.sum(shares * (w2 - mean[:, None]) ** 2, axis=1)).tolist(),
        "w2_density": gaussian_kde(w2.ravel(), weights=shares.ravel())(W2).round(4).tolist(),
        "test_lppd": predicted[:, 0].tolist(),
        "test_error": predicted[:, 1].tolist(),
        "log_evidence_error": errors
        if name == "JALA-EM"
        else None,  # at the milestone and at the end, in nats
        "seconds": min(fit.seconds for fit in fits),  # the first compiles
    }
