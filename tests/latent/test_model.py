"""Models from NumPyro, and error messages for models and settings that cannot be used."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

from evidentia.errors import ConfigurationError, EstimationError, ModelError
from evidentia.latent import IPLA, JALAEM, PGD, SFLA, LatentModel, MomentumPGD
from tests.latent.gaussian import MODEL, THETA0, Y


def groups(y):
    scale = numpyro.param("scale", 1.0, constraint=dist.constraints.positive)
    centre = numpyro.sample("centre", dist.Normal(0.0, 5.0))
    effect = numpyro.sample("effect", dist.Normal(centre, scale).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(effect, 1.0).to_event(1), obs=y)


@pytest.mark.reference
def test_a_numpyro_function_with_named_parameters_ends_at_the_exact_maximiser():
    """y ~ N(centre, scale² + 1), so the maximiser is the mean of y, and its variance minus one.

    Priors of parameters are ignored.
    """
    y = np.random.default_rng(2).normal(1.0, 2.0, 30).astype(np.float32)
    model = LatentModel.from_numpyro(groups, ["scale", "centre"])
    method = JALAEM(num_particles=200, step_size=0.03, optimizer=optax.adam(0.008))
    fit = method.fit(model, {"scale": 1.0, "centre": 0.0}, data={"y": y}, num_steps=400)
    settled = {name: values[200:].mean() for name, values in fit.trajectory.theta.items()}
    # θ given 30 rows has standard deviations of 0.4 and 0.3; the fit ends far closer than that.
    assert settled["centre"] == pytest.approx(y.mean(), abs=0.1)
    assert settled["scale"] == pytest.approx(np.sqrt(y.var() - 1), abs=0.1)
    variances = fit.trajectory.theta["scale"].astype(float) ** 2 + 1
    squares = (y - fit.trajectory.theta["centre"][:, None]) ** 2
    exact = -0.5 * (squares.sum(1) / variances + 30 * np.log(2 * np.pi * variances))
    # Over six seeds the largest error was 0.1 to 0.43; with steps of θ four times as long it is 2.
    assert np.abs(fit.trajectory.log_evidence - exact).max() < 1.0 and fit.trajectory.ess.min() > 0.3
    assert fit.particles["effect"].shape == (200, 30)


def test_constrained_values_go_in_and_come_out():
    model = LatentModel.from_numpyro(groups, ["scale", "centre"])
    data = {"y": jnp.zeros(3)}
    theta, x = {"scale": 2.0, "centre": 0.5}, {"effect": jnp.array([1.0, 2.0, 3.0])}
    free = model.unconstrain(theta, x, data)
    assert float(free[0]["scale"]) == pytest.approx(np.log(2.0))
    back = model.constrain(*free, data)
    assert float(back[0]["scale"]) == pytest.approx(2.0)
    expected = (
        dist.Normal(0.5, 2.0).log_prob(x["effect"]).sum() + dist.Normal(x["effect"], 1.0).log_prob(0.0).sum()
    )
    assert float(model.log_joint(*free, data)) == pytest.approx(float(expected), rel=1e-5)
    prior = dist.Normal(0.5, 2.0).log_prob(x["effect"]).sum()
    assert model.log_prior is not None
    assert float(model.log_prior(*free, data)) == pytest.approx(float(prior), rel=1e-5)


@pytest.mark.slow
def test_mini_batches_of_a_numpyro_function():
    """If all rows are equal, every mini-batch gives the whole joint density."""

    def level(y):
        x = numpyro.sample("x", dist.Normal(numpyro.param("theta", 0.0), 1.0))
        numpyro.sample("y", dist.Normal(x, 1.0).expand([len(y)]).to_event(1), obs=y)

    model, data = LatentModel.from_numpyro(level, ["theta"]), {"y": np.full(50, 2.0, np.float32)}
    whole, batched = (
        PGD(num_particles=20, batch_size=size).fit(model, {"theta": 0.0}, data=data, num_steps=20)
        for size in (None, 5)
    )
    np.testing.assert_allclose(batched.trajectory.theta["theta"], whole.trajectory.theta["theta"], rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LatentModel(3), "log_joint must be a function; got 3"),
        (lambda: LatentModel(lambda theta, x: 0.0, log_prior=1), "log_prior must be a function; got 1"),
        (
            lambda: LatentModel.from_numpyro("f", ["a"]),
            "function must be a function with numpyro.sample statements",
        ),
        (lambda: LatentModel.from_numpyro(groups, "scale"), "parameters must be one or more names"),
        (lambda: PGD(step_size=0), "step_size must be positive; got 0"),
        (lambda: PGD(num_particles=0), "num_particles must be an integer of at least 1"),
        (lambda: PGD(optimizer=0.1), r"optimizer must be an optax transformation such as .* got 0.1"),
        (lambda: PGD(bounds=3.0), r"bounds must be a pair \(lower, upper\); got 3.0"),
        (lambda: PGD(tolerance=-1.0), "tolerance must be positive, or None; got -1.0"),
        (lambda: PGD(batch_size=0), "batch_size must be an integer of at least 1; got 0"),
        (lambda: JALAEM(ess_threshold=2.0), "ess_threshold is a fraction .* got 2.0"),
        (
            lambda: JALAEM(target_ess=1.0),
            "target_ess is a fraction of the particles between 0 and 1; got 1.0",
        ),
        (lambda: IPLA(optimizer=optax.adam(0.1)), "plain gradient steps; give theta_step_size"),
        (lambda: SFLA(time_scale=0.0), "time_scale must be positive; got 0.0"),
        (lambda: MomentumPGD(friction=0.0), "friction must be positive; got 0.0"),
    ],
)
def test_what_cannot_be_configured_is_named(make, message):
    with pytest.raises((ModelError, ConfigurationError), match=message):
        make()


def poisson_sites(y):
    numpyro.sample("count", dist.Poisson(numpyro.param("rate", 1.0)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fit", "error", "message"),
    [
        (lambda: PGD().fit(3, 0.0, num_steps=1), ModelError, "latent_model must be .* got int"),  # type: ignore[arg-type]
        (
            lambda: PGD().fit(MODEL, 0.0, data=Y, num_steps=0),
            ConfigurationError,
            "num_steps must be an integer",
        ),
        (
            lambda: PGD().fit(LatentModel(lambda theta, x: -(x**2)), 0.0, num_steps=1),
            ConfigurationError,
            "particles0 must be given",
        ),
        (
            lambda: PGD().fit(MODEL, 0.0, particles0=np.zeros((5, 4)), data=Y, num_steps=1),
            ModelError,
            "log_joint cannot be computed at theta0 .* shapes",
        ),
        (
            lambda: PGD().fit(
                LatentModel(lambda theta, x: x - theta), 0.0, particles0=np.zeros((5, 4)), num_steps=1
            ),
            ModelError,
            r"must return one number, of shape \(\); got .*4",
        ),
        (
            lambda: PGD().fit(
                LatentModel(lambda theta, x: jnp.log(x)), 0.0, particles0=-np.ones(5), num_steps=1
            ),
            EstimationError,
            "not finite at 5 of 5 particles at the start",
        ),
        (
            lambda: PGD(step_size=3.0).fit(MODEL, THETA0, data=Y, num_steps=400),
            EstimationError,
            "theta left the finite range at step [0-9]+. Take a smaller step_size .it is 3",
        ),
        (
            lambda: JALAEM(step_size=30.0, optimizer=optax.sgd(1e-9)).fit(
                MODEL, THETA0, data=Y, num_steps=60
            ),
            EstimationError,
            "not finite at any particle. Take a smaller step_size",
        ),
        (
            lambda: PGD(batch_size=2).fit(
                LatentModel(lambda theta, x: -(x**2)), 0.0, particles0=np.ones(3), num_steps=1
            ),
            ConfigurationError,
            "batch_size needs data, and a model with log_prior",
        ),
        (
            lambda: PGD(batch_size=2).fit(MODEL, 0.0, data={"y": Y, "scale": 1.0}, num_steps=1),
            ConfigurationError,
            r"batch_size needs data with observations on the leading axis; shapes are \(\), \(6,\)",
        ),
        (
            lambda: PGD(batch_size=2).fit(
                LatentModel(MODEL.log_joint, lambda theta, x: 0.0, MODEL.sample_prior),
                0.0,
                data=Y,
                num_steps=1,
            ),
            ModelError,
            "takes 2 positional arguments but 3 were given",
        ),
        (
            lambda: PGD().fit(
                LatentModel.from_numpyro(groups, ["scale"]), {"rate": 1.0}, data={"y": Y}, num_steps=1
            ),
            ModelError,
            "theta0 must be a dictionary with the parameters scale",
        ),
        (
            lambda: PGD().fit(
                LatentModel.from_numpyro(poisson_sites, ["rate"]), {"rate": 1.0}, data={"y": Y}, num_steps=1
            ),
            ModelError,
            "site 'count' must be continuous",
        ),
        (
            lambda: PGD().fit(
                LatentModel.from_numpyro(groups, ["shape"]), {"shape": 1.0}, data={"y": Y}, num_steps=1
            ),
            ModelError,
            "has no site shape; it has scale, centre, effect, y",
        ),
    ],
)
def test_what_cannot_be_fitted_is_named(fit, error, message):
    with pytest.raises(error, match=message):
        fit()


def test_a_posterior_that_importance_sampling_cannot_begin_with_is_said():
    """Two narrow crossing ridges are as different from a Student t as possible."""

    def log_joint(theta, x, data=None):
        return -0.5 * (1e4 * (x[0] * x[1]) ** 2 + jnp.sum(x**2) / 100) - 0.5 * theta**2

    model = LatentModel(log_joint, sample_prior=lambda key, theta, data: jax.random.normal(key, (2,)))
    with pytest.raises(EstimationError, match="(effective sample size|no mode).* Give particles0"):
        JALAEM().fit(model, 0.0, num_steps=1)
