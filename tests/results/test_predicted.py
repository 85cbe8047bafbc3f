"""Draws of new observations."""

from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.model.predictive import of_numpyro
from evidentia.results.known_model import KnownModel
from evidentia.results.predicted import Predicted
from evidentia.results.predicting import of_model
from evidentia.results.weighted import Weighted
from tests.evidence_factory import make_evidence


def test_as_a_data_frame():
    draws = np.random.default_rng(0).normal([0.0, 5.0], [1.0, 2.0], (4000, 2))
    found = Predicted({"y": draws, "k": np.where(draws > 0, "high", "low"), "pair": np.zeros((7, 2, 3))})
    frame = found.to_pandas()
    np.testing.assert_allclose(frame["mean"], draws.mean(0))
    np.testing.assert_allclose(frame["high"], np.quantile(draws, 0.975, axis=0))
    np.testing.assert_allclose(found.to_pandas("k")["high"], (draws > 0).mean(0))
    assert list(found.to_pandas("pair").index)[:2] == [(0, 0), (0, 1)]
    assert repr(found).startswith("Predicted(y (4000, 2), k")


def test_a_built_in_model_predicts(linear):
    """The mean and the variance of the conjugate posterior predictive."""
    _, data, evidence = linear
    design = np.c_[np.ones(4), data["x"]].astype(float)
    covariance = np.linalg.inv(np.eye(2) + design.T @ design)
    new = np.array([1.0, 2.0])
    mean, variance = new @ covariance @ design.T @ data["y"], 1 + new @ covariance @ new
    found = evidence.predict({"x": np.full((500, 1), 2.0)}, seed=1)["y"]
    assert found.shape == (evidence.num_particles, 500)
    assert found.mean() == pytest.approx(mean, abs=4 * np.sqrt((variance - 1) / evidence.ess))
    assert found.var() == pytest.approx(variance, rel=0.1)
    again = evidence.predict({"x": np.full((500, 1), 2.0)}, seed=1)["y"]
    np.testing.assert_array_equal(found, again)
    assert evidence.predict({"x": np.ones((3, 1))}, n=7)["y"].shape == (7, 3)


