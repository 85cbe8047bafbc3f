"""`Regression` with tables of all kinds, and the messages for what cannot be used."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError, EvidenceWarning
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.table import as_table
from evidentia.report.facts import describe
from tests.regression.attitude import ATTITUDE

QUICK = ev.Laplace(num_particles=64)
LETTERS = list("aabbcabcca")
TABLE = {
    "y": np.arange(10.0) ** 2,
    "x": np.arange(10.0),
    "z": np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3]),
    "k": LETTERS,
}


def estimate(formula, table=TABLE, **arguments):
    return ev.estimate(ev.Regression(formula, **arguments), table)


def test_every_kind_of_table_gives_the_same():
    frame = pd.DataFrame(TABLE)
    tables = TABLE, frame, pl.DataFrame(TABLE), pa.table(TABLE), frame.sample(frac=1, random_state=1)
    found = [estimate("y ~ x + k", table) for table in tables]
    assert {round(one.log_evidence, 9) for one in found} == {round(found[0].log_evidence, 9)}
    assert list(found[0].posterior) == ["Intercept", "x", "k[T.b]", "k[T.c]", "scale", "g"]


@pytest.mark.parametrize(
    "formula, names",
    [
        ("y ~ x * z", ["Intercept", "x", "z", "x:z"]),
        ("log(y + 1) ~ I(x ** 2)", ["Intercept", "I(x ** 2)"]),
        ("z ~ bs(x, df=4)", ["Intercept", *(f"bs(x, df=4)[{place}]" for place in range(1, 5))]),
        ("y ~ k - 1", ["k[a]", "k[b]", "k[c]"]),
        ("y ~ z + offset(x)", ["Intercept", "z"]),
        ("y ~ 1", ["Intercept"]),
    ],
)
def test_terms_are_named_as_in_r(formula, names):
    assert list(estimate(formula).posterior)[:-2] == names


def test_a_formula_has_parts():
    parsed = parse("successes | trials ~ log(x) * k + offset(log(z)) - 1")
    assert parsed.left == ("successes", "trials", "trials")
    assert parsed.terms == ("log(x)", "k", "log(x):k") and parsed.offsets == ("log(z)",)
    assert not parsed.has_intercept
    assert parsed.variables == ["successes", "trials", "x", "k", "z"]


def test_an_offset_is_a_part_of_the_predictor_that_is_known():
    shifted = {**TABLE, "y": TABLE["y"] - 3 * TABLE["x"]}
    assert estimate("y ~ z + offset(3 * x)").log_evidence == pytest.approx(
        estimate("y ~ z", shifted).log_evidence
    )


def test_rows_with_missing_values_are_left_out_and_counted():
    frame = pd.DataFrame(TABLE)
    frame.loc[[2, 5], "x"] = np.nan
    frame.loc[5, "k"] = None
    with pytest.warns(
        EvidenceWarning, match=r"2 of 10 rows have missing values \(x 2, k 1\) and were left out"
    ):
        found = estimate("y ~ x + k", frame)
    assert found.num_observations == 8
    assert found.log_evidence == pytest.approx(estimate("y ~ x + k", frame.dropna()).log_evidence)
    assert estimate("y ~ z", frame).num_observations == 10  # missing values elsewhere are irrelevant
    with pytest.raises(DataError, match="2 of 10 rows have missing values.*first is row 2"):
        estimate("y ~ x", frame, missing="error")


@pytest.mark.parametrize(
    "formula, message",
    [
        ("y", "must read 'response ~ terms'"),
        (" ~ x", "must read 'response ~ terms'"),
        ("y ~ x ~ z", "must read 'response ~ terms'"),
        ("y ~ x +", r"formula 'y ~ x \+' cannot be read: Operator `\+`"),
        ("y ~ (x", "cannot be read: Could not find matching context marker"),
        ("y + x ~ z", "must have one response"),
        ("y | z | x ~ k", r"at most one \| left of ~"),
    ],
)
def test_a_formula_that_cannot_be_read_is_explained(formula, message):
    with pytest.raises(ConfigurationError, match=message):
        ev.Regression(formula)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"family": "normal"}, "family must be one of gaussian, student-t"),
        ({"link": "log"}, "link of the family gaussian must be one of identity; got 'log'"),
        ({"prior": "flat"}, "prior must be one of jzs, unit-information, normal; got 'flat'"),
        ({"prior": "jzs", "family": "poisson"}, "prior='jzs' is for the family gaussian; got poisson"),
        ({"prior": "jzs", "priors": {"x": dist.Normal()}}, "priors cannot be replaced under prior='jzs'"),
        ({"prior_scale": -1}, "prior_scale must be positive"),
        ({"prior": "unit-information", "prior_scale": 2.0}, "has no prior_scale"),
        ({"family": "binomial"}, "need each other"),
        (
            {"formula": "y ~ x + (1 | k)", "prior": "unit-information"},
            "need another family .* prior='normal'",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_named(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        ev.Regression(**{"formula": "y ~ x", **arguments})


@pytest.mark.parametrize(
    "formula, arguments, message",
    [
        ("y ~ cc", {}, r"the table has no column 'cc'"),
        ("y ~ foo(x)", {}, r"cannot be computed: there is no function foo"),
        ("y ~ log(x)", {}, r"log\(x\) is not finite in 1 of 10 rows \(the first is row 0\)"),
        ("y ~ one", {}, "'one' has the same value in all 10 rows"),
        ("one ~ x", {}, "the response is constant"),
        ("k ~ x", {}, "the response k must hold numbers for this family; it has 'a', 'b', 'c'"),
        ("one ~ x", {"family": "student-t"}, "the response one is 1 in all 10 rows"),
        ("k ~ x", {"family": "poisson"}, "the response k must hold numbers for this family; it has 'a'"),
        (
            "half ~ x",
            {"family": "poisson"},
            "must hold counts.*5 of the 10 rows used do not: the first, row 1 of these, has 0.5",
        ),
        (
            "y ~ x",
            {"family": "gamma"},
            "must hold positive numbers for this family; 1 of the 10 rows.*row 0 of these, has 0",
        ),
        ("y ~ x", {"family": "beta"}, "must hold numbers between 0 and 1"),
        ("k ~ x", {"family": "bernoulli"}, "must have two values for this family; it has 3: 'a', 'b', 'c'"),
        ("k ~ x", {"family": "ordinal"}, "has categories without an order"),
        ("one ~ x", {"family": "categorical"}, "must have 2 to 1,000 categories; it has 1"),
        ("x | less ~ z", {"family": "binomial"}, "the trials of x must hold whole numbers of at least 0"),
        ("none | none ~ z", {"family": "binomial"}, "the trials of none are 0 in all 10 rows used"),
        ("x | many ~ z", {"family": "binomial"}, "must hold whole numbers from 0 to the number of trials"),
        ("y ~ digits", {}, "holds text that looks like numbers, such as '7'"),
        ("y ~ when", {}, "holds dates or durations"),
        ("y ~ day", {}, "'day' holds dates or durations"),
        ("y ~ g + x", {}, "column 'g', which is also the name of a parameter"),
        ("y ~ scale + x", {"prior": "normal"}, "column 'scale', which is also the name of a parameter"),
        ("x ~ Intercept", {"family": "poisson"}, "column 'Intercept', which is also"),
        (
            "k ~ x",
            {"family": "bernoulli", "priors": {"probabilities": dist.Dirichlet(np.ones(3))}},
            "must have two values|not a parameter",
        ),
        (
            "level ~ x",
            {"family": "ordinal", "priors": {"probabilities": dist.Dirichlet(np.ones(2))}},
            r"priors\['probabilities'\] must be a distribution of 3 probabilities",
        ),
        ("y ~ endless", {}, "is infinite in 1 rows"),
        (
            "y ~ poly(x, 9) + z",
            {"family": "student-t", "prior": "unit-information"},
            "needs columns of which none is determined by the others, .* the formula has 10",
        ),
        ("one ~ x", {"family": "bernoulli", "prior": "unit-information"}, "all rows have the same response"),
        ("y ~ x", {"prior": "normal", "priors": {"q": dist.Normal()}}, "names 'q', which is not a parameter"),
        ("y ~ x", {"prior": "normal", "priors": {"x": 3.0}}, "must be a NumPyro distribution of one number"),
        ("half ~ x", {"family": "student-t", "prior": "normal", "missing": "never"}, "missing must be"),
    ],
)
def test_a_table_that_cannot_be_used_is_explained(formula, arguments, message):
    table = {
        **TABLE,
        "one": np.ones(10),
        "half": np.arange(10) / 2,
        "less": np.arange(10) - 1,
        "none": np.zeros(10),
        "many": np.r_[np.full(9, 9), 1],
        "digits": ["7"] * 10,
        "when": pd.date_range("2026-01-01", periods=10),
        "day": pd.date_range("2026-01-01", periods=10).date,
        **dict.fromkeys(("g", "scale", "Intercept"), TABLE["z"]),
        "level": np.arange(10) % 3,
        "endless": np.r_[np.inf, np.arange(9)],
    }
    with pytest.raises((DataError, ConfigurationError), match=message):
        estimate(formula, table, **arguments)


def test_what_is_not_a_table_is_named():
    with pytest.raises(DataError, match="data of a formula must be a table: .* got ndarray"):
        estimate("y ~ x", np.zeros((3, 2)))
    doubled = pd.DataFrame(np.zeros((3, 3)), columns=["y", "x", "x"])
    with pytest.raises(DataError, match="2 columns named 'x'"):
        estimate("y ~ x", doubled)
    with pytest.raises(DataError, match="no rows without missing values"), pytest.warns(EvidenceWarning):
        estimate("y ~ x", {"y": [1.0, 2.0], "x": [np.nan, np.nan]})


@pytest.mark.parametrize(
    "formula, words",
    [
        ("y ~ s(x)", r"there is no function s\. A smooth effect is a spline, bs\(x, df=4\)"),
        ("ln(y) ~ x", "there is no function ln"),
        ("y ~ .", "'.' for all other columns is not supported"),
        ("y ~ log(x", r"a closing \) is missing"),
        ("y ~ ", "must read 'response ~ terms'"),
    ],
)
def test_common_mistakes_have_plain_words(formula, words):
    with pytest.raises(ConfigurationError, match=words):
        estimate(formula)


def test_a_result_says_which_prior_its_effects_have(tmp_path):
    found = estimate("y ~ x")
    assert found.diagnostics["prior"] == "jzs, scale 0.354"
    assert "prior jzs, scale 0.354" in repr(found) and "jzs, scale 0.354" in found._repr_html_()
    found.save(tmp_path / "saved")
    assert repr(ev.load(tmp_path / "saved")) == repr(found)
    assert found.to_dict()["diagnostics"]["prior"] == "jzs, scale 0.354"
    facts = {fact.term: fact.value for fact in describe(found)}
    assert facts["Prior"] == "jzs, scale 0.354"
    assert estimate("y ~ x", prior="unit-information").diagnostics["prior"] == "unit-information"


def test_a_default_that_changes_is_explained():
    """JZS is for effects that do not vary, with its own priors."""
    words = ev.Regression("y ~ x + (1 | k)").prior_in_words
    assert words == "normal, 2.5 standard deviations (not jzs, which has no effects that vary by group)"
    replaced = ev.Regression("y ~ x", priors={"x": dist.Normal()}).prior_in_words
    assert replaced == "normal, 2.5 standard deviations (not jzs, which has no priors that are replaced)"
    asked = ev.Regression("y ~ x + (1 | k)", prior="normal", prior_scale=1.0).prior_in_words
    assert asked == "normal, 1 standard deviations"
    assert ev.Regression("y ~ x", family="poisson").prior_in_words == "normal, 2.5 standard deviations"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.EvidenceWarning")
def test_estimated_results_say_their_prior():
    found = ev.estimate(ev.Regression("y ~ x + (1 | k)"), TABLE, method=QUICK)
    assert "prior normal, 2.5 standard deviations (not jzs, which" in repr(found)


def test_a_test_of_the_intercept_needs_a_prior_for_it():
    with pytest.raises(ConfigurationError) as caught:
        ev.compare({"with": estimate("y ~ 1"), "without": estimate("y ~ 0")})
    words = str(caught.value)
    assert "that of 'with' is of a flat intercept and a Jeffreys variance" in words
    assert "that of 'without' is of a Jeffreys variance, no intercept" in words
    assert "compare 'y ~ 0 + ones' with 'y ~ 0'" in words and "same kind of prior" not in words


def test_a_column_of_ones_makes_the_jzs_t_test():
    """Rouder et al. (2009), Psychonomic Bulletin & Review 16, 225, Eq. 1 with r = √2/2."""
    y = np.asarray(TABLE["z"]) - 3
    table = {"y": y, "ones": np.ones(len(y))}
    one, none = (estimate(f, table, prior_scale=2**-0.5) for f in ("y ~ 0 + ones", "y ~ 0"))
    t, n = np.mean(y) / (np.std(y, ddof=1) / np.sqrt(len(y))), len(y)

    def integrand(g):
        size = 1 + n * g / 2
        law = (1 + t**2 / (size * (n - 1))) ** (-n / 2) / np.sqrt(size)
        return law * (2 * np.pi) ** -0.5 * g**-1.5 * np.exp(-1 / (2 * g))

    factor = quad(integrand, 0, np.inf)[0] / (1 + t**2 / (n - 1)) ** (-n / 2)
    comparison = ev.compare({"one": one, "none": none})
    found = dict(zip(comparison.names, comparison.log_evidence, strict=True))
    assert found["one"] - found["none"] == pytest.approx(np.log(factor), abs=1e-6)


@pytest.mark.parametrize("family", ["student-t", "poisson", "bernoulli"])
def test_two_rows_are_too_few_for_unit_information_on_two_columns(family):
    table = {"y": [0, 1], "x": [1.0, 2.0], "z": [3.0, 1.0]}
    words = "none is determined by the others, and so more rows than columns; the formula has 2"
    with pytest.raises(DataError, match=words):
        estimate("y ~ x + z", table, family=family, prior="unit-information")
    with pytest.raises(DataError, match=words):
        ev.select_terms("y ~ x + z", table, family=family, prior="unit-information")


def test_unit_information_is_a_prior_of_columns_that_nearly_agree():
    """In float32 the precision matrix of columns 1e-4 apart is not positive definite."""
    generator = np.random.default_rng(0)
    a = generator.normal(size=50)
    table = {"y": generator.poisson(2, 50), "a": a, "b": a + 1e-4 * generator.normal(size=50)}
    regression = ev.Regression("y ~ a + b", family="poisson", prior="unit-information")
    frame = frame_of(parse("y ~ a + b"), as_table(table, ["y", "a", "b"]))
    prior = regression.prepared(frame, as_table(table, ["y", "a", "b"]), None).model.prior["effects"]
    root = np.asarray(prior.scale_tril, np.float64)
    information = frame.correlations * np.mean(table["y"])
    np.testing.assert_allclose(root.T @ information @ root, np.eye(2), atol=0.02)


def test_results_of_different_responses_are_not_compared():
    with pytest.raises(ConfigurationError, match=r"same response; 'a' is of y, 'b' is of log\(y \+ 1\)"):
        ev.compare({"a": estimate("y ~ x"), "b": estimate("log(y + 1) ~ x")})


@pytest.mark.slow
def test_separated_categories_are_estimated_with_a_note():
    """Quadrature over the two effects, beside the note."""
    x = np.arange(8.0)
    y = x > 3.4
    with pytest.warns(EvidenceWarning, match="y ~ x: the columns separate the categories"):
        evidence = ev.estimate(ev.Regression("y ~ x", family="bernoulli"), {"y": y, "x": x})
    standard = (x - x.mean()) / x.std()
    a, b = np.meshgrid(np.linspace(-20, 20, 801), np.linspace(-20, 20, 801), indexing="ij")
    eta = a[..., None] + b[..., None] * standard
    log_joint = -np.logaddexp(0, np.where(y, -eta, eta)).sum(axis=2)
    log_joint += norm.logpdf(a, 0, 2.5) + norm.logpdf(b, 0, 2.5)
    exact = np.log(np.exp(log_joint).sum() * 0.05**2)
    assert abs(evidence.log_evidence - exact) <= 4 * evidence.standard_error + 1e-3


@pytest.mark.slow
def test_results_know_their_response():
    table = {**TABLE, "price": np.exp(TABLE["z"] / 3)}
    exact = estimate("log(price) ~ x", table)
    sampled = ev.estimate(ev.Regression("log(price) ~ 1", prior="normal"), table, method=QUICK)
    assert exact.fingerprints == sampled.fingerprints and list(exact.fingerprints) == ["price", "log(price)"]
    assert estimate("price ~ k", table).fingerprints["price"] == exact.fingerprints["price"]
    with pytest.raises(DataError, match="must be given the same data"):
        ev.compare({"one": estimate("y ~ x"), "other": estimate("y ~ x", {**TABLE, "y": TABLE["z"]})})


@pytest.mark.slow
def test_a_model_of_the_same_response_can_be_compared():
    values = np.asarray(TABLE["y"], np.float32)
    model = ev.models.linear_regression(num_features=1)
    own = ev.estimate(model, {"x": np.asarray(TABLE["x"])[:, None], "y": values}, method=QUICK)
    formula = ev.estimate(ev.Regression("y ~ x", prior="normal"), TABLE, method=QUICK)
    assert ev.compare({"own": own, "formula": formula}).num_observations == 10


@pytest.mark.slow
def test_one_row_says_nothing_about_effects():
    found = estimate("y ~ x", {"y": [3.0], "x": [2.0]}, family="poisson")
    null = estimate("y ~ 1", {"y": [3.0]}, family="poisson")
    assert found.log_evidence == pytest.approx(null.log_evidence, abs=4 * found.standard_error + 0.02)


@pytest.mark.slow
def test_units_of_columns_do_not_matter_to_other_families():
    table = {"y": np.round(ATTITUDE["rating"]), "x": ATTITUDE["complaints"]}
    scaled = {**table, "x": 1000 * table["x"]}
    one, other = (estimate("y ~ x", each, family="poisson") for each in (table, scaled))
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-3)
    np.testing.assert_allclose(one.posterior["x"], 1000 * other.posterior["x"], rtol=1e-3)
