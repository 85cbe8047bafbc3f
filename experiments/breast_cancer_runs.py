"""The runs of `breast_cancer`: data, repeats over seeds, and their errors against exact values."""

from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logsumexp
from scipy.stats import gaussian_kde

from evidentia import weights
from evidentia.latent import JALAEM, PGD, SOUL
from experiments.experiment import Settings
from experiments.logistic_evidence import (
    MODEL,
    PRIOR_VARIANCE,
    ExactEvidence,
    longest_safe_step,
)
from experiments.real_data import breast_cancer, stratified_parts

METHODS = {"JALA-EM": partial(JALAEM, ess_threshold=1 / 1.05), "PGD": PGD, "SOUL": SOUL}
MILESTONE = 200
SECOND = 1  # w₂
W2 = np.linspace(-4, 4, 81)  # where its density is evaluated
LONG_CHAIN, THINNING = 50_000, 50  # steps of SOUL
BASELINE_REPEATS = 200
TOLERANCE = 0.05  # of θ


class Plan(NamedTuple):
    """Size of the experiment."""

    num_particles: tuple[int, ...] = (100, 50, 10)
    num_runs: int = 5
    num_draws: int = 100_000
    most_steps: int = 80_000
    tuning_steps: int = 500


class Labelled(NamedTuple):
    features: np.ndarray
    labels: np.ndarray

    def part(self, chosen):
        return Labelled(self.features[chosen], self.labels[chosen])

    @property
    def data(self):
        """Features and signs of the labels, as the model takes them."""
        return self.features.astype(np.float32), (2 * self.labels - 1).astype(np.float32)


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


def from_the_prior(count, size, seed):
    """Particles drawn from the prior given θ₀ = 0."""
    normal = np.random.default_rng([seed, 2]).standard_normal((count, size))
    return (PRIOR_VARIANCE**0.5 * normal).astype(np.float32)


def log_predictive(particles, features, signs):
    """Log of the unweighted mean over particles of each label's probability, (rows,)."""
    margins = signs * (particles @ features.T)
    return logsumexp(jax.nn.log_sigmoid(margins), axis=0) - jnp.log(len(particles))


def along(path) -> optax.GradientTransformation:
    """An optimiser that ignores the gradient and follows a given path of θ."""
    steps = jnp.diff(jnp.asarray(path))
    return optax.GradientTransformation(
        lambda theta: jnp.array(0), lambda gradient, index, theta=None: (steps[index], index + 1)
    )


@lru_cache
def configured(name, count, size, theta_step):
    """The method with its steps; the same object again, so that it is compiled once."""
    return METHODS[name](num_particles=count, step_size=size, optimizer=optax.sgd(theta_step))


def climb(study, method, num_steps, seed, start):
    """One run on all training rows; log Z(θ₀) is exact, so that its error is the run's."""
    given = {}
    if start == "prior":
        given["particles0"] = from_the_prior(method.num_particles, study.train.features.shape[1], seed)
    known = study.exact.log_evidence(0.0)
    return method.fit(
        MODEL, 0.0, log_evidence0=known, data=study.train.data, num_steps=num_steps, seed=seed, **given
    )


