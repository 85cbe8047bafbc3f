"""`select_terms` against single regressions, and against simulated truth."""

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError
from tests.regression.attitude import ATTITUDE, NAMES

FULL = f"rating ~ {' + '.join(NAMES[1:])}"


def test_every_model_has_the_bayes_factor_of_its_regression():
    selection = ev.select_terms("rating ~ complaints * learning + raises", ATTITUDE)
    assert len(selection.formulas) == 10  # without complaints:learning where a part lacks
    null = ev.estimate(ev.Regression("rating ~ 1"), ATTITUDE).log_evidence
    for formula, factor in zip(selection.formulas, selection.log_bayes_factor, strict=True):
        found = ev.estimate(ev.Regression(formula), ATTITUDE).log_evidence - null
        assert factor == pytest.approx(found, abs=1e-8), formula
    assert selection.probability.sum() == pytest.approx(1)
    assert np.all(np.diff(selection.probability) <= 0)


def test_all_models_of_the_vignette():
    selection = ev.select_terms(FULL, ATTITUDE)
    assert selection.included.shape == (64, 6)
    assert selection.formulas[0] == "rating ~ complaints"
    best = [round(float(np.exp(factor)), 1) for factor in selection.log_bayes_factor[:3]]
    assert best == [417938.6, 207271.9, 88041.5]
    inclusion = selection.inclusion_probability
    assert inclusion["complaints"] > 0.99 and max(inclusion[name] for name in NAMES[2:]) < 0.5
    assert "P(complaints)" in repr(selection) and "… 54 more" in repr(selection)


def test_priors_over_models():
    selection = ev.select_terms("rating ~ complaints + learning", ATTITUDE, model_prior="beta-binomial")
    by_size = dict(zip(selection.included.sum(axis=1).tolist(), selection.prior_probability, strict=True))
    assert by_size == pytest.approx({0: 1 / 3, 1: 1 / 6, 2: 1 / 3})
    assert selection.prior_inclusion_probability["learning"] == pytest.approx(0.5)


def test_averaged_predictions_are_those_of_the_models():
    selection = ev.select_terms("rating ~ complaints + learning", ATTITUDE, prior="unit-information")
    expected = np.zeros(30)
    for row, probability in zip(selection.included, selection.probability, strict=True):
        x = np.column_stack([np.ones(30), ATTITUDE["complaints"], ATTITUDE["learning"]])[:, [True, *row]]
        fitted = x @ np.linalg.lstsq(x, ATTITUDE["rating"], rcond=None)[0]
        mean = ATTITUDE["rating"].mean()
        expected += probability * (mean + 30 / 31 * (fitted - mean))
    np.testing.assert_allclose(selection.predict(ATTITUDE), expected, rtol=1e-9)


def test_categories_are_one_term_and_must_be_known():
    generator = np.random.default_rng(0)
    kinds = generator.choice(["a", "b", "c"], 200)
    x = generator.standard_normal(200)
    y = np.where(kinds == "b", 1.0, 0.0) + generator.standard_normal(200)
    selection = ev.select_terms("y ~ k + x", {"y": y, "k": kinds, "x": x})
    assert selection.inclusion_probability["k"] > 0.99 > 0.5 > selection.inclusion_probability["x"]
    assert set(selection.coefficients) == {"Intercept", "k[T.b]", "k[T.c]", "x"}
    with pytest.raises(DataError, match=r"has the categories \{'d'\}"):
        selection.predict({"k": ["a", "d"], "x": [0.0, 1.0]})


def test_mistakes_are_named():
    with pytest.raises(ConfigurationError, match="prior must be 'jzs' or 'unit-information'"):
        ev.select_terms(FULL, ATTITUDE, prior="normal")
    with pytest.raises(ConfigurationError, match="model_prior must be one of uniform, beta-binomial"):
        ev.select_terms(FULL, ATTITUDE, model_prior="flat")
    many = {f"x{place}": np.random.default_rng(place).standard_normal(40) for place in range(16)}
    with pytest.raises(ConfigurationError, match="more than 16,384 sub-models"):
        ev.select_terms("x0 ~ " + " + ".join(list(many)[1:]), many)
