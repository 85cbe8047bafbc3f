"""Bayes factors and model probabilities with their errors."""

import json
import math
import re

import numpy as np
import pytest

import evidentia as ev
from tests.evidence_factory import make_evidence

THREE = {"b": make_evidence(-12.0, 0.2), "a": make_evidence(-10.0, 0.1), "c": make_evidence(-11.0, 0.3)}


def test_probabilities_are_the_normalised_evidences():
    comparison = ev.compare(THREE)
    evidences = np.exp([-10.0, -11.0, -12.0])
    np.testing.assert_allclose(comparison.probability, evidences / evidences.sum())
    assert comparison.names == ("a", "c", "b") and comparison.best == "a"
    np.testing.assert_allclose(comparison.log_bayes_factor, [0, -1, -2])
    np.testing.assert_allclose(
        comparison.log_bayes_factor_error, [0, math.hypot(0.1, 0.3), math.hypot(0.1, 0.2)]
    )


def test_prior_probabilities_multiply_and_need_not_sum_to_one():
    comparison = ev.compare(THREE, prior_probabilities={"a": 2, "b": 20, "c": 2})
    np.testing.assert_allclose(comparison.prior_probability, [1 / 12, 1 / 12, 10 / 12])
    weights = np.exp([-10.0, -11.0, -12.0]) * [1, 1, 10]
    np.testing.assert_allclose(comparison.probability, weights / weights.sum())
    assert comparison.best == "a", "models are sorted by evidence"


def test_probability_errors_agree_with_simulation():
    """Small errors, so the first order suffices; tolerance: 4 standard errors of 40,000 draws."""
    comparison = ev.compare(
        {name: make_evidence(e.log_evidence, e.standard_error / 10) for name, e in THREE.items()}
    )
    draws = np.random.default_rng(0).normal(comparison.log_evidence, comparison.standard_error, (40_000, 3))
    probability = np.exp(draws - draws.max(1, keepdims=True))
    probability /= probability.sum(1, keepdims=True)
    simulated = probability.std(0)
    np.testing.assert_allclose(comparison.probability_error, simulated, rtol=4 / math.sqrt(2 * 40_000))


def test_probability_errors_stay_possible_when_the_estimates_are_poor():
    comparison = ev.compare({"a": make_evidence(-10, 500.0), "b": make_evidence(-10.5, 500.0)})
    p = comparison.probability
    np.testing.assert_allclose(comparison.probability_error, np.sqrt(p * (1 - p)))


def test_a_million_nats_apart_neither_overflow_nor_nan():
    comparison = ev.compare({"a": make_evidence(-1e6), "b": make_evidence(-2e6)})
    np.testing.assert_array_equal(comparison.probability, [1, 0])
    np.testing.assert_array_equal(comparison.probability_error, [0, 0])


def test_text_and_html_show_the_table():
    comparison = ev.compare(THREE)
    header, *lines = repr(comparison).split("\n")
    assert header.split() == "model log evidence log BF (nats) BF against probability".split()
    assert [line.split()[0] for line in lines] == ["a", "c", "b"]
    assert "-11.00 ± 0.30" in lines[1] and "-1.00 ± 0.32" in lines[1]
    assert "0.368  anecdotal" in lines[1] and max(map(len, [header, *lines])) <= 80
    assert "<table>" in comparison._repr_html_() and "-1.00 ± 0.32" in comparison._repr_html_()


def test_the_conclusion_in_words():
    clear = ev.compare({"linear": make_evidence(-10, 0.1), "robust": make_evidence(-15, 0.1)}).conclusion
    assert clear == (
        "linear has the highest log evidence, 5.00 ± 0.14 nats above robust. Its probability is 0.993 ± 0.001."
    )
    unclear = ev.compare({"linear": make_evidence(-10, 1.0), "robust": make_evidence(-11, 1.0)}).conclusion
    assert "leads robust by only 1.0 ± 1.4 nats" in unclear and "too uncertain to tell" in unclear
    assert "Nothing to compare" in ev.compare({"linear": make_evidence()}).conclusion


def test_the_conclusion_speaks_of_a_prior_that_overrules_the_evidence():
    conclusion = ev.compare(
        {"a": make_evidence(-10, 0.1), "b": make_evidence(-11, 0.1)},
        prior_probabilities={"a": 0.01, "b": 0.99},
    ).conclusion
    assert conclusion.endswith("With the prior probabilities given, b is the most probable (0.973 ± 0.004).")


