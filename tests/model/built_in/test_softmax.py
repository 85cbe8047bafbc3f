"""Softmax regression: its likelihood in float64, its form, simulation and checks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from evidentia.errors import ConfigurationError, DataError
from evidentia.model.built_in import softmax_regression


@pytest.fixture(scope="module")
def simulated():
    return softmax_regression(3, 4).simulate(20_000, 0)


def test_log_likelihood_is_the_log_of_the_label_probability(simulated):
    data, params = simulated
    logits = data["x"].astype(np.float64) @ params["weights"] + params["intercept"]
    expected = log_softmax(logits, axis=1)[np.arange(len(logits)), data["y"]]
    position = jnp.concatenate([params["weights"].ravel(), params["intercept"]])
    log_likelihood = softmax_regression(3, 4).bind(data).log_likelihood(position, data)
    np.testing.assert_allclose(log_likelihood, expected, rtol=1e-4, atol=2e-6)


def test_particles_cost_one_matrix_product_and_no_gather(simulated):
    data, _ = simulated
    bound = softmax_regression(3, 4).bind(data)
    positions = jnp.zeros((7, bound.num_parameters))
    program = str(jax.make_jaxpr(jax.vmap(bound.log_likelihood, (0, None)))(positions, data))
    assert program.count("dot_general[") == 1
    assert "gather" not in program


def test_simulated_labels_follow_the_model(simulated):
    data, params = simulated
    probabilities = softmax(data["x"] @ params["weights"] + params["intercept"], axis=1)
    counts = np.bincount(data["y"], minlength=4)
    deviation = np.sqrt(np.sum(probabilities * (1 - probabilities), axis=0))
    assert np.all(abs(counts - probabilities.sum(0)) < 4 * deviation)


def test_whole_numbers_stored_as_floats_are_labels():
    softmax_regression(1, 3).check_data({"x": np.zeros((3, 1)), "y": np.array([0.0, 1.0, 2.0])})


def test_equal_calls_share_a_model():
    assert softmax_regression(3, 4) is softmax_regression(num_features=3, num_classes=4)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3], r"from 0 to 2 \(num_classes=3\); 1 of 3 rows do not, the first is row 2 with 3"),
        ([0, -1, 5], "2 of 3 rows do not, the first is row 1 with -1"),
        ([0.5, 1.0, 2.0], "1 of 3 rows do not, the first is row 0 with 0.5"),
    ],
)
def test_labels_out_of_range(labels, message):
    with pytest.raises(DataError, match=message):
        softmax_regression(1, 3).check_data({"x": np.zeros((3, 1)), "y": np.array(labels)})


def test_features_of_another_form():
    with pytest.raises(DataError, match=r"data\['x'\] must have shape \(n, 2\); got \(3, 1\)"):
        softmax_regression(2, 3).check_data({"x": np.zeros((3, 1)), "y": np.zeros(3, int)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 3), "num_features must be an integer of at least 1; got 0"),
        ((2, 1), "num_classes must be an integer of at least 2; got 1"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        softmax_regression(*arguments)


def test_more_classes_than_memory_are_refused():
    with pytest.raises(
        ConfigurationError,
        match=r"num_classes=1,000,000,000 with num_features=2 would need [\d,]+ GiB .*; this machine has",
    ):
        softmax_regression(2, 10**9)
