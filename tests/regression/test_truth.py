"""The evidence of each family by importance sampling with its documented priors, in float64."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.stats
from scipy import optimize, special

import evidentia as ev

stats: Any = scipy.stats  # whose types are incomplete
ROWS, DRAWS = 60, 100_000
GENERATOR = np.random.default_rng(5)
X = 20 + 3 * GENERATOR.standard_normal(ROWS)
Z = (X - X.mean()) / X.std()
ETA = 0.3 + 0.8 * Z


def importance_sampled(log_joint, size):
    """log ∫ exp(log_joint(z)) dz by draws from a Student-t at the mode, and its standard error."""

    def negative(z):
        value = -log_joint(z[None])[0]
        return value if np.isfinite(value) else 1e10

    mode = optimize.minimize(
        negative, np.zeros(size), method="Nelder-Mead", options={"maxiter": 20_000, "fatol": 1e-9}
    ).x
    steps = 1e-3 * np.eye(size)
    hessian = np.array(
        [
            [
                (
                    negative(mode + a + b)
                    - negative(mode + a - b)
                    - negative(mode - a + b)
                    + negative(mode - a - b)
                )
                / 4e-6
                for a in steps
            ]
            for b in steps
        ]
    )
    proposal = stats.multivariate_t(mode, np.linalg.inv(hessian), df=5, seed=1)
    z = proposal.rvs(DRAWS).reshape(DRAWS, size)
    log_weights = log_joint(z) - proposal.logpdf(z)
    log_mean = float(np.asarray(special.logsumexp(log_weights))) - math.log(DRAWS)
    return log_mean, np.exp(log_weights - log_mean).std() / math.sqrt(DRAWS)


def normal(z, width=2.5):
    return stats.norm(0, width).logpdf(z)


def exponential(log_value, rate=1.0):
    """log density of log v where v ~ Exponential(rate)."""
    return math.log(rate) - rate * np.exp(log_value) + log_value


def with_line(log_likelihood, location=0.0, unit=1.0, extra=None):
    """The log joint density of intercept, effect and one more parameter, in units of the table."""

    def log_joint(z):
        eta = location + unit * (z[:, :1] + z[:, 1:2] * Z)
        more = () if extra is None else (np.exp(z[:, 2:]),)
        prior = normal(z[:, 0]) + normal(z[:, 1]) + (0 if extra is None else extra(z[:, 2]))
        return prior + log_likelihood(eta, *more).sum(axis=1)

    return log_joint


class Case(NamedTuple):
    """A response, the log joint density, the number of parameters, arguments of Regression."""

    y: np.ndarray
    log_joint: Callable[[np.ndarray], np.ndarray]
    size: int
    arguments: Mapping[str, Any] = MappingProxyType({})


def gaussian(generator):
    y = 1000 + 50 * (ETA + 0.5 * generator.standard_normal(ROWS))
    unit = y.std()

    def likelihood(eta, scale):
        return stats.norm(eta, scale * unit).logpdf(y)

    return Case(y, with_line(likelihood, y.mean(), unit, exponential), 3, {"prior": "normal"})


def student_t(generator):
    y = 1000 + 50 * (ETA + 0.5 * generator.standard_t(4, ROWS))
    unit = y.std()

    def log_joint(z):
        eta, nu = y.mean() + unit * (z[:, :1] + z[:, 1:2] * Z), np.exp(z[:, 3])
        prior = normal(z[:, 0]) + normal(z[:, 1]) + exponential(z[:, 2])
        prior = prior + stats.gamma(2, scale=10).logpdf(nu) + z[:, 3]
        return prior + stats.t(nu[:, None], eta, unit * np.exp(z[:, 2:3])).logpdf(y).sum(axis=1)

    return Case(y, log_joint, 4)


def bernoulli(generator, link="logit", share=special.expit):
    y = generator.random(ROWS) < special.expit(ETA)
    return Case(y, with_line(lambda eta: np.log(share(np.where(y, eta, -eta)))), 2, {"link": link})


def probit(generator):
    return bernoulli(generator, "probit", stats.norm.cdf)


def binomial(generator):
    y = generator.binomial(12, special.expit(ETA))
    return Case(y, with_line(lambda eta: stats.binom(12, special.expit(eta)).logpmf(y)), 2)


def poisson(generator):
    y = generator.poisson(np.exp(ETA))
    return Case(y, with_line(lambda eta: stats.poisson(np.exp(eta)).logpmf(y), math.log(y.mean())), 2)


def negative_binomial(generator):
    y = generator.poisson(np.exp(ETA) * generator.gamma(2, 0.5, ROWS))

    def likelihood(eta, dispersion):
        return stats.nbinom(1 / dispersion, 1 / (1 + dispersion * np.exp(eta))).logpmf(y)

    return Case(y, with_line(likelihood, math.log(y.mean()), extra=exponential), 3)


def gamma(generator):
    y = 1e4 * generator.gamma(3, np.exp(ETA) / 3)

    def likelihood(eta, dispersion):
        return stats.gamma(1 / dispersion, scale=np.exp(eta) * dispersion).logpdf(y)

    return Case(y, with_line(likelihood, math.log(y.mean()), extra=exponential), 3)


def beta(generator):
    share = special.expit(ETA)
    y = generator.beta(5 * share, 5 * (1 - share))

    def likelihood(eta, dispersion):
        return stats.beta(special.expit(eta) / dispersion, special.expit(-eta) / dispersion).logpdf(y)

    return Case(y, with_line(likelihood, extra=exponential), 3)


def three_levels(generator):
    return np.digitize(ETA + special.logit(generator.random(ROWS)), [-0.5, 1.0])


def categorical(generator):
    y = three_levels(generator)

    def log_joint(z):
        predictors = (z[:, [k]] + z[:, [k + 2]] * Z for k in (0, 1))
        logits = np.stack([np.zeros((len(z), ROWS)), *predictors], axis=2)
        return normal(z).sum(axis=1) + special.log_softmax(logits, axis=2)[:, np.arange(ROWS), y].sum(axis=1)

    return Case(np.array(["low", "mid", "top"])[y], log_joint, 4)


def ordinal(generator):
    y = three_levels(generator)

    def log_joint(z):
        log_shares = special.log_softmax(np.column_stack([np.zeros(len(z)), z[:, 1:]]), axis=1)
        cuts = special.logit(np.cumsum(np.exp(log_shares), axis=1)[:, :-1])
        ends = np.column_stack([np.full(len(z), -np.inf), cuts, np.full(len(z), np.inf)])
        eta = z[:, :1] * Z
        rows = special.expit(ends[:, y + 1] - eta) - special.expit(ends[:, y] - eta)
        # Dirichlet(1, 1, 1) has the density 2; the softmax's Jacobian is the product of the shares
        return normal(z[:, 0]) + math.log(2) + log_shares.sum(axis=1) + np.log(rows).sum(axis=1)

    return Case(y, log_joint, 3)


QUICK = probit, negative_binomial, ordinal
SLOW = gaussian, student_t, bernoulli, binomial, poisson, gamma, beta, categorical
CASES = [*QUICK, *(pytest.param(one, marks=pytest.mark.reference) for one in SLOW)]


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES)
def test_the_evidence_of_a_family_is_that_of_importance_sampling(make):
    case = make(np.random.default_rng(7))
    exact, error = importance_sampled(case.log_joint, case.size)
    assert error < 0.01
    table = pd.DataFrame({"y": case.y, "x": X, "n": 12})
    name = "bernoulli" if make is probit else make.__name__.replace("_", "-")
    formula = "y | n ~ x" if name == "binomial" else "y ~ x"
    found = ev.estimate(ev.Regression(formula, family=name, **case.arguments), table)
    assert abs(found.log_evidence - exact) < 3 * math.hypot(found.standard_error, error), (
        found,
        exact,
        error,
    )
    assert found.standard_error < 0.05


@pytest.mark.reference
def test_priors_are_replaced_in_the_units_of_the_table():
    """With a known scale and normal priors, y is normal."""
    y = 2.0 + 0.1 * X + 0.3 * np.random.default_rng(3).standard_normal(ROWS)
    priors = {
        "Intercept": dist.Normal(4.0, 2.0),
        "x": dist.Normal(0.2, 0.1),
        "scale": dist.Uniform(0.299, 0.301),
    }
    found = ev.estimate(ev.Regression("y ~ x", prior="normal", priors=priors), {"y": y, "x": X})
    centred = X - X.mean()
    covariance = 0.3**2 * np.eye(ROWS) + 4.0 + 0.01 * np.outer(centred, centred)
    exact = stats.multivariate_normal(4.0 + 0.2 * centred, covariance).logpdf(y)
    assert abs(found.log_evidence - exact) < 3 * found.standard_error + 0.02  # the scale is not quite 0.3
