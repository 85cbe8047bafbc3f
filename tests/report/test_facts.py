"""What the report says of one model: rounded, with a meaning, and without what does not apply."""

import math

import pytest

import evidentia as ev
from evidentia.evidence.harmonic_mean import MAX_RHAT
from evidentia.evidence.nested.run import MAX_STUCK
from evidentia.report.facts import KINDS, describe, three_digits
from tests.evidence_factory import make_evidence


def shown(**diagnostics):
    evidence = make_evidence(-1000.0, 0.2, diagnostics=diagnostics)
    return {fact.term: (fact.value, fact.meaning) for fact in describe(evidence)}


def test_what_does_not_apply_is_not_shown():
    facts = shown(smallest_ess=math.nan, pareto_shape=0.31415926535, warnings="")
    assert not any("nan" in value for value, _ in facts.values())
    assert "Smallest effective sample size" not in facts
    assert "Warnings" not in facts
    assert facts["Pareto shape of the largest weights"][0] == "0.314"


def test_shares_are_percentages_with_a_word_of_meaning():
    value, meaning = shown(smallest_ess=0.412345678)["Smallest effective sample size"]
    assert value == "41%"
    assert "below 15%" in meaning


def test_limits_are_those_of_the_methods():
    facts = shown(stuck_moves=0.1, rhat=1.01)
    assert facts["Stuck moves"][1].endswith(f"above {100 * MAX_STUCK:.0f}% the region is too small")
    assert facts["R-hat"][1].endswith(f"above {MAX_RHAT} they disagree")


def test_a_diagnostic_of_a_method_of_ones_own_is_shown_rounded():
    assert shown(swaps_done=0.123456789, phase="two")["Swaps done"] == ("0.123", "")
    assert shown(phase="two")["Phase"] == ("two", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (12345.678, "12,346"),
        (0.000123456, "0.000123"),
        (-2.5, "-2.5"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_three_digits(value, text):
    assert three_digits(value) == text


@pytest.mark.slow
@pytest.mark.parametrize("method", [ev.SGAIS(num_particles=64), ev.Laplace(), ev.PriorSampling()], ids=repr)
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
def test_every_diagnostic_has_a_meaning(method):
    model = ev.models.linear_regression(1)
    found = ev.estimate(model, model.simulate(100, seed=0)[0], method=method).diagnostics
    assert found.keys() - KINDS.keys() <= {"warnings"}


def test_one_observation_is_all_data_and_is_not_counted():
    terms = {fact.term for fact in describe(make_evidence(num_observations=1))}
    assert "Log evidence" in terms and not terms & {"Observations", "Per observation"}


def test_exact_results_have_no_rows_about_a_sampler():
    terms = {fact.term: fact.value for fact in describe(make_evidence(-1000.0, 0.0))}
    assert not {"Particles", "Annealing steps", "Seed"} & terms.keys()
    assert terms["Method"] == "exact integral"
