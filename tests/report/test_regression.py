"""The report of a regression: words first, with the numbers that they come from."""

from dataclasses import replace

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import evidentia as ev
from evidentia.display import words
from evidentia.display.coefficients_plot import draw_coefficients, height_of, natural
from evidentia.posterior.summary import ParameterSummary
from evidentia.report.regression import (
    factors_from_posterior,
    factors_of_estimates,
    regression_sections,
    terms_section,
    verdict,
)
from tests.regression.attitude import ATTITUDE

BEST, OTHER = "rating ~ complaints + learning", "rating ~ 1"


@pytest.fixture(scope="module")
def evidences():
    formulas = BEST, OTHER, "rating ~ complaints", "rating ~ learning"
    return {formula: ev.estimate(ev.Regression(formula), ATTITUDE) for formula in formulas}


def sections(evidences, names):
    own = {name: evidences[name] for name in names}
    without = {"complaints": evidences["rating ~ learning"], "learning": evidences["rating ~ complaints"]}
    regressions = {name: ev.Regression(name) for name in names}
    factors = factors_of_estimates(evidences[BEST], without)
    return regression_sections(regressions, own, ev.compare(own), factors, pd.DataFrame(ATTITUDE))


def test_words_for_each_strength():
    """They are those of the tables, with Bayes factors in the same digits."""
    assert (
        verdict("cut", 412.3)
        == "cut: extreme evidence that it matters; the data are 1.15e+179 times as probable with it as without it."
    )
    assert verdict("cut", np.log(20)).startswith(
        "cut: strong evidence that it matters; the data are 20 times"
    )
    assert verdict("cut", -0.5) == (
        "cut: anecdotal evidence that it is not needed; the data are 1.65 times as probable without it as with it."
    )
    assert verdict("cut", -6.0).startswith(
        "cut: extreme evidence that it is not needed; the data are 403 times"
    )
    assert verdict("cut", 0.0) == "cut: the data are as probable with it as without it."
    for factor in 412.3, -1.06:
        row = terms_section("y ~ cut", {"cut": (factor, 0.0)}).rows[0]
        assert row[2] == words.factor(factor, 0.0)


def test_each_term_has_its_bayes_factor(evidences):
    terms, coefficients, fit, sensitivity = sections(evidences, [BEST, OTHER])
    assert terms.heading == "Which terms matter"
    assert [term for term, *_ in terms.rows] == ["complaints", "learning"]
    wanted = evidences[BEST].log_evidence - evidences["rating ~ learning"].log_evidence
    assert terms.rows[0][1] == f"{wanted:.2f}"
    assert terms.sentences[0].startswith("complaints: extreme evidence that it matters; the data are ")
    assert [len(section.pictures) for section in (coefficients, fit, sensitivity)] == [1, 1, 1]
    assert sensitivity.sentences[0].startswith(
        f"With priors of the effects from half to twice as wide, {BEST} leads"
    )


@pytest.mark.slow
def test_terms_by_the_posterior_are_those_by_estimates():
    """Of two columns at once, and of one far from 0."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.normal(size=90), "kind": np.resize(list("abc"), 90)})
    table["few"] = rng.poisson(np.exp(0.5 + 0.8 * table["x"]))
    regression = ev.Regression("few ~ x + kind", "poisson")
    evidence = ev.estimate(regression, table)
    formulas = {"x": "few ~ kind", "kind": "few ~ x"}
    found = factors_from_posterior(regression, evidence, formulas, table)
    without = {term: ev.estimate(replace(regression, formula=one), table) for term, one in formulas.items()}
    for term, (factor, error) in factors_of_estimates(evidence, without).items():
        assert abs(found[term][0] - factor) < 4 * np.hypot(found[term][1], error)
        assert found[term][1] < 0.05


def test_exact_evidences_are_not_asked_for_draws(evidences):
    formulas = {"learning": "rating ~ complaints"}
    assert (
        factors_from_posterior(ev.Regression(BEST), evidences[BEST], formulas, pd.DataFrame(ATTITUDE)) == {}
    )


def test_a_lead_that_changes_sign_is_said():
    """Effects of 0.2 deviations in 200 rows: narrow priors speak for them, wide ones against."""
    generator = np.random.default_rng(3)
    table = pd.DataFrame({"x": generator.standard_normal(200)})
    table["y"] = 0.19 * table["x"] + generator.standard_normal(200)
    formulas = ["y ~ x", "y ~ 1"]
    found, scale = {}, 1.0
    for scale in np.geomspace(50, 0.05, 100):  # from where the intercept alone leads
        found = {name: ev.estimate(ev.Regression(name, prior_scale=scale), table) for name in formulas}
        if found["y ~ x"].log_evidence > found["y ~ 1"].log_evidence:
            break
    regressions = {name: ev.Regression(name, prior_scale=scale) for name in formulas}
    last = regression_sections(regressions, found, ev.compare(found), {}, table)[-1]
    assert "the answer depends on the prior" in last.sentences[0]


def test_an_intercept_alone_has_no_coefficients(evidences):
    own = {OTHER: evidences[OTHER]}
    regressions = {OTHER: ev.Regression(OTHER)}
    found = regression_sections(regressions, own, ev.compare(own), {}, pd.DataFrame(ATTITUDE))
    assert [section.heading for section in found] == ["Predictions against data"]


def test_a_smaller_formula_that_leads_is_said_first():
    found = terms_section("y ~ a + b", {"a": (4.0, 0.01), "b": (-1.5, 0.02)})
    assert found.headline == (
        "A smaller formula is ahead: y ~ a + b without b, under which the data are 4.48 times as probable."
    )
    assert found.rows[1] == ("b", "-1.500 ± 0.020", "0.223")
    assert terms_section("y ~ a + b", {"a": (4.0, 0.01), "b": (-0.01, 0.02)}).headline == ""


def test_names_in_words_and_a_scale_for_each():
    assert natural("sex[T.male]:size[T.a:b]") == "sex = male × size = a:b"
    assert natural("a:b") == "a:b" and natural("C(k)[2]") == "C(k) = 2"
    narrow = ParameterSummary("x", 1.0, 0.001, (0.99, 0.995, 1.0, 1.005, 1.01), 0.0)
    wide = ParameterSummary("z", 5.0, 100.0, (-150.0, -60.0, 5.0, 70.0, 160.0), 0.0)
    figure = Figure(figsize=(8, height_of(2)))
    axes = draw_coefficients([narrow, wide], figure)
    spans = [np.ptp(ax.get_xlim()) for ax in axes]
    assert spans[0] < 0.1 and spans[1] > 300  # 0 is far from the first
    assert figure.subplotpars.left < 0.1  # of short names


def test_a_formula_has_a_scale_for_each_parameter_but_g(evidences):
    evidence = evidences["rating ~ complaints"]
    axes = evidence.plot_posterior()
    assert [ax.get_yticklabels()[0].get_text() for ax in axes] == ["Intercept", "complaints", "scale"]
    assert len(evidence.plot_posterior(["g", "scale"])) == 2
    one = Figure().subplots()
    assert evidence.plot_posterior(ax=one) is one
    assert axes[0].get_legend().get_texts()[0].get_text() == "95% interval"
    matplotlib.pyplot.close("all")