def test_dictionary_for_json_and_back():
    """`compare` accepts results of `to_dict`, as `evidentia compare` does for earlier runs."""
    comparison = ev.compare(THREE)
    stored = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert stored["best"] == "a" and list(stored["models"]) == ["a", "c", "b"]
    assert stored["models"]["c"]["log_bayes_factor"] == -1.0
    again = ev.compare({name: json.loads(json.dumps(evidence.to_dict())) for name, evidence in THREE.items()})
    assert again.to_dict() == comparison.to_dict()


@pytest.mark.parametrize("nothing", [{}, None, [make_evidence()]])
def test_nothing_to_compare_is_refused(nothing):
    with pytest.raises(
        ev.ConfigurationError, match="evidences must map at least one name to an Evidence; got"
    ):
        ev.compare(nothing)


def test_different_numbers_of_observations_are_refused():
    with pytest.raises(ev.ConfigurationError, match="same observations; 'a' has 1,000, 'b' has 900"):
        ev.compare({"a": make_evidence(), "b": make_evidence(num_observations=900)})


def test_results_of_other_data_are_refused():
    a, b = (make_evidence(fingerprints={"x": one, "y": two}) for one, two in (("1", "2"), ("3", "4")))
    for other in (b, json.loads(json.dumps(b.to_dict()))):
        with pytest.raises(
            ev.DataError, match=r"the arrays of 'a' \(x, y\) and of 'b' \(x, y\) all have different"
        ):
            ev.compare({"a": a, "b": other})
    assert ev.compare({"a": a, "features": make_evidence(fingerprints={"x": "5", "y": "2"})})
    assert ev.compare({"a": a, "unknown": make_evidence()})


@pytest.mark.parametrize("bad", [["1"], {"x": 1}, None])
def test_fingerprints_that_are_no_texts_are_refused(bad):
    with pytest.raises(
        ev.ConfigurationError, match=r"fingerprints of evidences\['a'\] must map names .* to texts"
    ):
        ev.compare({"a": make_evidence().to_dict() | {"fingerprints": bad}})


def test_something_else_than_evidence_is_refused():
    with pytest.raises(ev.ConfigurationError, match=r"evidences\['a'\] must be an Evidence.*; got float\."):
        ev.compare({"a": -1234.5})
    with pytest.raises(ev.ConfigurationError, match=r"finite standard_error; got standard_error=inf\."):
        ev.compare({"a": make_evidence(standard_error=math.inf)})
    with pytest.raises(ev.ConfigurationError, match=r"finite log_evidence; got log_evidence=-inf\."):
        ev.compare({"a": make_evidence(log_evidence=-math.inf)})


def test_prior_probabilities_that_do_not_fit_are_refused():
    with pytest.raises(ev.ConfigurationError, match=r"must name the models a, b, c; it names a, d\."):
        ev.compare(THREE, prior_probabilities={"a": 0.5, "d": 0.5})


@pytest.mark.parametrize("bad", [0.0, -0.1, math.nan, math.inf])
def test_prior_probabilities_must_be_positive(bad):
    with pytest.raises(ev.ConfigurationError, match="prior_probabilities must be positive and finite; got"):
        ev.compare(THREE, prior_probabilities={"a": 0.5, "b": bad, "c": 0.5})


def test_errors_that_are_not_known_stay_unknown():
    # Laplace's approximation alone has no standard error: NaN, or None after a trip through JSON.
    known, unknown = make_evidence(-10.0, 0.1), make_evidence(-12.0, math.nan)
    for given in (unknown, json.loads(json.dumps(unknown.to_dict(), allow_nan=False))):
        comparison = ev.compare({"known": known, "unknown": given})
        assert comparison.best == "known" and not comparison.is_clear
        assert (
            "2.00 ± ? nats above unknown" in comparison.conclusion and "is unknown" in comparison.conclusion
        )
        assert comparison.probability[0] == pytest.approx(1 / (1 + np.exp(-2.0)))
        assert np.isnan(comparison.probability_error).all() and np.isnan(comparison.log_bayes_factor_error[1])
        assert "-12.00 ± ?" in repr(comparison) and "0.119 ± ?" in repr(comparison)
        stored = comparison.to_dict()["models"]["unknown"]
        assert stored["standard_error"] is None and stored["log_bayes_factor_error"] is None
    assert "± ? nats" in repr(unknown) and "± ?" in unknown._repr_html_()


