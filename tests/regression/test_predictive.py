"""Draws of new responses: their means, and laws that have zeros of their own."""

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.regression.families import FAMILIES, family
from evidentia.regression.predictive import SIMULATE
from tests.regression.attitude import ATTITUDE

EXTRA = {
    "scale": 0.7,
    "degrees_of_freedom": 8.0,
    "dispersion": 0.3,
    "zi": 0.3,
    "hu": 0.4,
    "zoi": 0.3,
    "coi": 0.6,
}


@pytest.mark.parametrize("name", SIMULATE)
def test_draws_have_the_mean_of_the_family(name):
    law, count = family(name), 40_000
    extra = {key: np.full((2, 1), EXTRA[key]) for key in law.extra}
    eta = np.repeat([[-0.4], [0.6]], count, axis=1)
    mean = np.asarray(law.mean(eta, {key: extra[key] for key in law.of_mean}))
    drawn = SIMULATE[name](np.random.default_rng(0), eta, mean, extra)
    expected = mean[:, 0] if name != "exponential" else np.exp(eta[:, 0])
    error = 4 * drawn.std(1) / np.sqrt(count)
    assert drawn.shape == eta.shape and (np.abs(drawn.mean(1) - expected) < error).all()
    if "hu" in extra:
        assert (np.abs((drawn == 0).mean(1) - 0.4) < 4 * 0.5 / np.sqrt(count)).all()


def test_every_family_has_draws():
    assert {*SIMULATE} | {"binomial", "categorical", "ordinal"} == {*FAMILIES}


def test_an_exact_regression_predicts():
    """Student's t about the shrunken line; R's BayesFactor has the same posterior."""
    evidence = ev.estimate(ev.Regression("rating ~ complaints"), ATTITUDE)
    found = evidence.predict({"complaints": [50.0, 80.0]})
    draws = evidence.posterior
    line = (draws["Intercept"] + np.multiply.outer([50.0, 80.0], draws["complaints"])).mean(1)
    frame = found.to_pandas()
    assert found["rating"].shape == (evidence.num_particles, 2)
    np.testing.assert_allclose(frame["mean"], line, atol=4 * frame["sd"].max() / np.sqrt(1000))
    assert frame["sd"][0] > draws["scale"].mean()
    with pytest.raises(ev.DataError, match="complaints"):
        evidence.predict({"learning": [50.0]})


@pytest.mark.slow
def test_categories_trials_and_errors_predict():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    answers = np.where(x + rng.logistic(size=200) > 0, "yes", "no")
    k = pd.Categorical(answers, categories=["no", "yes"], ordered=True)
    table = pd.DataFrame({"x": x, "k": k, "n": 10, "s": 0.1})
    table["hits"] = rng.binomial(10, 1 / (1 + np.exp(-x)))
    table["y"] = 2 * x + rng.normal(0, 0.1, 200)
    new = pd.DataFrame({"x": [-2.0, 2.0], "n": [100, 100], "s": [0.1, 0.1]})
    for name in ("categorical", "ordinal"):
        frame = ev.estimate(ev.Regression("k ~ x", name), table).predict(new).to_pandas()
        assert frame.loc[0, "no"] > 0.7 and frame.loc[1, "yes"] > 0.7
    hits = ev.estimate(ev.Regression("hits | n ~ x", "binomial"), table).predict(new)["hits"]
    assert hits[:, 1].mean() == pytest.approx(88, abs=4)
    known = ev.estimate(ev.Regression("y | se(s) ~ x"), table).predict(new)["y"]
    assert known.mean(0) == pytest.approx([-4, 4], abs=0.1) and known[:, 0].std() == pytest.approx(
        0.1, rel=0.2
    )
