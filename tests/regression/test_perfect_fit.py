"""A response that the columns explain exactly: the evidence is infinite, and an error says so."""

import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.perfect_fit import check_model
from evidentia.regression.table import as_table

ROWS = 40
GENERATOR = np.random.default_rng(0)
X = 3 + GENERATOR.standard_normal(ROWS)
Z, NOISE = GENERATOR.standard_normal((2, ROWS))
LEVELS = np.repeat(np.arange(8), 5)
OF_GROUP = GENERATOR.standard_normal(8)[LEVELS]
TABLE = {
    "x": X,
    "z": Z,
    "one": np.ones(ROWS),
    "y": 2 * X + 1,
    "noisy": 2 * X + NOISE,
    "positive": np.exp(X),
    "share": 1 / (1 + np.exp(-Z)),
    "g": np.array(list("abcdefgh"))[LEVELS],
    "of_group": OF_GROUP,
    "slopes": OF_GROUP * X,
}


@pytest.mark.parametrize("prior", ["jzs", "normal"])
@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        ("y ~ y", "'y'"),
        ("y ~ x + z", "'x'"),
        ("y ~ 0 + x + one", "'x', 'one'"),
        ("I(noisy - x) ~ noisy + x + z", "'noisy', 'x'"),
        ("y ~ z + offset(2 * x - z)", "'z'"),
    ],
)
def test_the_columns_are_named(formula, columns, prior):
    with pytest.raises(ev.DataError) as caught:
        ev.estimate(ev.Regression(formula, prior=prior), TABLE)
    message = str(caught.value)
    assert message.startswith(
        f"{formula}: the response is explained exactly by {columns} (but for a share of"
    )
    assert "so that the evidence is infinite" in message
    assert (
        "prior='unit-information'" if prior == "jzs" else "give the scale a prior that excludes 0"
    ) in message


@pytest.mark.parametrize(
    ("formula", "family", "by"),
    [
        ("y ~ x", "student-t", "'x'"),
        ("positive ~ x", "gamma", "'x'"),
        ("share ~ z", "beta", "'z'"),
        ("of_group ~ z + (1 | g)", "gaussian", "'z', the groups of 'g'"),
        ("slopes ~ (0 + x | g)", "gaussian", "the groups of 'g'"),
    ],
)
def test_all_families_whose_likelihood_has_no_bound(formula, family, by):
    with pytest.raises(ev.DataError, match=f"the response is explained exactly by {by}"):
        ev.estimate(ev.Regression(formula, family=family, prior="normal"), TABLE)


def test_rounding_to_float32_hides_no_perfect_fit():
    table = {"x": 1000 + X, "y": (2 * X + 5000).astype(np.float32)}
    with pytest.raises(ev.DataError, match="explained exactly by 'x'"):
        ev.estimate(ev.Regression("y ~ x"), table)


def test_the_evidence_is_finite_where_g_is_known():
    """Under the unit-information prior the log Bayes factor is (n - 1 - p)/2 log(1 + n)."""
    found, null = (ev.estimate(ev.Regression(f"y ~ {x}", prior="unit-information"), TABLE) for x in "x1")
    assert found.log_evidence - null.log_evidence == pytest.approx((ROWS - 2) / 2 * np.log1p(ROWS), abs=1e-6)


def test_a_scale_that_cannot_be_zero_makes_the_evidence_finite():
    priors = {
        "bounded": dist.Uniform(0.5, 0.6),
        "vanishing": dist.InverseGamma(2.0, 1.0),
        "known to be small": dist.LogNormal(-16.0, 0.1),
    }
    table = as_table(TABLE, ["x", "y"])
    frame = frame_of(parse("y ~ x"), table)
    law = ev.regression.families.family("gaussian")
    for name in ("bounded", "vanishing"):
        assert check_model(frame, table, law, {"scale": priors[name]}) == 0
    with pytest.raises(ev.DataError, match="infinite"):
        check_model(frame, table, law, {"scale": priors["known to be small"]})


def test_more_columns_than_rows_explain_anything():
    """Groups and columns with as many directions as rows leave nothing to say about the fit."""
    table = as_table({**TABLE, "row": np.arange(ROWS).astype(str)}, ["z", "of_group"])
    table["row"] = [f"r{place}" for place in range(ROWS)]
    formula = "of_group ~ z + (1 | row)"
    regression, frame = ev.Regression(formula), frame_of(parse(formula), table)
    asked = regression.prepared(frame, table, None)
    assert asked.check(frame, table) == 0


def test_terms_that_explain_all_are_refused_in_a_selection():
    with pytest.raises(ev.DataError, match="y ~ x: the response is explained exactly by 'x'"):
        ev.select_terms("y ~ z + x + noisy", TABLE)
    with pytest.raises(ev.DataError, match="y ~ x: the response is explained exactly by 'x'"):
        ev.select_terms("y ~ z + x", TABLE, prior="normal")
    assert ev.select_terms("y ~ z + x", TABLE, prior="unit-information").formulas[0] == "y ~ x"


def test_terms_that_explain_all_are_refused_in_a_search():
    """Few of 60 columns explain 50 rows; all 60 would explain any."""
    generator = np.random.default_rng(1)
    table = {f"v{place}": generator.standard_normal(50) for place in range(60)}
    table["y"] = table["v3"] - 2 * table["v7"]
    terms = " + ".join(name for name in table if name != "y")
    with pytest.raises(ev.DataError, match="explained exactly by 'v3', 'v7'"):
        ev.select_terms(f"y ~ {terms}", table)


def test_nearly_perfect_fits_have_the_error_of_rounding():
    near = {"x": X, "y": X + 1e-5 * NOISE}
    assert 0 < ev.estimate(ev.Regression("y ~ x"), near).standard_error < 0.01
    nearer = {"x": np.resize(X, 20_000), "y": np.resize(X, 20_000) + 1e-6 * np.resize(NOISE, 20_000)}
    with pytest.warns(
        ev.EvidenceWarning, match=r"y ~ x: the columns leave a share of only 1e-12.* uncertain by about"
    ):
        found = ev.estimate(ev.Regression("y ~ x"), nearer)
    assert found.standard_error > 1
    assert ev.estimate(ev.Regression("noisy ~ x"), TABLE).standard_error == 0


@pytest.mark.filterwarnings("ignore::evidentia.EvidenceWarning")
def test_models_of_a_selection_have_the_error_of_rounding():
    generator = np.random.default_rng(0)
    table = {name: generator.normal(size=50) for name in "abc"}
    table["y"] = table["a"] + 2 * table["b"] + 1e-6 * generator.normal(size=50)
    selection = ev.select_terms("y ~ a + b + c", table)
    is_close = selection.included[:, :2].all(axis=1)
    assert (selection.log_bayes_factor_error[is_close] > 0.1).all()
    assert not selection.log_bayes_factor_error[~is_close].any()
