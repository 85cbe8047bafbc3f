"""Gaussian processes: multivariate normal densities, evidence by quadrature, predictions."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.system.compilation import in_float64
from tests.exact_processes import CORRELATIONS, exact_log_evidence

tinygp = pytest.importorskip("tinygp")
X = np.sort(np.random.default_rng(0).uniform(0, 10, 40)).astype(np.float32)
Y = np.sin(X).astype(np.float32)


def squared(function):
    return lambda p, r: p["amplitude"] ** 2 * function(r / p["scale"])


def quasi_periodic(p, r):
    periodic = np.sin(np.pi * r / p["period"]) ** 2 / (2 * p["smoothness"] ** 2)
    return p["amplitude"] ** 2 * np.exp(-0.5 * (r / p["scale"]) ** 2 - periodic)


def oscillator(p, r):
    """Eq. 23 of Foreman-Mackey et al. (2017), of quality above one half."""
    rate = np.pi * r / p["period"] / p["quality"]
    root = np.sqrt(4 * p["quality"] ** 2 - 1)
    return p["amplitude"] ** 2 * np.exp(-rate) * (np.cos(root * rate) + np.sin(root * rate) / root)


COVARIANCES = {name: squared(function) for name, function in CORRELATIONS.items()}
COVARIANCES |= {"quasi_periodic": quasi_periodic, "oscillator": oscillator}
PARAMS = {"amplitude": 0.8, "scale": 1.7, "period": 2.5, "smoothness": 0.6, "quality": 3.0}
PARAMS["noise_scale"] = 0.2


def params_of(model):
    return {name: np.float32(PARAMS[name]) for name in model.prior}


@pytest.mark.parametrize("kernel", COVARIANCES)
def test_the_density_is_that_of_the_multivariate_normal(kernel):
    model, yerr = ev.models.gaussian_process(kernel), np.linspace(0, 0.3, 40, dtype=np.float32)
    params = params_of(model)
    covariance = COVARIANCES[kernel](params, np.abs(np.subtract.outer(X.astype(float), X)))
    covariance += np.diag(params["noise_scale"].astype(float) ** 2 + yerr.astype(float) ** 2)
    exact = multivariate_normal(cov=covariance).logpdf(Y)
    found = model.log_likelihood(params, {"x": X, "y": Y, "yerr": yerr})
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_features_have_scales_of_their_own():
    x = np.random.default_rng(1).uniform(0, 3, (30, 2)).astype(np.float32)
    model = ev.models.gaussian_process("matern52", num_features=2, mean="constant")
    params = {"amplitude": np.float32(1.2), "noise_scale": np.float32(0.1), "mean": np.float32(0.5)}
    params["scale"] = np.array([0.5, 2.0], np.float32)
    steps = (x[:, None] - x[None]).astype(float) / params["scale"]
    covariance = 1.2**2 * CORRELATIONS["matern52"](np.sqrt((steps**2).sum(-1))) + 0.1**2 * np.eye(30)
    exact = multivariate_normal(np.full(30, 0.5), covariance).logpdf(Y[:30])
    np.testing.assert_allclose(model.log_likelihood(params, {"x": x, "y": Y[:30]}), exact, rtol=1e-6)


def test_covariances_that_float32_cannot_factor_keep_the_digits_of_float64():
    """Noise of 10⁻⁴ beside an amplitude of one: the condition number is above 10⁹."""
    model = ev.models.gaussian_process("squared_exponential")
    params = {
        name: np.float32(value) for name, value in (("amplitude", 1), ("scale", 3), ("noise_scale", 1e-4))
    }
    distances = np.subtract.outer(X.astype(float), X)
    covariance = np.exp(-0.5 * (distances / 3) ** 2) + float(params["noise_scale"]) ** 2 * np.eye(40)
    assert np.isnan(np.asarray(jnp.linalg.cholesky(jnp.asarray(covariance, jnp.float32)))).any()
    exact = multivariate_normal(cov=covariance, allow_singular=True).logpdf(Y)
    np.testing.assert_allclose(model.log_likelihood(params, {"x": X, "y": Y}), exact, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["matern32", "squared_exponential"])
def test_gradient_and_hessian_are_those_of_differences_in_float64(kernel):
    model = ev.models.gaussian_process(kernel)

    def density(vector):
        names = "amplitude", "scale", "noise_scale"
        return model.log_likelihood(dict(zip(names, vector, strict=True)), {"x": X, "y": Y})

    at, steps = np.array([0.8, 1.7, 0.2]), 1e-4 * np.eye(3)
    both = jax.jit(jax.vmap(lambda one: (jax.grad(density)(one), jax.hessian(density)(one))))
    gradient, hessian = both(jnp.asarray(np.stack([at, at + 0.1]), jnp.float32))
    with in_float64():
        values = [[float(density(jnp.asarray(at + sign * step))) for sign in (1, -1)] for step in steps]
        slopes = [
            [np.asarray(jax.grad(density)(jnp.asarray(at + sign * step))) for sign in (1, -1)]
            for step in steps
        ]
    np.testing.assert_allclose(gradient[0], [(up - down) / 2e-4 for up, down in values], rtol=1e-4)
    np.testing.assert_allclose(hessian[0], [(up - down) / 2e-4 for up, down in slopes], rtol=1e-3)


@pytest.mark.slow
def test_the_evidence_of_the_kept_case_is_that_of_its_quadrature():
    """11 points, of posteriordb's model gp_regr: σ is the variance of its noise."""
    y = "4.75906,1.59423,2.99548,5.27501,1.66472,2.24347,2.8914,4.08681,4.60588,.802364,3.92136"
    data = {"x": np.arange(-10.0, 11.0, 2.0), "y": np.array(y.split(","), float)}
    root = dist.transforms.PowerTransform(0.5)
    prior = {
        "scale": dist.Gamma(25.0, 4.0),
        "amplitude": dist.HalfNormal(2.0),
        "noise_scale": dist.TransformedDistribution(dist.HalfNormal(1.0), root),
    }
    found = ev.estimate(ev.models.gaussian_process("squared_exponential", prior=prior), data)
    assert abs(found.log_evidence + 27.55545566) < 4 * found.standard_error < 0.1
    assert found.diagnostics["chosen"].startswith("AMIS") and found.num_observations == 11