@pytest.mark.parametrize(
    ("field", "value", "needed"),
    [
        ("standard_error", -0.1, "a non-negative, finite standard_error; got standard_error=-0.1"),
        ("log_evidence", True, "a finite log_evidence; got log_evidence=True"),
        ("num_observations", 0.5, "a positive integer num_observations; got num_observations=0.5"),
        ("num_observations", 10**400, "a positive integer num_observations"),
        ("seconds", "1.0", "a non-negative, finite seconds; got seconds='1.0'"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_model(field, value, needed):
    numbers = {"log_evidence": -1.0, "standard_error": 0.1, "num_observations": 10, "seconds": 1.0}
    with pytest.raises(
        ev.ConfigurationError,
        match=re.escape(f"evidences['a'] must be an Evidence, or the result of its to_dict, with {needed}"),
    ):
        ev.compare({"a": {**numbers, field: value}})


def test_prior_probabilities_of_any_size_are_normalised_or_refused():
    numbers = {"log_evidence": -1.0, "standard_error": 0.1, "num_observations": 10, "seconds": 1.0}
    pair = {"a": numbers, "b": numbers}
    np.testing.assert_allclose(ev.compare(pair, {"a": 1e308, "b": 1e308}).probability, 0.5)
    for wrong in ([0.5, 0.5], {"a": "0.5", "b": 0.5}, {"a": True, "b": 0.5}, {"a": 1e-300, "b": 1.0}):
        with pytest.raises(ev.ConfigurationError, match="prior_probabilities must"):
            ev.compare(pair, wrong)


def test_results_with_and_without_a_constant_say_their_priors():
    exact = make_evidence(-10.0, constant="a flat intercept", diagnostics={"prior": "jzs, scale 0.354"})
    complete = make_evidence(-11.0, diagnostics={"prior": "normal, 2.5 standard deviations (not jzs)"})
    for found in ({"a": exact, "b": complete}, {"a": exact.to_dict(), "b": complete.to_dict()}):
        with pytest.raises(ev.errors.ConfigurationError) as caught:
            ev.compare(found)
        words = str(caught.value)
        assert "'a' (prior jzs, scale 0.354) is up to the constant of a flat intercept" in words
        assert "'b' (prior normal, 2.5 standard deviations (not jzs)) is complete" in words
        assert "Give all models the same kind of prior" in words


# --- Bayes factors of two models -----------------------------------------------------------------


def test_bayes_factors_of_any_two_models():
    comparison = ev.compare(THREE)
    difference = THREE["c"].log_evidence - THREE["b"].log_evidence
    assert comparison.log_bf("c", "b") == difference == -comparison.log_bf("b", "c")
    assert comparison.bf("c", "b") == pytest.approx(math.exp(difference))
    assert comparison.log10_bf("c", "b") == pytest.approx(difference / math.log(10))
    expected = math.hypot(THREE["c"].standard_error, THREE["b"].standard_error)
    assert comparison.log_bf_error("c", "b") == pytest.approx(expected)
    assert (comparison.bf("a", "a"), comparison.log_bf_error("a", "a")) == (1.0, 0.0)
    assert ev.compare({"a": make_evidence(0.0), "b": make_evidence(-1e4)}).bf("a", "b") == math.inf


def test_a_row_by_its_name_and_all_as_a_data_frame():
    comparison = ev.compare(THREE)
    row, frame = comparison["c"], comparison.to_pandas()
    assert (row.name, row.log_evidence, row.log_bayes_factor) == ("c", THREE["c"].log_evidence, -1.0)
    assert row.verdict == THREE["c"].verdict and len(comparison) == 3
    assert list(frame.index) == ["a", "c", "b"] and frame.loc["c", "bf"] == pytest.approx(math.exp(-1.0))
    assert frame.loc["c", "probability"] == row.probability and frame.loc["c", "verdict"] == "trusted"


@pytest.mark.parametrize(
    "ask", [lambda one: one["d"], lambda one: one.bf("a", "d"), lambda one: one.log_bf("d", "a")]
)
def test_a_model_that_was_not_compared(ask):
    with pytest.raises(ev.ConfigurationError, match="there is no model 'd'. Available: a, c, b"):
        ask(ev.compare(THREE))


def test_long_names_leave_lines_of_80_characters():
    names = "Surv(time, status) ~ age + sex + ph.ecog", "Surv(time, status) ~ age + sex"
    comparison = ev.compare(dict(zip(names, (make_evidence(-1e6), make_evidence(-1e6 - 9)), strict=True)))
    lines = repr(comparison).splitlines()
    assert max(map(len, lines)) <= 80 and lines[1] == names[0] and names[0] in comparison._repr_html_()


def test_the_picture_of_bayes_factors():
    from matplotlib.figure import Figure

    ax = ev.compare(THREE).plot(Figure().subplots())
    assert [one.get_text() for one in ax.get_yticklabels()] == ["a", "c", "b"]
    far = ev.compare({"a": make_evidence(0.0), "b": make_evidence(-500.0, math.nan)})
    assert far.plot(Figure().subplots()).get_xscale() == "symlog"
