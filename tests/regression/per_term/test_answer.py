"""Regressions with a g for each term against ANOVAs and against their g's on a grid."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "a": generator.choice(list("pqr"), 60),
            "b": generator.choice(list("uv"), 60),
            "x": generator.normal(3, 2, 60),
            "z": generator.normal(size=60),
        }
    )
    return rows.assign(y=generator.normal(size=60) + 0.8 * (rows["a"] == "p") + 0.3 * rows["x"] + 5)


def _estimated(side, table, **more):
    return ev.estimate(ev.Regression(f"y ~ {side}", g="per-term", **more), table)


@pytest.mark.parametrize("side", ["a", "a + b", "a + b + a:b", "x", "x + z", "a + b + x + z + a:b"])
def test_bayes_factors_are_those_of_the_anova(table, side):
    whole = ev.bf.anova("y ~ a * b + x + z", table)
    none = ev.estimate(ev.Regression("y ~ 1"), table)
    found = _estimated(side, table, prior="jzs")
    assert found.log_evidence - none.log_evidence == pytest.approx(whole.log_bf(side), abs=1e-9)
    assert ev.compare({"one": found, "none": none}).best == "one"


def test_the_posterior_has_the_formulas_coefficients(table):
    """Means of a factor's coefficients, by ridge regressions on a grid of g."""
    found = _estimated("a", table, prior="jzs")
    codes = pd.Categorical(table["a"]).codes
    columns = np.eye(3)[codes] @ np.linalg.svd(np.eye(3) - 1 / 3)[0][:, :2]
    columns -= columns.mean(0)
    y = (table["y"] - table["y"].mean()).to_numpy()
    log_terms, means = [], []
    for log_g in np.linspace(-15, 15, 3001):
        inner = columns.T @ columns + np.eye(2) / np.exp(log_g)
        effects = np.linalg.solve(inner, columns.T @ y)
        left = y @ y - y @ columns @ effects
        volume = np.linalg.slogdet(np.exp(log_g) * inner)[1]
        log_terms.append(-volume / 2 - 59 / 2 * np.log(left) - log_g / 2 - np.exp(-log_g) / 8)
        means.append(np.linalg.svd(np.eye(3) - 1 / 3)[0][:, :2] @ effects)
    levels = np.exp(np.array(log_terms) - logsumexp(log_terms)) @ np.array(means)
    for level, name in enumerate("qr", 1):
        draws = found.posterior[f"a[T.{name}]"]
        assert draws.mean() == pytest.approx(levels[level] - levels[0], abs=4 * draws.std() / 1000**0.5)
    assert set(found.posterior) == {"Intercept", "a[T.q]", "a[T.r]", "scale", "g(a)"}
    assert found.posterior["Intercept"].mean() == pytest.approx(
        table.loc[table["a"] == "p", "y"].mean(), abs=0.3
    )


def test_sub_models_agree_with_the_anovas_inclusion(table):
    found = ev.select_terms("y ~ a * b + x", table, g="per-term")
    whole = ev.bf.anova("y ~ a * b + x", table)
    for formula, log_bf in zip(found.formulas, found.log_bayes_factor, strict=True):
        assert log_bf == pytest.approx(whole.log_bf(formula.removeprefix("y ~ "), "1"), abs=1e-9)
    assert found.predict(table) == pytest.approx(table["y"].to_numpy(), abs=3.5)
    assert sum(found.probability) == pytest.approx(1)


def test_functions_offsets_and_categories_written_as_numbers(table):
    coded = table.assign(code=table["a"].map({"p": 3, "q": 1, "r": 2}), w=table["y"] + table["z"])
    plain = _estimated("a", table)
    assert _estimated("C(code)", coded).log_evidence == pytest.approx(plain.log_evidence, abs=1e-9)
    offset = ev.estimate(ev.Regression("w ~ a + offset(z)", g="per-term"), coded)
    assert offset.log_evidence == pytest.approx(plain.log_evidence, abs=1e-9)
    spline = _estimated("bs(x, df=4) * b", table)
    assert np.isfinite(spline.log_evidence) and len(spline.posterior["g(covariates)"]) == 1000


