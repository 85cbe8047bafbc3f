"""`select_terms` against single regressions, and against simulated truth."""

import numpy as np
import pytest
from matplotlib.figure import Figure

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
    selection = ev.select_terms(
        "rating ~ complaints + learning", ATTITUDE, prior_probabilities="beta-binomial"
    )
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


def test_thousands_of_models_have_the_integral_of_each():
    """Series share the integrals over g; 1e-9 nats is their tolerance."""
    table = correlated(num_rows=60, num_terms=9)
    selection = ev.select_terms(right_hand_side(table), table)
    null = ev.estimate(ev.Regression("y ~ 1"), table).log_evidence
    for place in range(0, 512, 37):
        found = ev.estimate(ev.Regression(selection.formulas[place]), table).log_evidence - null
        assert selection.log_bayes_factor[place] == pytest.approx(found, abs=1e-9)
    assert selection.num_models == 512 and selection.visited_probability == 1
    assert set(selection.inclusion_probability_error.values()) == {0.0}


def test_a_formula_without_terms_has_one_model():
    selection = ev.select_terms("rating ~ 1", ATTITUDE)
    assert selection.formulas == ["rating ~ 1"] and selection.probability.tolist() == [1.0]
    assert selection.coefficients["Intercept"] == pytest.approx(ATTITUDE["rating"].mean())


@pytest.mark.reference
@pytest.mark.parametrize("family, link", [("poisson", None), ("bernoulli", "probit")])
def test_other_families_have_the_evidence_of_each_regression(family, link):
    """Zeroed columns leave the evidence of the sub-model; 4 standard errors."""
    generator = np.random.default_rng(0)
    x, z = generator.standard_normal((2, 150))
    counts = generator.poisson(np.exp(0.2 + 0.4 * x))
    table = {"y": counts if family == "poisson" else counts > 1, "x": 10 + 3 * x, "z": z}
    selection = ev.select_terms("y ~ x * z", table, family=family, link=link)
    assert selection.included.shape == (5, 3)
    assert selection.inclusion_probability["x"] > 0.9 > selection.inclusion_probability["z"]
    evidences = {
        one: ev.estimate(ev.Regression(one, family=family, link=link), table, seed=1)
        for one in ("y ~ 1", "y ~ x")
    }
    comparison = ev.compare(evidences)
    place = selection.formulas.index("y ~ x")
    error = np.hypot(selection.log_bayes_factor_error[place], comparison.log_bayes_factor_error[1])
    found = selection.log_bayes_factor[place]
    assert 0 < error < 0.05 and abs(found + comparison.log_bayes_factor[1]) < 4 * error
    # At the maximum of the likelihood, the means of the response and of its predictions are equal.
    assert selection.predict(table).mean() == pytest.approx(np.mean(table["y"]), abs=0.05)
    assert 0 < selection.inclusion_probability_error["z"] < 0.02


@pytest.mark.reference
def test_the_unit_information_prior_is_that_of_each_sub_model():
    generator = np.random.default_rng(1)
    x = generator.standard_normal(120)
    table = {"y": generator.poisson(np.exp(0.3 * x)), "x": x, "z": x + generator.standard_normal(120)}
    choice = {"family": "poisson", "prior": "unit-information"}
    selection = ev.select_terms("y ~ x + z", table, **choice)
    one, null = (ev.estimate(ev.Regression(f, **choice), table) for f in ("y ~ z", "y ~ 1"))
    place = selection.formulas.index("y ~ z")
    error = np.hypot(
        np.hypot(one.standard_error, null.standard_error), selection.log_bayes_factor_error[place]
    )
    assert abs(selection.log_bayes_factor[place] - one.log_evidence + null.log_evidence) < 4 * error


@pytest.mark.slow
def test_categories_have_no_mean_to_predict():
    generator = np.random.default_rng(2)
    table = {"y": generator.choice(["a", "b", "c"], 80), "x": generator.standard_normal(80)}
    selection = ev.select_terms("y ~ x", table, family="categorical")
    assert selection.coefficients["x"].shape == (2,)
    with pytest.raises(ConfigurationError, match="predict is not for the families categorical and ordinal"):
        selection.predict(table)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"prior": "flat"}, "prior must be one of jzs, unit-information, normal; got 'flat'"),
        ({"family": "poisson", "prior": "jzs"}, "prior='jzs' is for the family gaussian; got poisson"),
        ({"family": "normal"}, "family must be one of gaussian"),
        (
            {"prior_probabilities": "flat"},
            "prior_probabilities must be one of uniform, beta-binomial; got 'flat'",
        ),
        ({"seed": -1}, "seed must be an integer"),
        ({"prior_scale": 0}, "prior_scale must be positive"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        ev.select_terms(FULL, ATTITUDE, **arguments)


def test_too_many_models_to_estimate_are_refused_with_their_time():
    table = correlated(num_rows=40, num_terms=12)
    with pytest.raises(
        ConfigurationError, match=r"4,096 sub-models, whose evidences would take about 1\d min"
    ):
        ev.select_terms(right_hand_side(table), table, prior="normal")


def correlated(num_rows, num_terms):
    generator = np.random.default_rng(1)
    x = generator.standard_normal((num_rows, num_terms)) + 1.2 * generator.standard_normal((num_rows, 1))
    y = x[:, :4] @ [0.5, 0.4, -0.3, 0.2] + 1.5 * generator.standard_normal(num_rows)
    return {"y": y, **{f"x{place}": column for place, column in enumerate(x.T)}}


def right_hand_side(table):
    return "y ~ " + " + ".join(list(table)[1:])


def test_models_of_no_probability_are_in_the_order_of_their_evidence():
    x = np.arange(800.0)
    table = {"y": 3 * x + np.tile([-1, 1], 400), "x": x, "z": np.sqrt(x), "w": np.tile([1, -1, -1, 1], 200)}
    selection = ev.select_terms("y ~ x + z + w", table)
    assert (np.diff(selection.log_bayes_factor[selection.probability == 0]) <= 0).all()
    assert (selection.probability == 0).sum() > 2


def test_terms_as_a_data_frame_and_a_picture():
    selection = ev.select_terms("rating ~ complaints + learning", ATTITUDE)
    frame = selection.to_pandas()
    assert list(frame.index) == ["complaints", "learning"]
    assert frame.loc["learning", "probability"] == selection.inclusion_probability["learning"]
    assert frame.loc["learning", "prior_probability"] == 0.5
    ax = selection.plot(Figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["complaints", "learning"]
    assert [bar.get_width() for bar in ax.patches] == frame["probability"].tolist()