@pytest.mark.reference
@pytest.mark.parametrize("kernel", ["matern32", "squared_exponential"])
def test_standard_errors_cover_the_evidence_of_many_processes(kernel):
    """20 data sets: the root mean square of 20 standard normals is below 1.5 but for 1 in 10⁴."""
    model, scores = ev.models.gaussian_process(kernel), []
    for seed in range(20):
        data, _ = model.simulate(20, seed)
        found = ev.estimate(model, data, seed=seed)
        exact = exact_log_evidence(data["x"].astype(float), data["y"].astype(float), kernel)
        scores.append((found.log_evidence - exact) / found.standard_error)
    assert np.sqrt(np.mean(np.square(scores))) < 1.5


@pytest.mark.parametrize("kernel", ["matern32", "squared_exponential"])
def test_predictions_given_the_data_have_the_moments_of_the_process(kernel):
    """Against the solution of the normal equations, at parameters that are known."""
    model, new = ev.models.gaussian_process(kernel), np.array([-1.0, 2.5, 14.0])
    params = {name: np.full(4000, value, np.float32) for name, value in params_of(model).items()}
    found = model.predict(params, {"x": X, "y": Y, "x_new": new}, 0)["y"]
    of = lambda a, b: COVARIANCES[kernel](PARAMS, np.abs(np.subtract.outer(a, b)).astype(float))  # noqa: E731
    solved = np.linalg.solve(of(X, X) + 0.2**2 * np.eye(40), np.column_stack([Y, of(X, new)]))
    mean, covariance = (
        of(new, X) @ solved[:, 0],
        of(new, new) - of(new, X) @ solved[:, 1:] + 0.2**2 * np.eye(3),
    )
    deviation = np.sqrt(np.diag(covariance))
    assert (np.abs(found.mean(0) - mean) < 4 * deviation / np.sqrt(4000)).all()
    np.testing.assert_allclose(found.std(0), deviation, rtol=4 / np.sqrt(2 * 4000))


def test_replicates_have_the_covariance_of_the_prior_process():
    model = ev.models.gaussian_process("matern12", noise=False)
    params = {"amplitude": np.full(4000, 2.0), "scale": np.full(4000, 1.0)}
    found = model.predict(params, {"x": np.array([0.0, 1.0], np.float32)}, 0)["y"]
    exact = 4.0 * np.array([[1, np.exp(-1)], [np.exp(-1), 1]])
    np.testing.assert_allclose(np.cov(found.T), exact, atol=4 * 4 * np.sqrt(2 / 4000))


def sho(params):
    return tinygp.kernels.quasisep.SHO(omega=params["omega"], quality=jnp.asarray(0.7))


