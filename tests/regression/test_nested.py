"""Formulas by the program of a larger one, and priors by scaled columns."""

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.regression.nested import Nested, nested

LARGE = ev.Regression("few ~ x + z", "poisson")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    found = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "z"])
    return found.assign(few=rng.poisson(np.exp(0.5 + 0.5 * found["x"])))


def test_the_largest_formula_with_all_terms_is_taken():
    small, middle = ev.Regression("few ~ 1", "poisson"), ev.Regression("few ~ x", "poisson")
    found = nested(small, [small, middle, LARGE])
    assert isinstance(found, Nested) and found.larger is LARGE
    assert nested(LARGE, [small, middle, LARGE]) is LARGE


@pytest.mark.parametrize(
    "other",
    [
        ev.Regression("few ~ x + z", "negative-binomial"),
        ev.Regression("few ~ x + z - 1", "poisson"),
        ev.Regression("few ~ x + z + offset(x)", "poisson"),
        ev.Regression("many ~ x + z", "poisson"),
        ev.Regression("few ~ x + z", "poisson", prior_scale=1.0),
    ],
)
def test_other_priors_and_responses_are_apart(other):
    small = ev.Regression("few ~ x", "poisson")
    assert nested(small, [other]) is small


def test_exact_regressions_need_no_program():
    small = ev.Regression("few ~ x")
    assert nested(small, [ev.Regression("few ~ x + z")]) is small


@pytest.mark.slow
def test_the_result_is_that_of_the_formula_alone(table):
    for formula in "few ~ x", "few ~ 1":
        alone = ev.Regression(formula, "poisson")
        wanted, found = (ev.estimate(one, table) for one in (alone, nested(alone, [LARGE])))
        error = np.hypot(wanted.standard_error, found.standard_error)
        assert abs(found.log_evidence - wanted.log_evidence) < 4 * error
        assert found.posterior.keys() == wanted.posterior.keys()
        assert found.fingerprints == wanted.fingerprints and found.model_name == wanted.model_name
        for one, other in zip(found.summary().mean, wanted.summary().mean, strict=True):
            assert one == pytest.approx(other, abs=0.05)


@pytest.mark.slow
def test_wider_priors_are_those_of_another_estimate(table):
    evidence = ev.estimate(LARGE, table)
    change = evidence.widths.new_run(8.0, ("effects",))  # as where draws do not reach
    wider = ev.estimate(ev.Regression("few ~ x + z", "poisson", prior_scale=20.0), table)
    assert change.is_new_run
    assert change.difference == pytest.approx(wider.log_evidence - evidence.log_evidence, abs=0.03)
