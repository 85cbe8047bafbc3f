"""Adaptive multiple importance sampling: what a round draws from, and is fitted to."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import evidentia as ev
from evidentia import weights
from evidentia.evidence.tempered_rounds import EARLIER, LEAST_SHARE, WIDE, next_shares, rounds_from_prior
from evidentia.posterior.rows import Window


def test_shares_add_up_and_the_smallest_are_dropped():
    shares = next_shares(np.zeros(2), has_fit=True)
    assert shares == pytest.approx([0.0, WIDE, 1 - WIDE])
    for _ in range(12):
        before, shares = shares, next_shares(shares, has_fit=True)
        assert shares.sum() == pytest.approx(1.0)
        assert shares[-1] == pytest.approx((1 - EARLIER) * (1 - WIDE))
        assert np.all(shares[2:-1][before[2:] <= LEAST_SHARE] == 0.0)
    assert np.count_nonzero(shares) < 9  # of 15 parts


def test_without_a_fit_the_proposal_stays_and_the_first_is_the_wide_one():
    assert next_shares(np.zeros(2), has_fit=False) == pytest.approx([0.0, 1.0])
    before = np.array([0.0, 0.02, 0.98])
    assert next_shares(before, has_fit=False) is before


CENTRES, WIDTH = (-1.0, 0.2, 0.9), 0.05
ORDERS = np.array(list(itertools.permutations(range(3))))


def peaks_in_any_order(params, y):
    """Three narrow peaks, whose order is unknown: the mean over the orders of their parameters."""
    heights = dist.Normal(jnp.asarray(CENTRES), WIDTH).log_prob(params["x"][ORDERS]).sum(1)
    return jax.nn.logsumexp(heights) - jnp.log(6.0) + 0.0 * y


@pytest.mark.slow
def test_one_copy_of_interchangeable_components_is_fitted():
    """Each of the six copies would have to be found otherwise, or its mass be lost."""
    rows, prior = np.zeros(1, np.float32), {"x": dist.Normal(0, 1).expand([3]).to_event(1)}
    model = ev.Model(prior, peaks_in_any_order, exchangeable=("x",)).bind(rows)
    window, generator = Window(jnp.asarray(rows), 0, 1), np.random.default_rng(0)
    *_, last = rounds_from_prior(model, window, jax.random.key(0), generator, 512)
    is_drawn = last.log_weights > last.log_weights.max() - 10
    orders = np.argsort(last.positions[is_drawn], axis=1)
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert counts.max() > 0.98 * counts.sum()  # a fiftieth of the draws is as wide as the prior
    exact = scipy.stats.norm(0, np.hypot(1, WIDTH)).logpdf(CENTRES).sum()
    error = np.sqrt(weights.relative_variance(last.log_weights))
    assert abs(weights.log_mean(last.log_weights) - exact) < 4 * error < 0.3
