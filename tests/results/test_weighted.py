"""Draws of equal weights, the weighted ones, and densities at them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import evidentia as ev
from tests.evidence_factory import make_evidence


def test_posterior_draws_average_to_the_weighted_mean(linear):
    _, _, evidence = linear
    weighted = evidence.weighted
    assert evidence.ess < 1000 < evidence.num_particles == len(evidence.posterior["weights"])
    for name, values in weighted.items():
        mean = np.tensordot(np.exp(weighted.log_weights), values, 1)
        error = 4 * values.std(0) / np.sqrt(evidence.num_particles)
        assert (np.abs(evidence.posterior[name].mean(0) - mean) < error).all()


def test_each_particle_occurs_in_proportion_to_its_weight():
    evidence = make_evidence(num_particles=500)
    places = {value: place for place, value in enumerate(evidence.weighted["intercept"].tolist())}
    drawn = [places[value] for value in evidence.draws(5000, seed=1)["intercept"].tolist()]
    expected = 5000 * np.exp(evidence.weighted.log_weights)
    assert (np.abs(np.bincount(drawn, minlength=500) - expected) < 1 + 1e-9).all()
    assert drawn != sorted(drawn)


def test_draws_depend_on_the_seed_alone():
    evidence = make_evidence(seed=4)
    again = make_evidence(seed=4)
    np.testing.assert_array_equal(evidence.posterior["weights"], again.posterior["weights"])
    assert evidence.posterior is evidence.posterior
    one, other = evidence.draws(7), evidence.draws(7, seed=5)
    assert one["covariance"].shape == (7, 2, 2) and not np.array_equal(one["weights"], other["weights"])
    even = make_evidence(equal_weights=True)
    np.testing.assert_array_equal(even.posterior["weights"], even.weighted["weights"])


@pytest.mark.parametrize(
    ("arguments", "message"), [((0,), "n must be .*; got 0"), ((5, -1), "seed .*; got -1")]
)
def test_draws_that_cannot_be(arguments, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        make_evidence().draws(*arguments)


def test_densities_at_the_draws(linear):
    """Against SciPy, in float64."""
    _, data, evidence = linear
    weighted = evidence.weighted
    slope, intercept = weighted["weights"][:, 0].astype(float), weighted["intercept"].astype(float)
    mean = intercept[:, None] + slope[:, None] * data["x"][:, 0]
    np.testing.assert_allclose(weighted.log_likelihood, norm.logpdf(data["y"], mean).sum(1), rtol=1e-5)
    np.testing.assert_allclose(weighted.log_prior, norm.logpdf(slope) + norm.logpdf(intercept), rtol=1e-5)
    # Weights of draws from the prior are proportional to the likelihood.
    ratio = weighted.log_weights - weighted.log_likelihood
    assert np.ptp(ratio) < 1e-3


def test_names_of_nested_samplers(linear):
    _, _, evidence = linear
    weighted = evidence.weighted
    assert (evidence.logz, evidence.logzerr) == (evidence.log_evidence, evidence.standard_error)
    assert weighted.columns == ["intercept", "weights[0]"] and weighted.samples.shape == (2048, 2)
    np.testing.assert_array_equal(weighted.samples[:, 1], weighted["weights"][:, 0])
    assert weighted.logwt is weighted.log_weights and weighted.logl is weighted.log_likelihood
    assert repr(weighted).startswith("Weighted(2,048 particles, effective ")
    with pytest.raises(AttributeError):
        evidence.logz = 1.0


def test_files_and_pickles_keep_densities_that_were_asked_for(linear, tmp_path):
    model, data, _ = linear
    fresh = ev.estimate(model, data, method=ev.PriorSampling(num_particles=2048), seed=3)
    expected = fresh.weighted.log_prior
    fresh.save(tmp_path / "result")
    for other in (ev.load(tmp_path / "result"), pickle.loads(pickle.dumps(fresh))):
        np.testing.assert_array_equal(other.weighted.log_prior, expected)
        with pytest.raises(
            ev.ConfigurationError, match="log_likelihood needs the model and its data in memory"
        ):
            other.weighted.logl  # noqa: B018


@pytest.mark.slow
def test_densities_of_a_stream_need_its_rows():
    model = ev.models.linear_regression(num_features=1)
    data, _ = model.simulate(30, 0)
    online = ev.Online(model)
    online.update(data)
    evidence = online.evidence()
    assert len(evidence.weighted.log_prior) == evidence.num_particles
    with pytest.raises(ev.ConfigurationError, match="needs the data in memory; got those of a stream"):
        evidence.weighted.log_likelihood  # noqa: B018


@pytest.mark.slow
def test_log_likelihood_of_a_formula_is_in_the_units_of_the_table():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, 40)
    table = pd.DataFrame({"x": x, "y": 1 + 5 * x + rng.normal(0, 3, 40)})
    weighted = ev.estimate(ev.Regression("y ~ x", prior="normal"), table).weighted
    mean = weighted["Intercept"][:, None] + weighted["x"][:, None] * x
    expected = norm.logpdf(table["y"].to_numpy(), mean, weighted["scale"][:, None]).sum(1)
    np.testing.assert_allclose(weighted.log_likelihood, expected, atol=1e-3)


def test_a_fleet_has_the_same_names():
    model = ev.models.linear_regression(num_features=1)
    data, _ = model.simulate(30, 0)
    (record,) = ev.estimate_many({"linear": model}, [data])
    found = record.evidences["linear"]
    assert found.weighted.is_even and found.draws(7)["weights"].shape == (7, 1)
    np.testing.assert_array_equal(found.weighted["weights"], found.posterior["weights"])
