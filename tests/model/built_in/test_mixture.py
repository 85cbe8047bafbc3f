"""The Gaussian mixture: its likelihood in float64, prior, form, simulation and checks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from evidentia.errors import ConfigurationError, DataError
from evidentia.model.built_in import gaussian_mixture


@pytest.fixture(scope="module")
def simulated():
    return gaussian_mixture(5, 2).simulate(5000, 3)


@pytest.fixture(scope="module")
def bound(simulated):
    return gaussian_mixture(5, 2).bind(simulated[0])


@pytest.fixture(scope="module")
def positions(bound):
    return bound.sample_prior(jax.random.key(0), 2000)


@pytest.fixture(scope="module")
def params(bound, positions):
    return {name: np.asarray(value, np.float64) for name, value in bound.constrain(positions).items()}


def textbook(params, y):
    """log Σ_k w_k Π_d N(y_d; μ_kd, v_kd) in float64."""
    densities = stats.norm(params["means"], np.sqrt(params["variances"])).logpdf(
        y[:, None, :].astype(np.float64)
    )
    return logsumexp(np.log(params["weights"]) + densities.sum(-1), axis=1)


@pytest.mark.slow
def test_the_likelihood_as_one_product_is_the_textbook_likelihood(bound, positions, params):
    y = np.random.default_rng(0).standard_normal((300, 2), np.float32)
    log_likelihoods = jax.jit(jax.vmap(bound.log_likelihood, (0, None)))(positions[:5], {"y": y})
    for i in range(5):
        particle = {name: value[i] for name, value in params.items()}
        expected = textbook(particle, y)
        # The expanded square errs by a few units in the last place of its largest term, y²/v or
        # m²/v.
        squares = (y[:, None] ** 2 + particle["means"] ** 2) / particle["variances"]
        largest = np.max(squares, axis=(1, 2)) + np.abs(expected)
        assert np.all(abs(log_likelihoods[i] - expected) < 16 * np.finfo(np.float32).eps * (1 + largest))


def test_the_published_model_has_25_parameters_of_which_24_are_free(bound):
    assert bound.parameter_shapes == {"weights": (5,), "variances": (5, 2), "means": (5, 2)}
    assert bound.num_parameters == 24


@pytest.mark.reference
def test_prior_draws_have_the_quantiles_of_the_published_prior(params):
    np.testing.assert_allclose(params["weights"].sum(1), 1.0, rtol=1e-5)
    samples = {
        "weights": stats.beta(1, 4).cdf(params["weights"][:, 2]),  # the margin of a Dirichlet(1, 1, 1, 1, 1)
        "variances": stats.invgamma(1).cdf(params["variances"][:, 0, 1]),
        "means": stats.norm(0, 2).cdf((params["means"] / np.sqrt(params["variances"]))[:, 4, 0]),
    }
    for name, uniform in samples.items():
        assert stats.kstest(uniform, "uniform").pvalue > 1e-4, name


def test_log_prior_is_the_density_of_the_parts(bound, positions, params):
    params = {name: value[0] for name, value in params.items()}
    free = np.asarray(positions[0], np.float64)
    # Stick breaking of the simplex: weights_k = z_k (1 - z_1) … (1 - z_{k-1}), so
    # |∂w/∂u| = Π_k w_k (1 - z_k).
    sticks = 1 / (1 + np.exp(-(free[:4] - np.log([4, 3, 2, 1]))))
    expected = (
        np.log(24.0)  # the Dirichlet(1, 1, 1, 1, 1) density
        + np.sum(np.log(params["weights"][:4]) + np.log1p(-sticks))
        + np.sum(stats.invgamma(1).logpdf(params["variances"]) + np.log(params["variances"]))
        + np.sum(stats.norm(0, 2 * np.sqrt(params["variances"])).logpdf(params["means"]))
    )
    assert float(bound.log_prior(positions[0])) == pytest.approx(expected, rel=1e-5)


def test_particles_cost_one_matrix_product(bound, simulated):
    positions = jnp.zeros((7, bound.num_parameters))
    program = str(jax.make_jaxpr(jax.vmap(bound.log_likelihood, (0, None)))(positions, simulated[0]))
    assert program.count("dot_general[") == 1


def test_simulated_data_have_the_moments_of_the_mixture(simulated):
    data, params = simulated
    weights, means, variances = (
        np.asarray(params[name], np.float64) for name in ("weights", "means", "variances")
    )
    mean = weights @ means
    deviation = np.sqrt(weights @ (variances + means**2) - mean**2)
    assert np.all(abs(data["y"].mean(0, np.float64) - mean) < 4 * deviation / np.sqrt(5000))
    assert weights.sum() == pytest.approx(1.0, abs=1e-6)


def test_equal_calls_share_a_model():
    assert gaussian_mixture(5, 2) is gaussian_mixture(num_components=5, num_features=2)


def test_data_of_another_form():
    model = gaussian_mixture(5, 2)
    with pytest.raises(DataError, match=r"data\['y'\] must have shape \(n, 2\); got \(4, 3\)"):
        model.check_data({"y": np.zeros((4, 3))})
    with pytest.raises(DataError, match=r"needs data as a mapping {'y': \(n, 2\)}; got ndarray"):
        model.check_data(np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2), "num_components must be an integer of at least 1; got 0"),
        ((2, 0), "num_features must be an integer of at least 1; got 0"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        gaussian_mixture(*arguments)


def test_more_components_than_memory_are_refused():
    with pytest.raises(ConfigurationError, match=r"num_components=10,000,000,000 .* would need [\d,]+ GiB"):
        gaussian_mixture(10**10, 2)
