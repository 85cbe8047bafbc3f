"""The default method against exact evidences: conjugate models, by hand and in NumPyro.

Tolerances come from the reported standard errors alone. Over the seeds of one case, the errors in
units of their standard errors must average to less than 4 / √seeds, and none may exceed 4.5. Each
happens by chance once in 10⁴ cases, so the test detects both a bias and a standard error that is
too small.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import betaln, gammaln

import evidentia as ev
from tests.evidence.scores import scores

SEEDS = range(4)


@dataclass
class Case:
    explicit: ev.Model
    numpyro: ev.Model
    simulate: Any  # rng, n -> data
    exact: Any  # data -> log evidence


def linear_case():
    def program(x, y):
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        intercept = numpyro.sample("intercept", dist.Normal(0, 1))
        with numpyro.plate("observations", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ weights + intercept, 1.0), obs=y)

    model = ev.models.linear_regression(num_features=3)

    def simulate(rng, n):
        x = rng.normal(size=(n, 3)).astype(np.float32)
        return {"x": x, "y": (x @ [1.0, -2.0, 0.5] + rng.normal(size=n)).astype(np.float32)}

    return Case(model, ev.Model.from_numpyro(program), simulate, model.exact_log_evidence)


def beta_bernoulli_case():
    def program(y):
        p = numpyro.sample("p", dist.Beta(2.0, 1.0))
        with numpyro.plate("observations", y.shape[0]):
            numpyro.sample("y", dist.Bernoulli(p), obs=y)

    explicit = ev.Model(
        prior={"p": dist.Beta(2.0, 1.0)},
        log_likelihood=lambda params, batch: dist.Bernoulli(params["p"]).log_prob(batch["y"]),
    )

    def exact(data):
        ones, n = data["y"].sum(), len(data["y"])
        return betaln(2 + ones, 1 + n - ones) - betaln(2, 1)

    return Case(
        explicit, ev.Model.from_numpyro(program), lambda rng, n: {"y": rng.binomial(1, 0.2, size=n)}, exact
    )


def gamma_poisson_case():
    def program(y):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5))
        with numpyro.plate("observations", y.shape[0]):
            numpyro.sample("y", dist.Poisson(rate), obs=y)

    explicit = ev.Model(
        prior={"rate": dist.Gamma(2.0, 0.5)},
        log_likelihood=lambda params, batch: dist.Poisson(params["rate"]).log_prob(batch["y"]),
    )

    def exact(data):
        total, n = data["y"].sum(), len(data["y"])
        marginal = gammaln(2 + total) - gammaln(2) + 2 * np.log(0.5) - (2 + total) * np.log(0.5 + n)
        return marginal - gammaln(data["y"] + 1.0).sum()

    return Case(
        explicit, ev.Model.from_numpyro(program), lambda rng, n: {"y": rng.poisson(3.0, size=n)}, exact
    )


def normal_inverse_gamma_case():
    def program(y):
        variance = numpyro.sample("variance", dist.InverseGamma(3.0, 2.0))
        mean = numpyro.sample("mean", dist.Normal(0.0, 2.0 * jnp.sqrt(variance)))
        with numpyro.plate("observations", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean, jnp.sqrt(variance)), obs=y)

    # By hand, with the mean in units of the standard deviation, so that the priors are
    # independent.
    explicit = ev.Model(
        prior={"variance": dist.InverseGamma(3.0, 2.0), "scaled_mean": dist.Normal(0.0, 2.0)},
        log_likelihood=lambda params, batch: dist.Normal(
            params["scaled_mean"] * jnp.sqrt(params["variance"]), jnp.sqrt(params["variance"])
        ).log_prob(batch["y"]),
    )

    def exact(data):
        y = data["y"].astype(float)
        n, precision = len(y), 1 / 4 + len(y)
        rate = 2.0 + 0.5 * (np.sum(y**2) - np.sum(y) ** 2 / precision)
        shape = 3.0 + n / 2
        gammas = gammaln(shape) - gammaln(3.0) + 3.0 * np.log(2.0) - shape * np.log(rate)
        return gammas + 0.5 * np.log((1 / 4) / precision) - 0.5 * n * np.log(2 * np.pi)

    return Case(
        explicit,
        ev.Model.from_numpyro(program),
        lambda rng, n: {"y": rng.normal(1.5, 0.7, size=n).astype(np.float32)},
        exact,
    )


CASES = {
    "linear": linear_case(),
    "beta-bernoulli": beta_bernoulli_case(),
    "gamma-poisson": gamma_poisson_case(),
    "normal-inverse-gamma": normal_inverse_gamma_case(),
}


# Real parameters, one in an interval with counts as data, a scale; and a hierarchical prior in
# NumPyro (test_model checks that both forms have the same densities). All numbers of rows share
# compiled programs.
@pytest.mark.parametrize(
    ("name", "form", "sizes"),
    [
        ("linear", "explicit", (50, 20_000)),
        pytest.param("beta-bernoulli", "explicit", (50, 20_000), marks=pytest.mark.reference),
        pytest.param("normal-inverse-gamma", "explicit", (50, 20_000), marks=pytest.mark.reference),
        pytest.param("normal-inverse-gamma", "numpyro", (50, 2000), marks=pytest.mark.reference),
    ],
)
def test_estimates_agree_with_the_exact_evidence(name, form, sizes):
    data = CASES[name].simulate(np.random.default_rng(0), max(sizes))
    for num_rows in sizes:
        found = scores(ev.SGAIS(), CASES[name], SEEDS, data, num_rows, form)
        assert np.all(np.abs(found) < 4.5), (num_rows, found)
        assert abs(found.mean()) < 4 / np.sqrt(len(SEEDS)), (num_rows, found)
