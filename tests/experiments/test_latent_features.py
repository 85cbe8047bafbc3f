"""The features of latent-variable methods in small: exact answers, counts and verdict."""

import copy
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments import latent_features as experiment

pytestmark = pytest.mark.experiments


def test_the_exact_answers_are_those_of_the_joint_density():
    """log p(x, y) = log Z(θ) + log N(x; (θ + y) / 2, ½), at any x."""
    theta, x = 0.7, np.random.default_rng(0).standard_normal(6).astype(np.float32)
    joint = float(experiment.log_joint(theta, jnp.asarray(x), experiment.DATA))
    posterior = multivariate_normal((theta + experiment.Y) / 2, experiment.EXACT_VARIANCE * np.eye(6)).logpdf(
        x
    )
    assert joint == pytest.approx(float(experiment.log_evidence(theta)) + posterior, rel=1e-5)


@pytest.mark.parametrize(("name", "in_a_row"), [("JALA-EM", 1), ("SOUL", 20)])
def test_gradients_are_counted_as_they_are_computed(name, in_a_row):
    assert experiment.count_gradients(replace(experiment.configured(name, 0.1), num_particles=20)) == {
        "a_particle": 1.0,
        "in_a_row": in_a_row,
    }


def test_plain_langevin_steps_are_as_much_too_wide_as_theory_says():
    found = experiment.measure(experiment.configured("PGD", 0.3), num_runs=10, num_steps=60, seed=0)
    assert abs(experiment.deviation(found["variance"], 0.5 / 0.7)) < 4
    assert found["evidence_ratio"] is None and found["ess"] is None and found["microseconds_a_step"] > 0


def test_mini_batches_are_taken_by_those_that_have_them_and_every_method_can_be_made():
    assert experiment.with_mini_batches("JALA-EM", 2, 3, seed=0) is None
    for name in set(experiment.KINDS) - {"JALA-EM"}:
        assert experiment.configured(name, 0.2, batch_size=3).batch_size == 3


def test_the_evidence_is_unbiased_on_a_given_way_and_too_large_where_theta_climbs_along_the_noise():
    found = experiment.evidence(num_runs=400, num_steps=20, seed=0, num_particles=20)
    assert abs(experiment.deviation(found["given"], 1.0)) < 4
    assert experiment.deviation(found["climbing"], 1.0) > 4
    assert found["more_particles"][0] - 1 < 0.5 * (found["climbing"][0] - 1)


def record():
    def row(name, variance, ratio, mini_batches):
        return {
            "name": name,
            "theta_error": [0.001, 0.002],
            "variance": [variance, 0.003],
            "evidence_ratio": ratio,
            "ess": None if ratio is None else [0.5, 0.01],
            "microseconds_a_step": 100.0,
            "gradients": {"a_particle": 1.0, "in_a_row": 300 if name == "SOUL" else 1},
            "mini_batches": mini_batches,
            "variances": [{"step_size": experiment.TABLE_STEP, "variance": [variance, 0.003]}],
        }

    plain = [row(name, 0.7, None, [0.001, 0.002]) for name in experiment.KINDS if name != "JALA-EM"]
    ratios = {"given": [1.001, 0.002], "climbing": [1.1, 0.004], "more_particles": [1.024, 0.002]}
    methods = [row("JALA-EM", 0.501, [1.1, 0.03], None), *plain]
    return {"methods": methods, "evidence": ratios, "runs": 10, "steps": 100}


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("evidence", "given"), [1.1, 0.004]),
        (("evidence", "more_particles"), [1.09, 0.002]),
        (("methods", 0, "variances", 0, "variance"), [0.53, 0.003]),
        (("methods", 0, "evidence_ratio"), None),
        (("methods", 2, "evidence_ratio"), [1.0, 0.1]),
        (("methods", 1, "variances", 0, "variance"), [0.501, 0.003]),
        (("methods", 3, "theta_error"), [0.1, 0.002]),
        (("methods", 4, "mini_batches"), [0.1, 0.002]),
        (("methods", 0, "gradients"), {"a_particle": 2.0, "in_a_row": 2}),
    ],
)
def test_the_verdict_follows_the_numbers(place, wrong):
    given = record()
    assert experiment.EXPERIMENT.judge(given).agrees
    other = copy.deepcopy(given)
    inner = other
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = wrong
    assert not experiment.EXPERIMENT.judge(other).agrees
    assert [line["mini-batches"] for line in experiment.EXPERIMENT.table(given)] == [False] + 5 * [True]