def repeat(study, name, count, num_steps, steps, start="prior", path=None):
    """Results of runs from several seeds with one pair of steps, `steps`.

    They start from the prior, or from the posterior given θ₀. If a path of θ is given, θ follows
    it, and not the particles.
    """
    method = configured(name, count, *steps)
    if path is not None:
        method = replace(method, optimizer=along(path))
    # Not the seed, and so not the noise, of the path.
    first = study.seed if path is None else study.seed + study.plan.num_runs
    seeds = range(first, first + study.plan.num_runs)
    fits = [climb(study, method, num_steps, seed, start) for seed in seeds]
    thetas = np.array([fit.trajectory.theta for fit in fits], float)
    shown = np.unique(np.geomspace(1, num_steps, 60).round().astype(int))
    found = {
        "method": name,
        "num_particles": count,
        "step_size": steps[0],
        "theta_step": steps[1],
        "num_steps": num_steps,
        "steps": shown.tolist(),
        "theta": {
            name: of_runs(thetas[:, shown], axis=0).round(4).tolist()
            for name, of_runs in (("mean", np.mean), ("lowest", np.min), ("highest", np.max))
        },
        "theta_at_milestone": thetas[:, MILESTONE].tolist(),
        "theta_last": thetas[:, -1].tolist(),
        "theta_averaged": thetas[:, num_steps // 2 :].mean(axis=1).tolist(),
        "steps_to_maximiser": np.argmax(np.abs(thetas - study.exact.theta) < TOLERANCE, axis=1).tolist(),
    }
    return found | second_weight(study, fits) | on_test_rows(study, fits) | evidence(study, fits)


def path_of_theta(study, name, count, num_steps, steps):
    """The path of θ in a run from the posterior given θ₀."""
    method = configured(name, count, *steps)
    return climb(study, method, num_steps, study.seed, "posterior").trajectory.theta


def second_weight(study, fits):
    """The posterior of w₂ in every run, and its distance from the exact one."""
    shares = np.array([np.exp(fit.log_weights) for fit in fits])
    w2 = np.array([fit.particles[:, SECOND] for fit in fits], float)
    mean = np.sum(shares * w2, axis=1)
    densities = [density(*of_run) for of_run in zip(w2, shares, strict=True)]
    exact = exact_density(study.exact)
    return {
        "w2_mean": mean.tolist(),
        "w2_sd": np.sqrt(np.sum(shares * (w2 - mean[:, None]) ** 2, axis=1)).tolist(),
        "w2_densities": np.round(densities, 4).tolist(),
        "w2_distance": [distance(each, exact) for each in densities],
    }


def density(values, shares):
    """Kernel density estimate of weighted values, at `W2`."""
    return gaussian_kde(values, weights=shares)(W2)


def exact_density(exact):
    return density(exact.draws[:, SECOND], exact.shares(exact.theta))


def exact_values(study):
    """The maximiser of log Z, and the posterior of w₂ there."""
    exact, w2 = study.exact, study.exact.draws[:, SECOND]
    log_weights, shares = exact.log_weights(exact.theta), exact.shares(exact.theta)
    mean = float(shares @ w2)
    return {
        "theta": exact.theta,
        "standard_error": exact.standard_error,
        "log_evidence": exact.log_evidence(exact.theta),
        "log_evidence_standard_error": weights.relative_variance(log_weights) ** 0.5,
        "w2_mean": mean,
        "w2_sd": float(np.sqrt(shares @ (w2 - mean) ** 2)),
        "w2_density": exact_density(exact).round(4).tolist(),
        "distance_of_draws": {
            str(count): distance_of_draws(study, count) for count in study.plan.num_particles
        },
    }


def distance(one, other):
    """Total variation distance of two densities, from 0 to 1."""
    return float(0.5 * np.sum(np.abs(one - other)) * (W2[1] - W2[0]))


def distance_of_draws(study, count):
    """Mean distance from the exact density for `count` independent draws of the posterior."""
    generator, exact = np.random.default_rng([study.seed, 3]), exact_density(study.exact)
    shares = study.exact.shares(study.exact.theta)
    w2 = generator.choice(study.exact.draws[:, SECOND], (BASELINE_REPEATS, count), p=shares)
    return float(np.mean([distance(density(each, np.ones(count)), exact) for each in w2]))


def distance_of_long_chain(study):
    """The distance for a long chain of SOUL with the grid's longest step, at the maximiser."""
    step_size = 2 * study.unit_step
    method = SOUL(num_particles=LONG_CHAIN, step_size=step_size, optimizer=optax.set_to_zero())
    fit = method.fit(MODEL, study.exact.theta, data=study.train.data, num_steps=1, seed=study.seed)
    w2 = fit.particles[::THINNING, SECOND]
    return distance(density(w2, np.ones(len(w2))), exact_density(study.exact))


def on_test_rows(study, fits):
    """LPPD of the test rows in nats per row, and the share of misclassified ones."""
    each = np.array([log_predictive(fit.particles, *study.test.data) for fit in fits])
    return {
        "test_lppd": each.mean(axis=1).tolist(),
        "test_error": np.mean(each < np.log(0.5), axis=1).tolist(),
    }


def evidence(study, fits):
    """Errors of the log evidence at milestone and end, and the fewest effective particles."""
    if np.isnan(fits[0].log_evidence):
        return {"log_evidence_error": None}
    paths = [fit.trajectory for fit in fits]
    errors = [
        [path.log_evidence[k] - study.exact.log_evidence(float(path.theta[k])) for k in (MILESTONE, -1)]
        for path in paths
    ]
    fewest = [float(path.ess[: MILESTONE + 1].min()) * len(fits[0].log_weights) for path in paths]
    return {"log_evidence_error": errors, "fewest_effective": fewest}
