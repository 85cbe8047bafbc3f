"""What JALA-EM's paper suggests: the exact climb, altered weights, and the verdict."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from evidentia.latent import LatentModel
from experiments import jala_em_outlook as experiment

pytestmark = pytest.mark.experiments


def test_the_exact_evidence_and_its_gradient():
    v, y = experiment.simulate(8, seed=0)
    theta = np.array([0.3, -0.2])
    covariance = np.exp(-theta[1]) * v @ v.T + np.exp(theta[0]) * np.eye(len(y))
    value, by_theta = experiment.exact(theta, v, y)
    assert value == pytest.approx(multivariate_normal(np.zeros(len(y)), covariance).logpdf(y))
    for index, step in enumerate(1e-4 * np.eye(2)):
        up, down = experiment.exact(theta + step, v, y)[0], experiment.exact(theta - step, v, y)[0]
        assert by_theta[index] == pytest.approx((up - down) / 2e-4, rel=1e-4)


def test_the_log_joint_integrates_to_the_exact_evidence():
    """log p(y, x) - log p(x | y) is the same at any x."""
    v, y = experiment.simulate(8, seed=0)
    theta, x = np.array([0.3, -0.2]), np.full(8, 0.1)
    mean, precision = experiment.posterior(theta, v, y)
    log_posterior = multivariate_normal(mean, np.linalg.inv(precision)).logpdf(x)
    data = jax.tree.map(jnp.asarray, experiment.summarise(v, y))
    joint = experiment.log_joint(jnp.asarray(theta), jnp.asarray(x), data)
    assert float(joint) - log_posterior == pytest.approx(experiment.exact(theta, v, y)[0], abs=0.01)


def test_weights_are_tempered_and_clipped_in_the_gradient_only():
    log_weights = jnp.log(jnp.array([0.7, 0.1, 0.1, 0.1]))
    gradients = jnp.array([1.0, 0.0, 0.0, 0.0])
    problems = {
        kind: kind(LatentModel(lambda theta, x: x.sum()), jnp.zeros(1), None)
        for kind in (experiment.Problem, experiment.Clipped, experiment.Tempered)
    }
    plain, clipped, tempered = (float(problem.mean(gradients, log_weights)) for problem in problems.values())
    assert plain == pytest.approx(0.7)
    assert clipped == pytest.approx(0.5 / 0.8)  # at most 1/√4, then normalised
    assert tempered == pytest.approx(0.7**0.5 / (0.7**0.5 + 3 * 0.1**0.5))


def test_the_gradient_from_two_values_is_right_on_average():
    model = LatentModel(lambda theta, x: 2 * theta[0] - theta[1] + x.sum())
    problem = experiment.GradientFree(model, jnp.zeros(1), None)
    keys = jax.random.split(jax.random.key(0), 64)
    look = jax.vmap(lambda key: problem.look(jnp.zeros(2), jnp.zeros((1, 1)), key)[1][0])
    found = np.asarray(look(keys))
    np.testing.assert_allclose(found.mean(0), [2, -1], atol=4 * found.std(0).max() / np.sqrt(64))
    assert set(found.round(3)[:, 0]) == {1.0, 3.0}


def record(scatter):
    rows = [
        {
            "weights": 8,
            "way": way,
            "length": length,
            "theta_off": [0.1 if way != "gradient-free" else 2.0] * 2,
            "log_evidence_error": [0.0, scatter if way == "Metropolis" else 0.1],
            "smallest_ess": 0.5,
            "share_of_particles": 0.7,
        }
        for way in experiment.WAYS
        for length in experiment.LENGTHS
    ]
    return {"rows": rows}


def test_the_verdict_compares_the_scatter_at_long_steps(tmp_path):
    verdict = experiment.judge(record(0.03))
    assert verdict.agrees and "20 times with gradient-free" in verdict.measured
    assert not experiment.judge(record(0.2)).agrees
    assert len(experiment.table(record(0.03))) == 15
    experiment.draw(record(0.03)).savefig(tmp_path / "figure.png")