def test_mixtures_and_classes_predict():
    shares, means = np.array([0.2, 0.8]), np.array([[-5.0], [5.0]])
    params = {"weights": shares[None], "means": means[None], "variances": np.ones((1, 2, 1))}
    drawn = ev.models.gaussian_mixture(2, 1).predict(params, {"y": np.zeros((4000, 1))}, 0)["y"]
    assert drawn.shape == (1, 4000, 1) and abs((drawn > 0).mean() - 0.8) < 4 * 0.4 / np.sqrt(4000)
    logits = np.log([0.1, 0.3, 0.6])
    params = {"weights": np.zeros((1, 2, 3)), "intercept": logits[None]}
    labels = ev.models.softmax_regression(2, 3).predict(params, {"x": np.ones((4000, 2))}, 0)["y"]
    np.testing.assert_allclose(np.bincount(labels[0]) / 4000, [0.1, 0.3, 0.6], atol=4 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize("given", [{}, {"y": np.zeros(2000, np.float32)}], ids=["no response", "a response"])
def test_a_numpyro_function_predicts(given):
    def line(x, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.deterministic("mean", slope * x)
        numpyro.sample("y", dist.Normal(slope * x, 0.5), obs=y)

    params = {"slope": np.array([1.0, 2.0], np.float32)}
    found = of_numpyro(line, params, {"x": np.full(2000, 3.0, np.float32), **given}, 0)
    assert list(found) == ["y"]
    np.testing.assert_allclose(found["y"].mean(1), [3.0, 6.0], atol=4 * 0.5 / np.sqrt(2000))
    np.testing.assert_allclose(found["y"].std(1), 0.5, rtol=0.1)


def test_a_function_that_needs_its_response():
    def line(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("a", dist.Normal()), 1).expand([len(y)]), obs=y)

    with pytest.raises(ev.ModelError, match="the model, called with y=None"):
        of_numpyro(line, {"a": np.zeros(3, np.float32)}, {}, 0)


def test_a_result_without_its_model_says_what_predicts():
    with pytest.raises(
        ev.ConfigurationError, match="'softmax regression' cannot predict: it has no model in memory"
    ):
        make_evidence().predict({})


def result_of(model, data=None):
    """A result of this session, with two draws of the slope."""
    draws = {"slope": np.array([1.0, 2.0], np.float32)}
    known = KnownModel(bound=None, draws=draws, model=model if data else None, data=data)
    weighted = Weighted(draws, np.full(2, -np.log(2)), model=known)
    return replace(make_evidence(), weighted=weighted, _predictor=of_model(model))


def regression(dose, resp=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(dose)):
        numpyro.sample("resp", dist.Normal(slope * dose, 0.5), obs=resp)


DOSES = {"dose": np.full(2000, 3.0, np.float32), "resp": np.zeros(2000, np.float32)}


def test_predictions_at_the_data_of_the_run():
    found = result_of(ev.Model.from_numpyro(regression), DOSES).predict()["resp"]
    np.testing.assert_allclose(np.sort(found.mean(1)), [3.0, 6.0], atol=4 * 0.5 / np.sqrt(2000))


@pytest.mark.parametrize(
    ("new_data", "error", "message"),
    [
        ({"dosis": [1.0]}, ev.ModelError, r"\(dose, resp=None\); it holds dosis: 'dosis' may mean 'dose'\.$"),
        ({"dose": [1.0, np.nan]}, ev.DataError, r"new_data\['dose'\] has NaN or infinite .* first is row 1"),
        ({"dose": ["1", "two"]}, ev.DataError, r"new_data\['dose'\] must hold numbers; .* 'two' in row 1"),
        (
            {"resp": [1.0]},
            ev.ModelError,
            r"new_data lacks dose: the model, called with dose=None, failed with",
        ),
    ],
)
def test_new_data_that_a_numpyro_function_cannot_use(new_data, error, message):
    with pytest.raises(error, match=message):
        result_of(ev.Model.from_numpyro(regression), DOSES).predict(new_data)


def test_responses_of_new_rows_are_not_used_and_may_be_missing():
    evidence = result_of(ev.Model.from_numpyro(regression), DOSES)
    with_nan = evidence.predict({"dose": [1.0, 2.0], "resp": [np.nan, 0.0]})["resp"]
    np.testing.assert_array_equal(with_nan, evidence.predict({"dose": [1.0, 2.0]})["resp"])


def test_why_a_result_cannot_predict():
    groups = ev.Model.from_numpyro(regression, groups="dose")
    with pytest.raises(
        ev.ConfigurationError, match=r"latents of groups='dose' .* without groups=, the model has"
    ):
        result_of(groups, DOSES).predict()
    written = ev.Model({"slope": dist.Normal(0, 1)}, lambda params, batch: batch["dose"])
    with pytest.raises(ev.ConfigurationError, match=r"its model does not say how.* Model with predict=\.$"):
        result_of(written, DOSES).predict(DOSES)
    with pytest.raises(ev.ConfigurationError, match="predict needs new_data: the data of this run are not"):
        result_of(ev.Model.from_numpyro(regression)).predict()


@pytest.mark.slow
def test_a_pymc_model_predicts():
    pymc = pytest.importorskip("pymc")
    x = np.linspace(-1, 1, 40)
    with pymc.Model() as written:
        predictor = pymc.Data("predictor", x)
        slope = pymc.Normal("slope", 0, 1)
        pymc.Normal("y", slope * predictor, 0.5, observed=2 * x, shape=predictor.shape[0])
    evidence = ev.estimate(ev.Model.from_pymc(written), method=ev.Laplace())
    found = evidence.predict({"predictor": np.full(300, 3.0)}, seed=1)["y"]
    mean = 3 * evidence.posterior["slope"].mean()
    assert found.shape == (evidence.num_particles, 300) and found.mean() == pytest.approx(mean, abs=0.01)
    assert evidence.predict(n=20)["y"].shape == (20, 40)
    with pytest.raises(
        ev.ModelError, match=r"must name pm.Data containers of the model \(predictor\); got z"
    ):
        evidence.predict({"z": x})


@pytest.mark.slow
def test_predictions_of_pymc_use_the_posterior_of_parameters_with_dimensions():
    """PyMC draws parameters from their prior if it does not know their coordinates and data."""
    pymc = pytest.importorskip("pymc")
    group = np.repeat([0, 1], 100)
    with pymc.Model(coords={"group": ["low", "high"]}) as written:
        of_row = pymc.Data("of_row", group)
        width = pymc.Data("width", 10.0)
        means = pymc.Normal("means", 0, width, dims="group")
        pymc.Normal("y", means[of_row], 0.5, observed=5.0 * group, shape=of_row.shape[0])
    evidence = ev.estimate(ev.Model.from_pymc(written), method=ev.Laplace())
    for found in (evidence.predict()["y"][:, 100:], evidence.predict({"of_row": np.ones(50, int)})["y"]):
        assert found.mean() == pytest.approx(evidence.posterior["means"][:, 1].mean(), abs=0.05)
        assert found.std() == pytest.approx(np.hypot(0.5, 0.05), abs=0.05)
