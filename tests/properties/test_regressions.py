"""What a regression's evidence must not depend on, and how it must change, for random tables.

The exact evidences (JZS and unit information) are compared to all digits. For the other families,
the model itself is: priors and likelihood at given parameters, without sampling.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import evidentia as ev
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.table import as_table
from tests.properties.examples import examples, for_all

LEVELS = "north", "east", "south"
PRIORS = "jzs", "unit-information"
CLOSE = 1e-7  # nats: what rounding leaves on some tens of rows, with columns that are not collinear
ROUNDED = 2e-5  # of a row's log density in float32


@st.composite
def tables(draw):
    """Rows of two columns, a factor with three levels, and responses of several kinds."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(12, 60))
    x, z = draw(st.floats(-5, 5)) + generator.standard_normal((2, rows))
    g = np.array(LEVELS)[generator.permutation(rows) % 3]
    eta = draw(st.floats(-1, 1)) * x + (g == "east")
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": g,
            "w": 0.3 * generator.standard_normal(rows),
            "y": eta + draw(st.floats(0.2, 3)) * generator.standard_normal(rows),
            "count": generator.poisson(np.exp(np.clip(eta, -3, 3))),
            "positive": np.exp(0.3 * eta) * generator.gamma(3, size=rows),
        }
    )


FORMULAS = st.sampled_from(
    ["y ~ x + z + g", "y ~ 0 + x + z", "y ~ 0 + g + x", "y ~ x * z", "y ~ 1 + g + offset(w)"]
)
CASES = st.tuples(tables(), FORMULAS, st.sampled_from(PRIORS))


def exact(formula, table, prior):
    return ev.estimate(ev.Regression(formula, prior=prior), table).log_evidence


def same(found, expected):
    assert found == pytest.approx(expected, rel=1e-9, abs=CLOSE)


@examples(300, 5)
def test_the_order_of_rows_does_not_matter(count):
    @for_all(st.tuples(CASES, st.integers(0, 2**32 - 1)), count)
    def _(given):
        (table, formula, prior), seed = given
        shuffled = table.sample(frac=1, random_state=seed)
        same(exact(formula, shuffled, prior), exact(formula, table, prior))


@examples(300, 5)
def test_the_order_of_terms_does_not_matter(count):
    orders = st.permutations(["x", "z", "g"])
    kinds = st.sampled_from(["", "0 + "])

    @for_all(st.tuples(tables(), orders, kinds, st.sampled_from(PRIORS)), count)
    def _(given):
        table, terms, kind, prior = given
        same(
            exact(f"y ~ {kind}{' + '.join(terms)}", table, prior), exact(f"y ~ {kind}x + z + g", table, prior)
        )


@examples(300, 5)
def test_names_and_codes_of_categories_do_not_matter(count):
    """A g prior is that of the space of the columns: another reference level spans the same."""

    @for_all(st.tuples(CASES, st.permutations(LEVELS)), count)
    def _(given):
        (table, formula, prior), names = given
        renamed = table.assign(g=table["g"].map(dict(zip(LEVELS, names, strict=True))))
        same(exact(formula, renamed, prior), exact(formula, table, prior))
        numbered = table.assign(g=table["g"].map({"north": 7, "east": 3, "south": 5}))
        same(exact(formula.replace("g", "C(g)"), numbered, prior), exact(formula, table, prior))


@examples(300, 5)
def test_a_multiple_of_the_response_shifts_the_log_evidence(count):
    """By -n log |c|, and by log |c| for a flat prior of the intercept; Bayes factors stay."""
    multiples = st.floats(1e-6, 1e6).flatmap(lambda size: st.sampled_from([size, -size]))

    @for_all(st.tuples(CASES, multiples), count)
    def _(given):
        (table, formula, prior), c = given
        scaled = table.assign(y=c * table["y"], w=c * table["w"])
        free = len(table) - (not formula.startswith("y ~ 0"))
        same(exact(formula, scaled, prior), exact(formula, table, prior) - free * np.log(abs(c)))


@examples(300, 5)
def test_units_of_columns_do_not_matter(count):
    """Nor their zero, if there is an intercept."""

    @for_all(st.tuples(CASES, st.floats(1e-4, 1e4), st.floats(-10, 10)), count)
    def _(given):
        (table, formula, prior), unit, zero = given
        same(exact(formula, table.assign(x=unit * table["x"]), prior), exact(formula, table, prior))
        if not formula.startswith("y ~ 0"):
            same(exact(formula, table.assign(x=table["x"] + zero), prior), exact(formula, table, prior))


