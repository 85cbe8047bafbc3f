"""The share of a posterior that each copy stands for: exact for any density, with any overlap."""

import itertools

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.posterior.copies import log_shares
from evidentia.posterior.symmetry import Centre, fold, fold_to, is_folded


def bound_sum(count: int, rows: np.ndarray):
    """Interchangeable normal parameters that enter through their sum."""
    model = ev.Model(
        prior={"x": dist.Normal(0, 1).expand([count]).to_event(1)},
        log_likelihood=lambda params, batch: dist.Normal(params["x"].sum(), 1.0).log_prob(batch["y"]),
    )
    return model, {"y": rows}


@pytest.fixture(scope="module")
def four():
    model, data = bound_sum(4, np.array([1.0, 2.0], np.float32))
    return model.bind({name: jnp.asarray(value) for name, value in data.items()})


@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_shares_of_all_copies_of_a_position_add_up_to_one(four, spread):
    # For components that coincide, overlap, and are apart.
    generator = np.random.default_rng(0)
    parts = ((0.0, spread * np.arange(4) + generator.standard_normal((500, 4))),)
    position = np.array([0.3, 1.1, 5.0, 12.0])
    copies = np.array(list(itertools.permutations(position)))
    assert np.exp(log_shares(four, parts, copies)).sum() == pytest.approx(1.0, abs=1e-6)


def test_shares_add_up_to_one_where_components_have_a_gaussian_in_common(four):
    draws = np.array([0.0, 0.1, 3.0, 3.1]) + np.random.default_rng(1).standard_normal((500, 4))
    copies = np.array(list(itertools.permutations([0.3, 1.1, 5.0, 2.0])))
    shares = np.exp(log_shares(four, ((0.0, draws),), copies, most_states=9))  # two groups of two
    assert shares.sum() == pytest.approx(1.0, abs=1e-6)


def test_a_copy_of_components_that_coincide_has_an_equal_share(four):
    draws = np.random.default_rng(2).standard_normal((20_000, 4))
    shares = np.exp(log_shares(four, ((0.0, draws),), np.array([[0.5, -0.2, 0.9, 0.1]])))
    assert shares == pytest.approx(1 / 24, rel=0.1)


def test_components_too_many_and_apart_have_no_shares(four):
    draws = 100.0 * np.arange(4) + np.random.default_rng(3).standard_normal((500, 4))
    assert np.isnan(log_shares(four, ((0.0, draws),), draws[:3], most_states=9)).all()
    assert np.isfinite(log_shares(four, ((0.0, draws),), draws[:3])).all()


def test_each_position_has_one_copy_in_a_domain(four):
    generator = np.random.default_rng(4)
    positions = (np.arange(4) + generator.standard_normal((200, 4))).astype(np.float32)
    _, centre = fold(four, positions, np.full(200, 1 / 200))
    assert isinstance(centre, Centre)
    copies = positions[0][np.array(list(itertools.permutations(range(4))))]
    assert is_folded(four, copies, centre).sum() == 1
    assert is_folded(four, fold_to(four, positions, centre), centre).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", [7, 20])
def test_the_evidence_of_many_interchangeable_parameters_is_exact(count):
    rows = np.random.default_rng(3).normal(1.0, 1.0, 20).astype(np.float32)
    model, data = bound_sum(count, rows)
    exact = multivariate_normal(np.zeros(20), np.eye(20) + count * np.ones((20, 20))).logpdf(rows)
    evidence = ev.estimate(model, data)
    assert evidence.log_evidence == pytest.approx(exact, abs=4 * evidence.standard_error)
