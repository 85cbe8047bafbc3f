"""The bridge between two densities: the exact ratio, its error, and no overlap."""

import numpy as np
import pytest
from scipy import stats

import evidentia as ev
from evidentia.evidence.bridge.iteration import bridge, effective_draws


def ratios(rng, shift, count, log_constant=-3.0):
    """log f / q at draws of p and of q, for f = e^-3 N(shift, 1) and q = N(0, 1)."""

    def log_ratio(x):
        return log_constant + stats.norm.logpdf(x, shift) - stats.norm.logpdf(x)

    return log_ratio(rng.normal(shift, size=(4, count // 4))), log_ratio(rng.normal(size=count))


def test_equal_densities_are_bridged_without_error():
    found = bridge(np.full((2, 50), -700.0), np.full(100, -700.0), ess=100.0)
    assert found.log_evidence == pytest.approx(-700.0, abs=1e-12)
    assert found.variance == 0.0 and found.num_iterations <= 2


def test_the_error_of_independent_draws_is_a_standard_deviation():
    runs = [bridge(*ratios(np.random.default_rng(seed), 1.5, 400), ess=400.0) for seed in range(100)]
    scores = np.array([(run.log_evidence + 3.0) / np.sqrt(run.variance) for run in runs])
    # 100 independent scores: the deviation of their mean is 1/10, of their deviation 1/√200.
    assert abs(scores.mean()) < 4 / 10 and abs(scores.std() - 1) < 4 / np.sqrt(200), scores


def test_the_fixed_point_does_not_depend_on_the_scale():
    log_ratios, others = ratios(np.random.default_rng(0), 1.0, 400)
    here, far = (bridge(log_ratios + shift, others + shift, ess=400.0) for shift in (0.0, -1e6))
    assert far.log_evidence + 1e6 == pytest.approx(here.log_evidence, abs=1e-6)
    assert far.variance == pytest.approx(here.variance, rel=1e-6)


def test_densities_without_overlap_are_an_error():
    log_ratios, others = ratios(np.random.default_rng(0), 12.0, 400)
    with pytest.raises(ev.EstimationError, match=r"did not converge in 1,000 iterations.*r-hat.*more draws"):
        bridge(log_ratios, others, ess=400.0)
    with pytest.raises(ev.EstimationError, match="did not converge"):
        bridge(np.zeros((2, 50)), np.full(100, -np.inf), ess=100.0)


def test_effective_draws_count_autocorrelation():
    rng = np.random.default_rng(0)
    walk = np.zeros((4, 5000))
    for step in range(1, 5000):
        walk[:, step] = 0.8 * walk[:, step - 1] + rng.normal(size=4)
    # The variance of a mean is (1 + 0.8) / (1 - 0.8) = 9 times that of independent draws.
    assert effective_draws(walk) == pytest.approx(20_000 / 9, rel=0.15)
    assert effective_draws(np.ones((2, 100))) == 200
    assert np.isnan(effective_draws(rng.normal(size=(2, 3))))