def test_a_function_of_the_parameters_gives_any_kernel_and_mean():
    prior = {"omega": dist.LogNormal(0.0, 1.0), "slope": dist.Normal(0.0, 1.0)}
    model = ev.models.gaussian_process(
        sho, prior=prior, mean=lambda params, x: params["slope"] * x, noise=False
    )
    assert repr(model) == "Model('Gaussian process, sho')"
    params, yerr = {"omega": np.float32(1.5), "slope": np.float32(0.1)}, np.full(40, 0.1, np.float32)
    p = {"amplitude": 1.0, "period": 2 * np.pi / 1.5, "quality": np.float32(0.7).astype(float)}
    covariance = oscillator(p, np.abs(np.subtract.outer(X.astype(float), X))) + 0.1**2 * np.eye(40)
    exact = multivariate_normal(params["slope"] * X.astype(float), covariance).logpdf(Y)
    found = model.log_likelihood(params, {"x": X, "y": Y, "yerr": yerr})
    np.testing.assert_allclose(found, exact, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be one of 'squared_exponential', .* got 'rbf'"),
        ({"kernel": 3}, "kernel must be a name, or a function of the parameters .* got 3"),
        ({"kernel": sho}, "prior must have the parameters of the kernel; got none"),
        ({"mean": 0.5}, r"mean must be None, 'constant' or a function \(params, x\) -> \(n,\); got 0.5"),
        ({"noise": 0.1}, "noise must be True or False; got 0.1. Known errors of the observations are data, 'yerr'"),
        ({"num_features": 0}, "num_features must be an integer of at least 1; got 0"),
        ({"kernel": "oscillator", "num_features": 2}, r"kernel='oscillator' takes x of shape \(n,\)"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(arguments, message):
    noise = {"noise": False} if arguments.get("kernel") is sho else {}
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.models.gaussian_process(**arguments, **noise)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda params: params["scale"], "kernel must return a kernel of tinygp; it returned"),
        (lambda params: params["length"], "kernel failed with KeyError: 'length'"),
        (
            lambda params: tinygp.kernels.quasisep.Exp(scale=params["scale"]),
            r"Exp of .* takes x of shape \(n,\)",
        ),
    ],
)
def test_bad_kernels_are_named(kernel, message):
    with pytest.raises(ev.ModelError, match=message):
        ev.models.gaussian_process(kernel, prior={"scale": dist.LogNormal(0.0, 1.0)}, num_features=2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": Y}, "needs data with 'x', 'y', and takes 'yerr'; got 'y'"),
        ({"x": X, "y": Y[:, None]}, r"data\['y'\] must have shape \(n,\); got \(40, 1\)"),
        ({"x": X[:, None], "y": Y}, r"data\['x'\] must have shape \(n,\), as num_features=None; got \(40, 1\)"),
        ({"x": X[:-1], "y": Y}, r"data\['x'\] and data\['y'\] must have as many rows; got 39 and 40"),
        ({"x": X, "y": Y, "yerr": -X}, r"data\['yerr'\] must have a standard deviation, zero or more, for each of 40"),
        ({"x": X[::-1], "y": Y}, r"data\['x'\] must not decrease .* row 1 has .* Sort the rows by x"),
        ({"x": X, "y": np.where(X > 5, np.nan, Y)}, r"data\['y'\] has NaN or infinite values in \d+ of 40 rows"),
    ],
)  # fmt: skip
def test_bad_data_are_named(data, message):
    with pytest.raises(ev.DataError, match=message):
        ev.estimate(ev.models.gaussian_process("matern32"), data)


def test_too_many_rows_are_refused_with_what_to_do():
    many = {"x": np.zeros((3001, 2)), "y": np.zeros(3001)}
    with pytest.raises(
        ev.DataError, match=r"takes at most 3,000 rows; got 3,001. Along one dimension, 'matern12'"
    ):
        ev.estimate(ev.models.gaussian_process("matern32", num_features=2), many)


def test_repeated_inputs_need_noise():
    model = ev.models.gaussian_process("matern32", noise=False)
    data = {"x": np.array([0.0, 1.0, 1.0]), "y": np.array([0.1, 0.2, 0.3])}
    with pytest.raises(
        ev.DataError, match=r"must not repeat where observations have no noise.* 1.0 occurs 2 times"
    ):
        ev.estimate(model, data)
    model.check_data({**data, "yerr": np.full(3, 0.1)})


def test_models_with_kernels_by_name_can_be_pickled():
    model = pickle.loads(pickle.dumps(ev.models.gaussian_process("matern32", mean="constant")))
    params = {**params_of(ev.models.gaussian_process("matern32")), "mean": np.float32(0.1)}
    assert np.isfinite(model.log_likelihood(params, {"x": X, "y": Y}))


def test_predictions_need_inputs_like_those_of_the_data():
    model = ev.models.gaussian_process("matern32")
    params = {name: value[None] for name, value in params_of(model).items()}
    with pytest.raises(
        ev.DataError, match=r"data\['x_new'\] must have shape \(n,\), as num_features=None; got \(2, 3\)"
    ):
        model.predict(params, {"x": X, "y": Y, "x_new": np.zeros((2, 3))}, 0)


@pytest.mark.slow
def test_a_singular_covariance_matrix_is_explained():
    model = ev.models.gaussian_process("squared_exponential", noise=False)
    with pytest.raises(ev.EstimationError) as caught:
        ev.estimate(model, {"x": X, "y": Y})
    notes = " ".join(getattr(caught.value, "__notes__", [])) + str(caught.value)
    assert "The covariance matrix has no Cholesky factor in float64 at the draw amplitude=" in notes
    assert "Add noise (noise=True, or data['yerr'])" in notes
