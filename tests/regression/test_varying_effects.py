"""Effects of groups in new rows, at given parameters: against the normal law of all rows."""

import jax
import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.evidence.sgais import SGAIS
from evidentia.regression.families import family
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.predictive import FormulaPredictor
from evidentia.regression.varying_effects import VaryingEffects, codes_of
from evidentia.results.predicted import Chosen

DRAWS, ROWS = 4000, 40
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": 2 + RNG.normal(size=ROWS), "g": np.resize(list("abcde"), ROWS)})
TABLE["h"] = np.repeat([7, 8], ROWS // 2)
TABLE["y"] = TABLE["x"] + RNG.normal(size=5)[np.unique(TABLE["g"], return_inverse=True)[1]]
TABLE["y"] += RNG.normal(size=ROWS)
TABLE["k"] = RNG.poisson(np.exp(0.3 * TABLE["y"]))
NEW = pd.DataFrame({"x": [0.0, 1.0, 0.0, 0.0, 3.0], "g": ["a", "a", "c", "new", "new"], "h": 7})
PARAMS = {
    "scale": 0.7,
    "sd(Intercept|g)": 0.9,
    "sd(x|g)": 0.5,
    "cholesky(g)": np.linalg.cholesky([[1.0, -0.4], [-0.4, 1.0]]),
    "sd(Intercept|h)": 0.6,
    "effects": [0.8],
    "intercept": 0.0,
}


def drawn(formula, family="gaussian"):
    """Contributions to the new rows at one set of parameters, and what they were made of."""
    regression = ev.Regression(formula, family, prior="normal")
    rows = regression.rows_of(TABLE)
    asked = regression.prepared(frame_of(parse(formula), rows), rows, SGAIS())
    known = {name.lower(): value for name, value in PARAMS.items()}
    own = {
        name: np.broadcast_to(np.asarray(known[name.lower()], float).reshape(shape), (DRAWS, *shape))
        for name, shape in ((name, site.shape()) for name, site in asked.model.prior.items())
    }
    with pytest.warns(
        ev.EvidenceWarning, match=r"2 of 5 rows are of groups of 'g' that .* not know \('new'\)"
    ):
        return VaryingEffects(asked).of_rows(own, NEW, np.random.default_rng(0)), asked, own


@pytest.mark.parametrize("formula", ["y ~ x + (1 + x | g)", "y ~ x + (1 | g) + (1 | h)"])
def test_contributions_have_the_law_of_the_normal_given_the_rows(formula):
    found, asked, own = drawn(formula)
    varying, scale = asked.varying, asked.response.scale
    residuals = asked.arrays["y"] * 1.0
    prior, across, noise = np.zeros((5, 5)), np.zeros((5, ROWS)), PARAMS["scale"] ** 2 * np.eye(ROWS)
    fixed = {name: values[0] for name, values in own.items()}
    for one in varying.factors:
        half = scale * one.at_zero @ np.asarray(one.factor(fixed), float)
        covariance, new = half @ half.T, one.columns_of(NEW)
        rows = one.columns_of(TABLE)
        codes, known = codes_of_quietly(one, NEW), one.codes
        prior += (codes[:, None] == codes) * (new @ covariance @ new.T)
        across += (codes[:, None] == known) * (new @ covariance @ rows.T)
        noise += (known[:, None] == known) * (rows @ covariance @ rows.T) / scale**2
    if asked.packs is not None:  # back in the order of the rows
        residuals = residuals.reshape(-1)[asked.packs.places]
    x = (TABLE["x"] - TABLE["x"].mean()) / np.sqrt(np.mean((TABLE["x"] - TABLE["x"].mean()) ** 2))
    residuals = residuals - 0.8 * x.to_numpy()
    gain = across @ np.linalg.inv(noise * scale**2)
    mean, covariance = gain @ residuals * scale, prior - gain @ across.T
    error = np.sqrt(np.diag(covariance) / DRAWS)
    assert np.all(np.abs(found.mean(0) - mean) < 4.5 * error)
    allowed = 4.5 * np.sqrt(2 / DRAWS) * np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.all(np.abs(np.cov(found.T) - covariance) < allowed)


def codes_of_quietly(grouped, table):
    with ev.errors.quietly():
        return codes_of(grouped, table)[0]


def test_counts_have_the_conditional_moments_of_their_groups():
    found, asked, own = drawn("k ~ x + (1 | g)", "poisson")
    function, varying = asked.model.log_likelihood, asked.varying
    mean, variance = jax.jit(function.moments)(
        {name: values[0] for name, values in own.items()}, asked.arrays
    )["Intercept"]
    place = asked.packs.group_of_row[np.searchsorted(varying.inner.codes, 0)]
    assert abs(found[:, 0].mean() - mean[place]) < 4.5 * np.sqrt(variance[place] / DRAWS)
    assert abs(found[:, 0].var() / variance[place] - 1) < 4.5 * np.sqrt(2 / DRAWS)


def test_effects_and_responses_have_noise_of_their_own():
    """With one seed for each, they were the same numbers where each row is of another group."""

    class Noise:
        def of_rows(self, own, table, generator):
            return generator.standard_normal((DRAWS, len(table)))

    zeros, frame = np.zeros(DRAWS), frame_of(parse("y ~ x"), TABLE)
    chosen = Chosen({"Intercept": zeros, "x": zeros, "scale": zeros + 1}, {})
    drawn = FormulaPredictor(frame, "gaussian", family("gaussian"), varying=Noise())(chosen, NEW, 0)["y"]
    assert np.all(np.abs(drawn.var(0) / 2 - 1) < 4.5 * np.sqrt(2 / DRAWS))


@pytest.mark.slow
def test_a_mixed_model_predicts_its_groups():
    evidence = ev.estimate(ev.Regression("y ~ x + (1 | g)"), TABLE)
    table = evidence.predict(TABLE, n=1000)["y"].mean(0)
    by_group = pd.Series(table - TABLE["y"].to_numpy()).groupby(TABLE["g"].to_numpy()).mean()
    assert np.abs(by_group).max() < 0.35  # effects are shrunk a little: by a fifth at most
    evidence.plot_predictive(TABLE)
