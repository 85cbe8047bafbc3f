"""Results for anesthetic and harmonic: the same means and evidences in their hands."""

import numpy as np
import pytest

import evidentia as ev
from evidentia.results import conversions


def test_births_give_the_numbers_of_live_points():
    """Ten live points, three replaced at a time: 10, 9, 8, 10, 9, 8, …, then down to 1."""
    deaths = np.arange(22.0)
    births = conversions.births_of(deaths, 10, 3)
    assert (births < deaths).all()
    live = [(births < death).sum() - (deaths < death).sum() for death in deaths]
    assert live == [10, 9, 8] * 4 + list(range(10, 0, -1))


def test_a_package_that_is_missing(linear, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(conversions, "import_module", missing)
    with pytest.raises(ev.ConfigurationError, match="needs the package anesthetic, .* pip install"):
        linear[2].to_anesthetic()
    with pytest.raises(ev.ConfigurationError, match="needs the package harmonic"):
        linear[2].to_harmonic()


@pytest.mark.bridges
@pytest.mark.filterwarnings("ignore")
def test_weighted_draws_for_anesthetic(linear):
    anesthetic = pytest.importorskip("anesthetic", reason="needs the extra anesthetic")
    weighted = linear[2].weighted
    found = linear[2].to_anesthetic()
    assert type(found) is anesthetic.Samples
    assert found["intercept"].mean() == pytest.approx(
        np.exp(weighted.log_weights) @ weighted["intercept"], rel=1e-5
    )
    np.testing.assert_allclose(found["logL"].to_numpy(), weighted.log_likelihood)


@pytest.mark.slow
@pytest.mark.bridges
@pytest.mark.filterwarnings("ignore")
def test_a_nested_run_for_anesthetic(linear):
    anesthetic = pytest.importorskip("anesthetic", reason="needs the extra anesthetic")
    model, data, _ = linear
    evidence = ev.estimate(model, data, method=ev.NestedSampling(num_particles=128))
    found = evidence.to_anesthetic()
    assert type(found) is anesthetic.NestedSamples
    assert found.nlive.iloc[0] == 128 and len(found) == evidence.num_particles
    # The two estimates use the same points; the quadrature and the means of log X differ.
    assert float(found.logZ()) == pytest.approx(evidence.log_evidence, abs=0.3 * evidence.standard_error)


@pytest.mark.filterwarnings("ignore")
def test_chains_for_harmonic(linear):
    pytest.importorskip("harmonic", reason="harmonic is not installed")
    evidence = linear[2]
    chains = evidence.to_harmonic()
    assert (chains.nchains, chains.ndim, chains.nsamples) == (16, 2, 2048)
    mean = np.exp(evidence.weighted.log_weights) @ evidence.weighted["intercept"]
    assert chains.samples[:, 0].mean() == pytest.approx(mean, abs=0.02)
    weighted = evidence.weighted
    place = int(np.argmin(np.abs(weighted.samples - chains.samples[5]).sum(1)))
    assert chains.ln_posterior[5] == pytest.approx(
        weighted.log_likelihood[place] + weighted.log_prior[place], rel=1e-5
    )
