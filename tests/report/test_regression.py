"""The report of a regression: words first, with the numbers that they come from."""

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.report.regression import regression_sections, term_factors, verdict
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
    return regression_sections(regressions, own, ev.compare(own), without, pd.DataFrame(ATTITUDE))


def test_words_for_each_strength():
    assert verdict("cut", 412.3) == "cut matters: the data are e^412 times as probable with it as without it."
    assert (
        verdict("cut", np.log(20))
        == "cut probably matters: the data are 20 times as probable with it as without it."
    )
    assert verdict("cut", -0.5) == "cut: the data do not tell whether it matters."
    assert verdict("cut", -np.log(20)).startswith("cut is probably not needed: the data are 20 times")
    assert verdict("cut", -6.0).startswith("cut is not needed: the data are 403 times as probable without it")


def test_each_term_has_its_bayes_factor(evidences):
    words, coefficients, fit, sensitivity = sections(evidences, [BEST, OTHER])
    assert words.heading == "Which terms matter"
    assert [term for term, _ in words.rows] == ["complaints", "learning"]
    wanted = evidences[BEST].log_evidence - evidences["rating ~ learning"].log_evidence
    assert words.rows[0][1] == f"{wanted:.2f}"
    assert words.sentences[0].startswith("complaints matters: the data are e^")
    assert [len(section.pictures) for section in (coefficients, fit, sensitivity)] == [1, 1, 1]
    assert sensitivity.sentences[0].startswith(
        f"With priors of the effects from half to twice as wide, {BEST} leads"
    )


def test_the_largest_factor_comes_first(evidences):
    without = {"learning": evidences["rating ~ complaints"], "complaints": evidences["rating ~ learning"]}
    assert list(term_factors(evidences[BEST], without)) == ["complaints", "learning"]


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
