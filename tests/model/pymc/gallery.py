"""Models written as those of PyMC's gallery are, on simulated data."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def linear_regression():
    """GLM: linear regression, with arrays in the formula."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 200)
    y = 1 + 2 * x + rng.normal(scale=0.5, size=200)
    with pm.Model() as model:
        sigma = pm.HalfCauchy("sigma", beta=10)
        intercept = pm.Normal("Intercept", 0, sigma=20)
        slope = pm.Normal("slope", 0, sigma=20)
        pm.Normal("y", mu=intercept + slope * x, sigma=sigma, observed=y)
    return model


def robust_regression():
    """GLM: robust regression, with data containers and dimensions."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, 120)
    y = 1 + 2 * x + 0.3 * rng.standard_t(3, size=120)
    with pm.Model(coords={"observation": np.arange(120)}) as model:
        xdata = pm.Data("x", x, dims="observation")
        intercept = pm.Normal("intercept", mu=0, sigma=1)
        slope = pm.Normal("slope", mu=0, sigma=1)
        sigma = pm.HalfCauchy("sigma", beta=10)
        nu = pm.Gamma("nu", alpha=2, beta=0.1)
        mu = pm.Deterministic("mu", intercept + slope * xdata, dims="observation")
        pm.StudentT("y", mu=mu, sigma=sigma, nu=nu, observed=y, dims="observation")
    return model


def logistic_regression():
    """GLM: model selection and binomial regression, with a matrix of predictors."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3))
    y = rng.random(300) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.0]))
    with pm.Model(coords={"predictor": ["a", "b", "c"]}) as model:
        features = pm.Data("features", x)
        labels = pm.Data("labels", y.astype(int))
        beta = pm.Normal("beta", 0, 1, dims="predictor")
        alpha = pm.Normal("alpha", 0, 1)
        p = pm.Deterministic("p", pm.math.sigmoid(alpha + pm.math.dot(features, beta)))
        pm.Bernoulli("y", p=p, observed=labels)
    return model


def poisson_regression():
    """GLM: Poisson regression, with an offset."""
    rng = np.random.default_rng(3)
    treated, exposure = rng.integers(0, 2, 150), rng.uniform(1, 4, 150)
    y = rng.poisson(exposure * np.exp(0.5 - 0.7 * treated))
    with pm.Model() as model:
        b0 = pm.Normal("b0", 0, 2)
        b1 = pm.Normal("b1", 0, 2)
        theta = pm.math.log(exposure) + b0 + b1 * treated
        pm.Poisson("y", mu=pm.math.exp(theta), observed=y)
    return model


def radon():
    """A primer on Bayesian methods for multilevel modeling: varying intercepts, non-centred."""
    rng = np.random.default_rng(4)
    county = np.sort(rng.integers(0, 12, 250))
    floor = rng.integers(0, 2, 250).astype(float)
    log_radon = 1.4 + 0.3 * rng.normal(size=12)[county] - 0.7 * floor + 0.7 * rng.normal(size=250)
    coords = {"county": np.arange(12), "obs_id": np.arange(250)}
    with pm.Model(coords=coords) as model:
        floor_idx = pm.Data("floor_idx", floor, dims="obs_id")
        county_idx = pm.Data("county_idx", county, dims="obs_id")
        mu_a = pm.Normal("mu_a", mu=0.0, sigma=10.0)
        sigma_a = pm.Exponential("sigma_a", 1)
        z_a = pm.Normal("z_a", mu=0, sigma=1, dims="county")
        alpha = pm.Deterministic("alpha", mu_a + z_a * sigma_a, dims="county")
        beta = pm.Normal("beta", mu=0, sigma=10)
        sigma_y = pm.Exponential("sigma_y", 1)
        y_hat = alpha[county_idx] + beta * floor_idx
        pm.Normal("y_like", mu=y_hat, sigma=sigma_y, observed=log_radon, dims="obs_id")
    return model