@examples(300, 5)
def test_what_an_offset_adds_is_taken_from_the_response(count):
    @for_all(st.tuples(tables(), st.sampled_from(["", "0 + "]), st.sampled_from(PRIORS)), count)
    def _(given):
        table, kind, prior = given
        added = table.assign(y=table["y"] + table["w"])
        same(exact(f"y ~ {kind}x + g + offset(w)", added, prior), exact(f"y ~ {kind}x + g", table, prior))


@examples(300, 5)
def test_a_full_factor_is_an_intercept_and_the_others(count):
    """`0 + g` spans what `1 + g` does. Without a prior, their fits are equal; R² is another."""

    @for_all(tables(), count)
    def _(table):
        full, other = (ev.estimate(ev.Regression(f"y ~ {terms}"), table) for terms in ("0 + g", "1 + g"))
        about_zero, about_mean = len(table) * table["y"].pow(2).mean(), len(table) * table["y"].var(ddof=0)
        left = (1 - np.float64(full.diagnostics["r_squared"])) * about_zero
        assert left == pytest.approx((1 - np.float64(other.diagnostics["r_squared"])) * about_mean, rel=1e-9)


@examples(100, 3)
def test_files_in_any_parts_give_the_same_evidence(count, tmp_path):
    @for_all(st.tuples(CASES, st.integers(1, 11)), count)
    def _(given):
        (table, formula, prior), cut = given
        for place, part in enumerate((table.iloc[:cut], table.iloc[cut:])):
            part.to_parquet(tmp_path / f"{place}.parquet")
        same(exact(formula, ev.read_parquet(f"{tmp_path}/*.parquet"), prior), exact(formula, table, prior))


@examples(100, 3)
def test_a_selection_is_the_same_for_other_units_and_orders(count):
    @for_all(st.tuples(tables(), st.permutations(["x", "z", "g"]), st.floats(1e-3, 1e3)), count)
    def _(given):
        table, terms, c = given
        found = ev.select_terms(f"y ~ {' + '.join(terms)}", table.assign(y=c * table["y"]))
        expected = ev.select_terms("y ~ x + z + g", table)
        for term in terms:
            same(found.inclusion_probability[term], expected.inclusion_probability[term])


FAMILIES = st.sampled_from(
    [("y", "gaussian"), ("y", "student-t"), ("count", "poisson"), ("positive", "gamma")]
)


def model_of(formula, family, table):
    """The model of a regression, and its log density of each row at some parameters."""
    regression = ev.Regression(formula, family=family, prior="normal")
    used = as_table(table, regression.variables)
    asked = regression.prepared(frame_of(parse(formula), used), used, None)

    def log_density(params):
        rows = asked.model.log_likelihood(params, asked.arrays)
        return np.asarray(rows, np.float64) + asked.response.log_jacobian

    return asked.model, log_density


@examples(100, 3)
def test_models_to_be_sampled_do_not_depend_on_units(count):
    """Priors are in their units: at the same parameters, the density is that of y/c, over c."""
    extra = {"scale": 0.7, "degrees_of_freedom": 4.0, "dispersion": 0.5}
    kinds, sizes = st.sampled_from(["", "0 + "]), st.floats(0.01, 100)

    @for_all(st.tuples(tables(), FAMILIES, kinds, sizes, sizes), count)
    def _(given):
        table, (response, family), kind, unit, c = given
        # a mean of the log, not of the identity, is 0 without an intercept in one unit only
        c = 1.0 if response == "count" or (family == "gamma" and kind) else c
        other = table.assign(**{"x": unit * table["x"], response: c * table[response]})
        formula = f"{response} ~ {kind}x + z"
        one, two = model_of(formula, family, table), model_of(formula, family, other)
        assert one[0].prior.keys() == two[0].prior.keys()
        params = {"effects": np.array([0.4, -0.3]), **extra}
        params |= {"Intercept": np.array(0.2)} if not kind else {}
        np.testing.assert_allclose(
            two[1](params), one[1](params) - np.log(c), rtol=ROUNDED, atol=10 * ROUNDED
        )
        order = np.random.default_rng(0).permutation(len(table))
        shuffled = model_of(formula, family, table.iloc[order])
        np.testing.assert_allclose(
            shuffled[1](params), one[1](params)[order], rtol=ROUNDED, atol=10 * ROUNDED
        )