def test_a_term_without_columns_of_its_own_has_no_g(table):
    """Another name of a factor, and a coarser one, which the factor determines."""
    twice = table.assign(other=table["a"].str.upper(), coarse=table["a"] == "p", double=2 * table["x"])
    plain = _estimated("a + x", table)
    with pytest.warns(ev.EvidenceWarning, match="'other"):
        found = _estimated("a + x + other + coarse + double", twice)
    assert found.log_evidence == plain.log_evidence
    assert set(found.posterior) == set(plain.posterior)


def test_cells_without_rows_have_no_effect(table):
    cells = table[(table["a"] != "r") | (table["b"] != "v")]
    with pytest.warns(ev.EvidenceWarning, match="is 0"):
        found = _estimated("a * b", cells)
    whole, none = ev.bf.anova("y ~ a * b", cells), ev.estimate(ev.Regression("y ~ 1"), cells)
    expected = whole.log_bf("a + b + a:b")
    assert found.log_evidence - none.log_evidence == pytest.approx(expected, abs=1e-9)


def test_its_prior_is_named_kept_and_varied(table, tmp_path):
    found = _estimated("a + x", table)
    assert "a g for each term" in repr(found)
    found.save(tmp_path / "found")
    assert "a g for each term" in repr(ev.load(tmp_path / "found"))
    wider = ev.prior_sensitivity(found)
    assert "the same integral" in repr(wider)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda t: ev.Regression("y ~ a", g="each"),
            ConfigurationError,
            "'shared' or 'per-term'; got 'each'",
        ),
        (lambda t: ev.Regression("y ~ (1 | a)", g="per-term"), ConfigurationError, "ev.bf.anova"),
        (lambda t: ev.Regression("y ~ 0 + a", g="per-term"), ConfigurationError, "with an intercept"),
        (
            lambda t: ev.Regression("y ~ a", prior="unit-information", g="per-term"),
            ConfigurationError,
            "under prior='jzs'",
        ),
        (
            lambda t: ev.Regression("y ~ a", prior_scale=1.0, g="per-term"),
            ConfigurationError,
            "has no prior_scale",
        ),
        *(
            (
                lambda t, side=side: _estimated(side, t),
                ConfigurationError,
                f"the interaction {name} needs its parts",
            )
            for side, name in [("x:a", "x:a"), ("a:b", "a:b"), ("a + x:a", "x:a"), ("a + a:b", "a:b")]
        ),
        (lambda t: _estimated("C(x > 3)", t), ConfigurationError, "a factor is a column or C(column)"),
        (
            lambda t: ev.estimate(ev.Regression("m ~ a", g="per-term"), t.assign(m=1.0 * (t["a"] == "p"))),
            DataError,
            "explained exactly by",
        ),
        (
            lambda t: ev.select_terms(
                "y ~ " + " + ".join(f"sin({power} * x)" for power in range(1, 11)), t, g="per-term"
            ),
            ConfigurationError,
            "at most 512 are computed",
        ),
    ],
)
def test_what_it_does_not_do_gets_one_message(table, call, error, words):
    with pytest.raises(error) as caught:
        call(table)
    assert words in str(caught.value)


def _covariates(side, table):
    """The log Bayes factor of covariates alone, with their one g by either integral."""
    found = [ev.estimate(ev.Regression(f"y ~ {side}", g=g), table) for g in ("shared", "per-term")]
    return [one.log_evidence for one in found]


@pytest.mark.parametrize("near", [1e-2, 1e-4])
def test_columns_that_nearly_agree_and_a_response_that_is_nearly_explained(near):
    """Covariates alone are under one g, as with g='shared', which uses residuals."""
    generator = np.random.default_rng(1)
    x, other, noise = generator.normal(2, 1, (3, 1000))
    z = x + near * other
    table = pd.DataFrame({"x": x, "z": z, "y": (z - x) / near + 1e-3 * noise})
    shared, per_term = _covariates("x + z", table)
    assert per_term == pytest.approx(shared, abs=1e-6)
    shared, per_term = _covariates("x", table.assign(y=x + 1e-6 * noise))
    assert per_term == pytest.approx(shared, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_as_many_covariates_as_rows_explain_nothing(seed):
    columns = np.random.default_rng(seed).normal(size=(20, 20))
    table = pd.DataFrame(columns, columns=["y", *(f"x{place}" for place in range(19))])
    found = _estimated(" + ".join(table.columns[1:]), table)
    none = ev.estimate(ev.Regression("y ~ 1"), table)
    assert found.log_evidence == pytest.approx(none.log_evidence, abs=1e-9)