def eight_schools():
    """Diagnosing biased inference with divergences: the non-centred eight schools."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu = pm.Normal("mu", mu=0, sigma=5)
        tau = pm.HalfCauchy("tau", beta=5)
        theta_tilde = pm.Normal("theta_t", mu=0, sigma=1, shape=8)
        theta = pm.Deterministic("theta", mu + tau * theta_tilde)
        pm.Normal("obs", mu=theta, sigma=sigma, observed=y)
    return model


def gaussian_mixture():
    """Gaussian mixture model: ordered means and Dirichlet weights."""
    rng = np.random.default_rng(5)
    x = rng.normal(np.array([-4.0, 0.0, 3.0])[rng.integers(0, 3, 200)], 0.8)
    with pm.Model(coords={"cluster": range(3)}) as model:
        mu = pm.Normal(
            "mu",
            mu=0,
            sigma=5,
            transform=pm.distributions.transforms.ordered,
            initval=[-4, 0, 4],
            dims="cluster",
        )
        sigma = pm.HalfNormal("sigma", sigma=1, dims="cluster")
        weights = pm.Dirichlet("w", np.ones(3), dims="cluster")
        pm.NormalMixture("x", w=weights, mu=mu, sigma=sigma, observed=x)
    return model


def covariance():
    """LKJ Cholesky covariance priors for multivariate normal models."""
    rng = np.random.default_rng(6)
    data = rng.multivariate_normal([1.0, -2.0], [[1.0, -0.5], [-0.5, 0.8]], size=100)
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2))
        mu = pm.Normal("mu", 0.0, sigma=1.5, shape=2)
        pm.MvNormal("obs", mu, chol=chol, observed=data)
    return model


def censored():
    """Censored data models: normal measurements cut off at an upper limit."""
    rng = np.random.default_rng(7)
    data = np.minimum(rng.normal(13.0, 5.0, size=150), 16.0)
    with pm.Model() as model:
        mu = pm.Normal("mu", mu=12.0, sigma=5.0)
        sigma = pm.HalfNormal("sigma", sigma=4.0)
        latent = pm.Normal.dist(mu=mu, sigma=sigma)
        pm.Censored("obs", latent, lower=None, upper=16.0, observed=data)
    return model


def zero_inflated():
    """Counts with more zeros than a Poisson distribution has."""
    rng = np.random.default_rng(8)
    counts = rng.poisson(3.0, size=200) * (rng.random(200) < 0.7)
    with pm.Model() as model:
        psi = pm.Beta("psi", 2, 2)
        mu = pm.Gamma("mu", 2, 0.5)
        pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=counts)
    return model


def ordinal():
    """Regression models with ordered categories."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=250)
    y = np.digitize(x + rng.logistic(size=250), [-1.0, 1.0])
    with pm.Model() as model:
        cutpoints = pm.Normal(
            "cutpoints", 0, 3, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1]
        )
        slope = pm.Normal("slope", 0, 2)
        pm.OrderedLogistic("y", eta=slope * x, cutpoints=cutpoints, observed=y)
    return model


def best():
    """Bayesian estimation supersedes the t-test: two groups of different sizes."""
    rng = np.random.default_rng(10)
    drug, placebo = rng.normal(101.5, 3.0, 47), rng.normal(100.5, 2.0, 42)
    with pm.Model() as model:
        means = [pm.Normal(f"group{i}_mean", mu=101.0, sigma=5.0) for i in (1, 2)]
        stds = [pm.Uniform(f"group{i}_std", lower=1, upper=10) for i in (1, 2)]
        nu = pm.Deterministic("nu", pm.Exponential("nu_minus_one", 1 / 29.0) + 1)
        pm.StudentT("drug", nu=nu, mu=means[0], lam=stds[0] ** -2, observed=drug)
        pm.StudentT("placebo", nu=nu, mu=means[1], lam=stds[1] ** -2, observed=placebo)
    return model


def autoregression():
    """Analysis of an AR(1) model."""
    rng = np.random.default_rng(11)
    y = np.zeros(100)
    for t in range(1, 100):
        y[t] = 0.95 * y[t - 1] + rng.normal()
    with pm.Model() as model:
        coefficients = pm.Normal("theta", 0.0, 1.0, shape=2)
        scale = pm.HalfNormal("sigma", 2.0)
        start = pm.Normal.dist(0, 10)
        pm.AR("likelihood", coefficients, sigma=scale, constant=True, init_dist=start, observed=y)
    return model


def gaussian_process():
    """Marginal likelihood implementation of Gaussian processes."""
    rng = np.random.default_rng(12)
    x = np.linspace(0, 10, 40)[:, None]
    y = np.sin(x.ravel()) + 0.2 * rng.normal(size=40)
    with pm.Model() as model:
        length = pm.Gamma("ell", alpha=2, beta=1)
        amplitude = pm.HalfCauchy("eta", beta=5)
        process = pm.gp.Marginal(cov_func=amplitude**2 * pm.gp.cov.Matern52(1, length))
        sigma = pm.HalfCauchy("sigma", beta=5)
        process.marginal_likelihood("y", X=x, y=y, sigma=sigma)
    return model


def stochastic_volatility():
    """Stochastic volatility: a Gaussian random walk of the log volatility of a few returns."""
    rng = np.random.default_rng(13)
    returns = np.exp(np.cumsum(0.1 * rng.normal(size=40)) - 1) * rng.normal(size=40)
    with pm.Model() as model:
        step_size = pm.Exponential("step_size", 10)
        start = pm.Normal.dist(0, 1)
        volatility = pm.GaussianRandomWalk("volatility", sigma=step_size, init_dist=start, shape=40)
        nu = pm.Exponential("nu", 0.1)
        pm.StudentT("returns", nu=nu, lam=pt.exp(-2 * volatility), observed=returns)
    return model


def potential():
    """A likelihood written as a Potential, with a value for each row."""
    rng = np.random.default_rng(14)
    times, seen = rng.exponential(2.0, 120), rng.random(120) < 0.8
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 2)
        pm.Exponential("seen", rate, observed=times[seen])
        pm.Potential("censored", -rate * times[~seen].sum())
    return model


GALLERY = [
    linear_regression, robust_regression, logistic_regression, poisson_regression, radon, eight_schools,
    gaussian_mixture, covariance, censored, zero_inflated, ordinal, best, autoregression, gaussian_process,
    stochastic_volatility, potential,
]  # fmt: skip
