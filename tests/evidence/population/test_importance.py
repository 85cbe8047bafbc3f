"""Log-likelihoods from a sample of the rows: right where they are given, and refused elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.population.importance import log_likelihoods_near
from evidentia.evidence.population.mixture import Mixture
from evidentia.posterior.gaussian import draw_student_t
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window

COUNT = 60_000


def logistic(order=None, far_row=None):
    generator = np.random.default_rng(0)
    x = generator.standard_normal((COUNT, 3)).astype(np.float32)
    if far_row is not None:
        x[far_row] = [150.0, 250.0, 0.0]  # its logit is about zero
    chance = 1 / (1 + np.exp(-np.clip(x @ [0.5, -0.3, 0.2], -50, 50)))
    y = (generator.random(COUNT) < chance).astype(np.int32)
    if order is not None:
        x, y = x[order(y)], y[order(y)]
    model = ev.Model(
        {"weights": dist.Normal(jnp.zeros(3), 1.0).to_event(1)},
        lambda params, batch: dist.Bernoulli(logits=batch["x"] @ params["weights"]).log_prob(batch["y"]),
    )
    data = {"x": x, "y": y}
    return model.bind(data), Window(jax.tree.map(jnp.asarray, data), 0, COUNT)


def draws_at_the_mode(bound, rows):
    mode = newton(bound, rows, np.zeros(3))
    positions = jnp.asarray(draw_student_t(np.random.default_rng(1), mode, 64), jnp.float32)
    return mode, positions


@pytest.mark.slow
@pytest.mark.parametrize("order", [None, np.argsort])
def test_they_agree_with_those_of_all_rows(order):
    bound, rows = logistic(order)
    mode, positions = draws_at_the_mode(bound, rows)
    deviations, offset, variance = log_likelihoods_near(bound, rows, Mixture((mode,)), positions)
    exact = rows.exact_log_likelihoods(bound, np.asarray(positions))
    assert np.std(exact) > 1  # otherwise the test would prove nothing
    np.testing.assert_allclose(deviations + offset, exact, rtol=0, atol=0.1)
    assert abs(np.mean(deviations + offset - exact)) < 0.02 and variance < 0.01**2


@pytest.mark.slow
def test_draws_belong_to_the_nearest_of_several_expansions():
    bound, rows = logistic()
    mode, positions = draws_at_the_mode(bound, rows)
    elsewhere = rows.expand(bound, mode.centre + 0.005)
    two = Mixture((mode, mode._replace(centre=elsewhere.centre, expansion=elsewhere)))
    assert len(np.unique(np.argmax(two.log_terms(np.asarray(positions, np.float64)), axis=0))) == 2
    deviations, offset, _ = log_likelihoods_near(bound, rows, two, positions)
    exact = rows.exact_log_likelihoods(bound, np.asarray(positions))
    np.testing.assert_allclose(deviations + offset, exact, rtol=0, atol=0.1)


def test_a_row_unlike_all_others_is_noticed():
    """Its remainder is large, and the sample does not contain it."""
    bound, rows = logistic(far_row=1234)
    mode, positions = draws_at_the_mode(bound, rows)
    assert log_likelihoods_near(bound, rows, Mixture((mode,)), positions) is None


def test_it_needs_many_rows_and_an_expansion():
    bound, rows = logistic()
    mode, positions = draws_at_the_mode(bound, rows)
    few, unexpanded = rows.part(0, 10_000), mode._replace(expansion=None)
    assert log_likelihoods_near(bound, few, Mixture((mode,)), positions) is None
    assert log_likelihoods_near(bound, rows, Mixture((unexpanded,)), positions) is None
