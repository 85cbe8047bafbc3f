"""Discrete latent variables are summed out, or refused where that would be wrong."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import plate, sample
from scipy import stats

import evidentia as ev
from evidentia.errors import ModelError
from evidentia.posterior.units import bound_to

GENERATOR = np.random.default_rng(0)
Y = np.concatenate([GENERATOR.normal(-2, 1, 12), GENERATOR.normal(2, 1, 18)]).astype(np.float32)
DATA = {"y": Y}


def weights_and_means():
    return sample("weights", dist.Dirichlet(jnp.ones(3))), sample(
        "means", dist.Normal(0, 3).expand([3]).to_event(1)
    )


def with_labels(y):
    weights, means = weights_and_means()
    with plate("rows", len(y)):
        label = sample("label", dist.Categorical(weights))
        sample("y", dist.Normal(means[label], 1), obs=y)


def mixture(y):
    weights, means = weights_and_means()
    with plate("rows", len(y)):
        sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, 1)), obs=y)


def two_labels(y):
    mean = sample("mean", dist.Normal(0, 1))
    with plate("rows", len(y)):
        sign = sample("sign", dist.Bernoulli(0.4))
        shifts = sample("shifts", dist.Binomial(2, 0.3))
        sample("y", dist.Normal((2 * sign - 1) * mean + shifts, 1), obs=y)


def one_for_all(y):
    is_narrow = sample("is_narrow", dist.Bernoulli(0.3))
    mean = sample("mean", dist.Normal(0, 1))
    with plate("rows", len(y)):
        sample("y", dist.Normal(mean, jnp.where(is_narrow, 1.0, 2.0)), obs=y)


def both_kinds(y):
    is_narrow = sample("is_narrow", dist.Bernoulli(0.3))
    mean = sample("mean", dist.Normal(0, 1))
    with plate("rows", len(y)):
        sign = sample("sign", dist.Bernoulli(0.4))
        sample("y", dist.Normal((2 * sign - 1) * mean, jnp.where(is_narrow, 1.0, 2.0)), obs=y)


def at(function, params):
    """The log-likelihood of all data at constrained parameters."""
    found = bound_to(ev.Model.from_numpyro(function), DATA)
    position = found.model.unconstrain({name: jnp.asarray(value) for name, value in params.items()})
    return float(jnp.sum(found.model.log_likelihood(position, found.arrays)))


@pytest.mark.slow
def test_labels_have_the_likelihood_of_a_mixture():
    params = {"weights": [0.2, 0.3, 0.5], "means": [-2.0, 0.0, 2.5]}
    assert at(with_labels, params) == pytest.approx(at(mixture, params), rel=1e-6)


@pytest.mark.reference
def test_labels_have_the_evidence_of_a_mixture():
    one, other = (ev.estimate(ev.Model.from_numpyro(each), DATA) for each in (with_labels, mixture))
    assert abs(one.log_evidence - other.log_evidence) < 4 * np.hypot(one.standard_error, other.standard_error)
    assert set(one.posterior) == {"weights", "means"}
    assert one.diagnostics["log_copies"] == pytest.approx(np.log(6))


@pytest.mark.slow
def test_all_combinations_of_labels_in_a_row():
    expected = np.logaddexp.reduce(
        [
            stats.bernoulli.logpmf(sign, 0.4)
            + stats.binom.logpmf(shifts, 2, 0.3)
            + stats.norm.logpdf(Y, (2 * sign - 1) * 0.7 + shifts, 1)
            for sign in (0, 1)
            for shifts in (0, 1, 2)
        ]
    )
    assert at(two_labels, {"mean": 0.7}) == pytest.approx(expected.sum(), rel=1e-5)


@pytest.mark.slow
def test_one_value_for_all_rows():
    found = ev.estimate(ev.Model.from_numpyro(one_for_all), DATA)
    terms = [
        np.log(share) + stats.multivariate_normal(cov=scale**2 * np.eye(len(Y)) + 1).logpdf(Y)
        for share, scale in ((0.3, 1.0), (0.7, 2.0))
    ]
    assert abs(found.log_evidence - np.logaddexp(*terms)) < 4 * found.standard_error
    assert found.diagnostics["trajectory"].endswith(
        "site 'is_narrow' is discrete, with one value for all rows."
    )


@pytest.mark.slow
def test_values_of_rows_given_one_for_all():
    terms = [
        np.log(share)
        + np.logaddexp(
            np.log(0.4) + stats.norm.logpdf(Y, 0.7, scale), np.log(0.6) + stats.norm.logpdf(Y, -0.7, scale)
        ).sum()
        for share, scale in ((0.3, 1.0), (0.7, 2.0))
    ]
    assert at(both_kinds, {"mean": 0.7}) == pytest.approx(np.logaddexp(*terms), rel=1e-5)


def neighbours(y):
    mean = sample("mean", dist.Normal(0, 1))
    with plate("rows", len(y)):
        label = sample("label", dist.Bernoulli(0.5))
        sample("y", dist.Normal(mean + label + jnp.roll(label, 1), 1), obs=y)


def of_the_prior(y):
    label = sample("label", dist.Bernoulli(0.5))
    mean = sample("mean", dist.Normal(label, 1))
    with plate("rows", len(y)):
        sample("y", dist.Normal(mean, 1), obs=y)


def counts(y):
    mean = sample("mean", dist.Normal(0, 1))
    with plate("rows", len(y)):
        count = sample("count", dist.Poisson(2.0))
        sample("y", dist.Normal(mean + count, 1), obs=y)


def several(y):
    mean = sample("mean", dist.Normal(0, 1))
    with plate("rows", len(y)):
        labels = sample("labels", dist.Bernoulli(0.5).expand([3]).to_event(1))
        sample("y", dist.Normal(mean + labels.sum(-1), 1), obs=y)


def groups(y):
    mean = sample("mean", dist.Normal(0, 1))
    labels = sample("labels", dist.Bernoulli(0.5).expand([7]))
    with plate("rows", len(y)):
        sample("y", dist.Normal(mean + labels.sum(), 1), obs=y)


def too_many(y):
    mean = sample("mean", dist.Normal(0, 1))
    with plate("rows", len(y)):
        labels = [sample(f"label{index}", dist.Categorical(jnp.ones(11) / 11)) for index in range(3)]
        sample("y", dist.Normal(mean + sum(labels), 1), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            neighbours,
            r"'y' depends on the discrete latents \(label\) of other rows, .* as the forward algorithm does",
        ),
        (of_the_prior, r"the prior of 'mean' depends on a discrete latent \(label\)"),
        (counts, r"site 'count' is a discrete latent \(Poisson\) whose values cannot be listed"),
        (several, r"site 'labels' is a discrete latent \(Bernoulli\w*\) with several numbers per value"),
        (groups, r"site 'labels' is a discrete latent of shape \(7,\); .* Give each value a site of its own"),
        (too_many, r"'label0', 'label1', 'label2' have 1,331 combinations of values; at most 1,000"),
    ],
)
def test_what_cannot_be_summed_out_is_refused_by_name(function, message):
    with pytest.raises(ModelError, match=message):
        ev.estimate(ev.Model.from_numpyro(function), DATA)
