"""The search over models against all models listed."""

from functools import partial

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import DiagnosticWarning
from evidentia.regression import g_prior, model_search, selection
from evidentia.regression.g_prior_models import fits_of, log_bayes_factors
from evidentia.regression.model_space import model_space, well_formed
from evidentia.regression.moments import moments_of
from evidentia.regression.neighbours import Neighbours
from evidentia.regression.priors import JZS_SCALE
from tests.regression.test_selection import correlated, right_hand_side

# Correlated terms and few rows: the best of 4,096 models has a probability of 0.01.
SPREAD = correlated(num_rows=40, num_terms=12)


def searched(monkeypatch, *arguments, **options):
    with monkeypatch.context() as patched:
        patched.setattr(selection, "MOST_LISTED", 0)
        return ev.select_terms(*arguments, **options)


def deviations(found, listed):
    """Differences of the terms' probabilities in standard errors."""
    return np.array(
        [
            (found.inclusion_probability[term] - value) / found.inclusion_probability_error[term]
            for term, value in listed.inclusion_probability.items()
        ]
    )


@pytest.mark.reference
def test_a_search_agrees_with_the_list_of_models_within_its_errors(monkeypatch):
    """The errors come from 16 chains: Student's t with 15 degrees, whose deviation is 1.07."""
    formula = right_hand_side(SPREAD)
    listed = ev.select_terms(formula, SPREAD)
    every = [deviations(searched(monkeypatch, formula, SPREAD, seed=seed), listed) for seed in range(4)]
    assert np.abs(every).max() < 4.5
    assert 0.6 < np.sqrt(np.mean(np.square(every))) < 1.7  # 48 numbers, which depend on each other


def test_a_search_has_the_same_models_coefficients_and_predictions(monkeypatch):
    formula = right_hand_side(SPREAD)
    listed, found = ev.select_terms(formula, SPREAD), searched(monkeypatch, formula, SPREAD)
    probability = {row.tobytes(): one for row, one in zip(listed.included, listed.probability, strict=True)}
    expected = np.array([probability[row.tobytes()] for row in found.included])
    np.testing.assert_allclose(found.probability, expected, rtol=0.02)  # the normaliser is estimated
    assert found.visited_probability == pytest.approx(expected.sum(), abs=0.02)
    np.testing.assert_allclose(found.prior_probability, 2.0**-12)
    spread = np.std(listed.predict(SPREAD))
    np.testing.assert_allclose(found.predict(SPREAD), listed.predict(SPREAD), atol=0.05 * spread)
    assert "visited, of 4.1e+03" in repr(found)


def test_a_search_keeps_interactions_with_their_parts(monkeypatch):
    generator = np.random.default_rng(3)
    x = generator.standard_normal((60, 6))
    table = dict(zip("abcdef", x.T, strict=True))
    table["y"] = x[:, 0] * x[:, 1] + generator.standard_normal(60)
    table["k"] = generator.choice(["u", "v", "w"], 60)  # two columns, and four of c:k
    formula = "y ~ a * b + c * k + d + e + f"
    listed, found = ev.select_terms(formula, table), searched(monkeypatch, formula, table)
    assert {row.tobytes() for row in found.included} <= {row.tobytes() for row in listed.included}
    assert found.prior_inclusion_probability == pytest.approx(listed.prior_inclusion_probability)
    for term, value in listed.inclusion_probability.items():
        error = found.inclusion_probability_error[term]
        assert abs(found.inclusion_probability[term] - value) < 4.5 * error + 1e-4, term


@pytest.mark.parametrize("num_rows, scale", [(50, JZS_SCALE), (50, None), (9, JZS_SCALE)])
def test_neighbours_have_the_posterior_of_their_own_fits(num_rows, scale):
    """Also with more columns than rows; the table of Bayes factors holds 1e-4 nats."""
    x = np.random.default_rng(0).standard_normal((num_rows, 12))
    y = x[:, 0] + np.random.default_rng(1).standard_normal(num_rows)
    sums = g_prior.sums_of(moments_of(np.column_stack([x, y])), True)
    space = model_space(tuple("abcdefghij"), "beta-binomial")
    owners = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9])
    neighbours = Neighbours(sums, scale, space, owners)
    for seed in range(20):
        model = np.random.default_rng(seed).random(10) < 0.5
        models = np.append(model ^ np.eye(10, dtype=bool), model[None], axis=0)
        factors, _ = log_bayes_factors(sums, fits_of(sums, models[:, owners]), scale)
        log_joint = factors + space.log_prior[models.sum(axis=1)]
        found = neighbours.of(model)
        assert found.log_joint == pytest.approx(log_joint[-1], abs=2e-4)
        np.testing.assert_allclose(found.log_odds, log_joint[:-1] - log_joint[-1], atol=2e-4)


@pytest.mark.slow
def test_sixty_terms_are_searched():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((500, 60)) + generator.standard_normal((500, 1))
    y = x[:, :3] @ [0.4, -0.3, 0.3] + generator.standard_normal(500)
    table = {"y": y, **{f"x{place}": column for place, column in enumerate(x.T)}}
    found = ev.select_terms(right_hand_side(table), table, prior_probabilities="beta-binomial")
    assert all(found.inclusion_probability[f"x{place}"] > 0.99 for place in range(3))
    assert max(found.inclusion_probability_error.values()) < 0.01
    assert found.num_models == 2.0**60 and 0.3 < found.visited_probability <= 1
    assert found.prior_inclusion_probability["x5"] == pytest.approx(0.5)


@pytest.mark.slow
def test_the_seed_decides_the_numbers(monkeypatch):
    one, same, other = (
        searched(monkeypatch, right_hand_side(SPREAD), SPREAD, seed=seed).inclusion_probability["x1"]
        for seed in (1, 1, 2)
    )
    assert one == same != other


def test_chains_that_disagree_are_reported(monkeypatch):
    """Two equally good interactions, each of which needs two main effects that explain nothing."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 400))
    near = x + 0.05 * generator.standard_normal((2, 400))
    table = dict(zip("abcd", (*x, *near), strict=True))
    table |= {f"e{place}": generator.standard_normal(400) for place in range(8)}
    table["y"] = x[0] * x[1] + near[0] * near[1] + generator.standard_normal(400)
    formula = "y ~ a * b + c * d + " + " + ".join(f"e{place}" for place in range(8))
    monkeypatch.setattr(selection, "search", partial(model_search.search, first_steps=0, most_steps=1))
    with pytest.warns(DiagnosticWarning, match="chains of the search disagree: the probability of c:d is"):
        searched(monkeypatch, formula, table)


def test_all_models_of_the_list_are_well_formed():
    needs = model_space(("a", "b", "a:b"), "uniform").needs
    models = well_formed(needs, 10)
    assert models is not None and [row.tolist() for row in models if row[2]] == [[True, True, True]]
