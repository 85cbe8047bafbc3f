"""Summaries of weighted particles."""

import numpy as np
import pytest

from evidentia.posterior.summary import quantiles, summarise


def test_equal_weights_give_the_plain_moments():
    values = np.random.default_rng(0).normal(size=(101, 2))
    rows = summarise({"weights": values}, np.full(101, -np.log(101)), (0.05, 0.5, 0.95))
    np.testing.assert_allclose([row.mean for row in rows], values.mean(0))
    np.testing.assert_allclose([row.standard_deviation for row in rows], values.std(0))
    expected = np.quantile(values, [0.05, 0.5, 0.95], axis=0, method="hazen").T
    np.testing.assert_allclose([row.quantiles for row in rows], expected)


def test_a_weight_counts_as_that_many_particles():
    """Moments under weights 1/6, 2/6, 3/6 are those of one, two and three copies."""
    values = np.array([0.0, 1.0, 4.0])
    row = summarise({"mean": values}, np.log([1 / 6, 2 / 6, 3 / 6]))[0]
    copies = np.repeat(values, [1, 2, 3])
    assert row.mean == pytest.approx(copies.mean())
    assert row.standard_deviation == pytest.approx(copies.std())


def test_particles_of_weight_zero_do_not_count():
    with np.errstate(divide="ignore"):
        row = summarise({"mean": np.array([1.0, 2.0, 1e9])}, np.log([0.5, 0.5, 0.0]))[0]
    assert row.mean == pytest.approx(1.5)
    assert row.quantiles[1] == pytest.approx(1.5)


def test_quantiles_do_not_leave_the_range():
    values = np.array([[3.0], [1.0], [2.0]])
    np.testing.assert_array_equal(quantiles(values, np.full(3, 1 / 3), [0.0, 1.0])[:, 0], [1.0, 3.0])


def test_scalars_vectors_and_matrices_are_named_by_their_indices():
    posterior = {"scale": np.zeros(4), "weights": np.zeros((4, 2)), "covariance": np.zeros((4, 1, 2))}
    names = [row.name for row in summarise(posterior, np.full(4, -np.log(4)))]
    assert names == ["scale", "weights[0]", "weights[1]", "covariance[0, 0]", "covariance[0, 1]"]
