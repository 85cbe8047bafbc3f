"""Newton's method: exact for linear regression, and for directions only the prior informs."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window

MODEL = ev.models.linear_regression(num_features=3)


def linear_rows(num_rows=3000):
    data, _ = MODEL.simulate(num_rows, 0)
    design = np.c_[data["x"], np.ones(num_rows)].astype(float)
    precision = design.T @ design + np.eye(4)
    mode = np.linalg.solve(precision, design.T @ data["y"])
    return data, Window(jax.tree.map(jnp.asarray, data), 0, num_rows), mode, precision


def test_linear_regression_has_its_exact_posterior():
    data, rows, mode, precision = linear_rows()
    for guess in (None, 0.8 * precision):
        found = newton(MODEL.bind(data), rows, np.zeros(4), guess)
        # The tolerance on the mode is a tenth of a standard deviation.
        assert np.linalg.norm(np.linalg.cholesky(precision).T @ (found.centre - mode)) < 0.1
        np.testing.assert_allclose(found.precision, precision, rtol=1e-9, atol=1e-6)
        exact = MODEL.exact_log_evidence(data)  # of a Gaussian posterior
        assert found.log_mass == pytest.approx(exact, abs=0.5 * 0.1**2 + 1e-6 * abs(exact))


def test_directions_that_only_the_prior_holds_keep_their_precision():
    # A constant added to the logits of all classes changes nothing: this direction has the prior's
    # precision of one, others have 10⁹.
    model = ev.models.softmax_regression(num_features=2, num_classes=2)
    generator = np.random.default_rng(0)
    data = {"x": (255 * generator.random((50_000, 2))).astype(np.float32)}
    data["y"] = generator.binomial(1, 1 / (1 + np.exp(0.02 * (data["x"][:, 0] - 128)))).astype(np.int32)
    rows = Window(jax.tree.map(jnp.asarray, data), 0, 50_000)
    found = newton(model.bind(data), rows, np.zeros(6))
    values = np.linalg.eigvalsh(found.precision)
    assert values[-1] > 1e7
    np.testing.assert_allclose(values[:3], 1.0, rtol=1e-4)


def test_steps_that_overshoot_are_halved():
    # Newton's step for -log cosh is -sinh θ cosh θ: from 3 it leads to -200 and then diverges
    # unless halved.
    model = ev.Model(
        prior={"m": dist.Normal(0, 100)},
        log_likelihood=lambda params, y: -jnp.log(jnp.cosh(params["m"])) + 0 * y,
    )
    y = np.zeros(10, np.float32)
    found = newton(model.bind(y), Window(jnp.asarray(y), 0, 10), np.array([3.0]))
    assert abs(found.centre[0]) < 0.1 * np.sqrt(1 / 10)  # the tolerance


def test_no_mode_where_the_curvature_is_not_definite():
    # Two modes at -1 and 1: Newton's method starts at the minimum between them and cannot leave.
    model = ev.Model(
        prior={"m": dist.Normal(0, 10)},
        log_likelihood=lambda params, y: -((params["m"] ** 2 - 1) ** 2) + 0 * y,
    )
    y = np.zeros(100, np.float32)
    assert newton(model.bind(y), Window(jnp.asarray(y), 0, 100), np.zeros(1)) is None


def test_a_flat_posterior_has_no_mode():
    # Far out on the unconstrained scale, θ is constant to the last digit: the Hessian is zero.
    model = ev.Model(
        prior={"m": dist.Uniform(0, 10)},
        log_likelihood=lambda params, y: jnp.where(y < params["m"], -jnp.log(params["m"]), -jnp.inf),
    )
    y = np.array([0.3, 0.7], np.float32)
    bound, rows = model.bind(y), Window(jnp.asarray(y), 0, 2)
    assert all(newton(bound, rows, np.array([start])) is None for start in (2.0, 50.0, 80.0, 800.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 4])  # Newton's method met a zero Hessian
def test_the_edge_of_a_uniform_distribution_shown_by_two_rows(seed):
    def uniform(y):
        edge = numpyro.sample("edge", dist.Uniform(0, 10))
        numpyro.sample("y", dist.Uniform(0, edge), obs=y)

    found = ev.estimate(ev.Model.from_numpyro(uniform), {"y": np.array([0.3, 0.7])}, seed=seed)
    exact = np.log(0.1 * (1 / 0.7 - 1 / 10))  # ∫ 0.1 θ⁻² dθ from 0.7 to 10
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.1
