"""Bambi's models: those of PyMC that they build, with an exact evidence."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import evidentia as ev

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    bambi = pytest.importorskip("bambi", reason="needs the extra bambi")

pytestmark = [pytest.mark.slow, pytest.mark.bridges, pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.normal(size=40), "group": RNG.choice(list("abc"), 40)})
TABLE["y"] = 1.0 + 0.5 * TABLE.x + 2.0 * (TABLE.group == "b") + RNG.normal(size=40)


def test_the_exact_evidence():
    """y ~ N(a + b (x - mean), 1), with normal priors; Bambi centres x."""
    priors = {
        "Intercept": bambi.Prior("Normal", mu=0, sigma=2),
        "x": bambi.Prior("Normal", mu=0, sigma=1),
        "sigma": bambi.Prior("Uniform", lower=1 - 1e-4, upper=1 + 1e-4),
    }
    written = bambi.Model("y ~ x", TABLE, priors=priors)
    model = ev.Model.from_pymc(written)
    assert (written.built, model.name) == (True, "y ~ x")
    found = ev.estimate(model)
    x = TABLE.x - TABLE.x.mean()
    covariance = np.eye(40) + 4.0 + np.outer(x, x)
    exact = multivariate_normal(np.zeros(40), covariance).logpdf(TABLE.y)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error + 1e-3  # of sigma's width


def test_groups_are_those_of_the_pymc_model_and_predict():
    written = bambi.Model("y ~ x + (1|group)", TABLE)
    written.build()
    found = ev.estimate(ev.Model.from_pymc(written))
    same = ev.estimate(ev.Model.from_pymc(written.backend.model, name="y ~ x + (1|group)"))
    assert found.log_evidence == same.log_evidence
    predicted, of_b = found.predict()["y"], (TABLE.group == "b").to_numpy()
    lifted = predicted[:, of_b].mean() - predicted[:, ~of_b].mean()
    assert lifted == pytest.approx(TABLE.y[of_b].mean() - TABLE.y[~of_b].mean(), abs=0.5)


def test_what_cannot_be_used_is_named():
    improper = bambi.Model("y ~ x", TABLE, priors={"x": bambi.Prior("Flat")})
    with pytest.raises(ev.ModelError, match="'x'"):
        ev.Model.from_pymc(improper)
    with pytest.raises(ev.ModelError, match="pymc.Model or a bambi.Model; got Prior"):
        ev.Model.from_pymc(bambi.Prior("Flat"))
