"""Bayes factors and effects given the g's, against dense covariances of the rows."""

import numpy as np
import pytest

from evidentia.regression.per_term.root_likelihood import FEW, pivots_of, root_likelihood


@pytest.mark.parametrize("noise", [1.0, 1e-5])
def test_bayes_factors_and_effects_are_those_of_dense_matrices(noise):
    """log N(y; 0, σ² V) with the intercept and σ² integrated out, V = I + Σ g X Xᵀ."""
    generator = np.random.default_rng(3)
    columns, place = generator.normal(size=(12, 3)), np.array([0, 0, 1])
    columns -= columns.mean(0)
    response = columns @ [1.0, -2.0, 0.5] + noise * generator.normal(size=12)
    response -= response.mean()
    found = root_likelihood(12, columns, response, place)
    log_g = np.log([[0.3, 2.0], [40.0, 0.01]])
    for g, value in zip(np.exp(log_g), found.log_bayes_factor(log_g), strict=True):
        dense = np.eye(12) + columns * g[place] @ columns.T
        left = response @ np.linalg.solve(dense, response) / (response @ response)
        expected = -0.5 * np.linalg.slogdet(dense)[1] - 5.5 * np.log(left)
        assert value == pytest.approx(expected, rel=1e-9)
    (effects,) = found.effects(log_g)
    precision = columns.T @ columns + np.diag(1 / np.exp(log_g[0])[place])
    assert effects.mean[0] == pytest.approx(np.linalg.solve(precision, columns.T @ response), rel=1e-9)
    root = effects.scale_root[0]
    assert root @ root.T == pytest.approx(np.linalg.inv(precision), rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, FEW, FEW + 1])
def test_pivots_are_ratios_of_leading_determinants(count):
    columns = np.random.default_rng(4).normal(size=(5, count + 3, count))
    matrices = np.swapaxes(columns, 1, 2) @ columns
    found = pivots_of(np.moveaxis(matrices, 0, -1).copy())
    assert found.shape == (count, 5)
    logs = [np.linalg.slogdet(matrices[:, :size, :size])[1] for size in range(1, count + 1)]
    assert np.cumsum(np.log(found), axis=0) == pytest.approx(np.array(logs), rel=1e-9, abs=1e-9)
