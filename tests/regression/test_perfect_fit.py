"""A response that the columns explain exactly: the evidence is infinite, and an error says so."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import evidentia as ev
from evidentia.regression import g_prior
from evidentia.regression.exact_rows import num_exact_rows
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.perfect_fit import check_model
from evidentia.regression.priors import JZS_SCALE
from evidentia.regression.table import as_table

ROWS = 40
GENERATOR = np.random.default_rng(0)
X = 3 + GENERATOR.standard_normal(ROWS)
Z, NOISE = GENERATOR.standard_normal((2, ROWS))
LEVELS = np.repeat(np.arange(8), 5)
OF_GROUP = GENERATOR.standard_normal(8)[LEVELS]
TABLE = {
    "x": X,
    "z": Z,
    "one": np.ones(ROWS),
    "y": 2 * X + 1,
    "noisy": 2 * X + NOISE,
    "positive": np.exp(X),
    "share": 1 / (1 + np.exp(-Z)),
    "g": np.array(list("abcdefgh"))[LEVELS],
    "of_group": OF_GROUP,
    "slopes": OF_GROUP * X,
}


@pytest.mark.parametrize("prior", ["jzs", "normal"])
@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        ("y ~ y", "'y'"),
        ("y ~ x + z", "'x'"),
        ("y ~ 0 + x + one", "'x', 'one'"),
        ("I(noisy - x) ~ noisy + x + z", "'noisy', 'x'"),
        ("y ~ z + offset(2 * x - z)", "'z'"),
    ],
)
def test_the_columns_are_named(formula, columns, prior):
    with pytest.raises(ev.DataError) as caught:
        ev.estimate(ev.Regression(formula, prior=prior), TABLE)
    message = str(caught.value)
    assert message.startswith(
        f"{formula}: the response is explained exactly by {columns} (but for a share of"
    )
    assert "so that the evidence is infinite" in message
    assert (
        "prior='unit-information'" if prior == "jzs" else "give the scale a prior that excludes 0"
    ) in message


@pytest.mark.parametrize(
    ("formula", "family", "by"),
    [
        ("y ~ x", "student-t", "'x'"),
        ("positive ~ x", "gamma", "'x'"),
        ("share ~ z", "beta", "'z'"),
        ("of_group ~ z + (1 | g)", "gaussian", "'z', the groups of 'g'"),
        ("slopes ~ (0 + x | g)", "gaussian", "the groups of 'g'"),
    ],
)
def test_all_families_whose_likelihood_has_no_bound(formula, family, by):
    with pytest.raises(ev.DataError, match=f"the response is explained exactly by {by}"):
        ev.estimate(ev.Regression(formula, family=family, prior="normal"), TABLE)


GROUPED = {
    **TABLE,
    "row": np.array([f"r{place}" for place in range(ROWS)]),
    "item": np.arange(ROWS) % 5,
    "year": 2000 + np.arange(ROWS) % 7,
    "two": OF_GROUP + 0.5 * (np.arange(ROWS) % 5),
    "lines": OF_GROUP * (np.arange(ROWS) % 7) + np.roll(OF_GROUP, 5),
}


@pytest.mark.parametrize(
    ("formula", "by"),
    [
        ("y ~ x + (1 | row)", "'x'"),
        ("y ~ x + (1 | row) + (1 | g)", "'x'"),
        ("of_group ~ z + (1 | g) + (1 | row)", "'z', the groups of 'g'"),
        ("of_group ~ (1 | g) + (0 + x | g)", "the groups of 'g'"),
        ("two ~ x + (1 | g) + (1 | item)", "'x', the groups of 'g', the groups of 'item'"),
        ("lines ~ (year || g)", "the groups of 'g'"),
        ("lines ~ year + (year | g)", "'year', the groups of 'g'"),
    ],
)
def test_any_of_several_groups_may_explain_all(formula, by):
    with pytest.raises(ev.DataError, match=rf"the response is explained exactly by {by} \(but"):
        ev.estimate(ev.Regression(formula), GROUPED)


@pytest.mark.parametrize(
    ("formula", "exact"),
    [("line ~ x", 33), ("line ~ x + z", 33), ("line ~ x + g", 33), ("zeros ~ 1", 25)],
)
def test_a_response_that_is_exact_in_most_rows_is_refused_for_student_t(formula, exact):
    outlier = np.arange(ROWS) % 6 == 0
    table = {**TABLE, "line": 2 * X + 1 + 30 * NOISE * outlier, "zeros": NOISE * (np.arange(ROWS) % 8 > 4)}
    with pytest.raises(
        ev.DataError, match=rf"explained exactly in {exact} of 40 rows, .* give the scale a prior"
    ):
        ev.estimate(ev.Regression(formula, family="student-t"), table)
    with pytest.raises(ev.DataError, match="explained exactly in|must have terms"):
        ev.select_terms(formula, table, family="student-t")
    if formula != "zeros ~ 1":
        assert np.isfinite(ev.estimate(ev.Regression(formula), table).log_evidence)


def test_rounded_responses_have_no_plane_of_most_rows():
    columns = np.column_stack([np.ones(ROWS), X])
    assert num_exact_rows(columns, np.round(2 * X + NOISE, 1)) < 8
    assert num_exact_rows(columns, 2 * X + 1e-5 * NOISE) < 8


@pytest.mark.parametrize("formula", ["noisy ~ x + (1 | row)", "noisy ~ (year || g) + (1 | item)"])
def test_noise_is_not_explained_by_groups(formula):
    parsed = parse(formula)
    table = as_table(GROUPED, parsed.variables)
    frame = frame_of(parsed, table)
    assert ev.Regression(formula).prepared(frame, table, None).check(frame, table) == 0


def test_rounding_to_float32_hides_no_perfect_fit():
    table = {"x": 1000 + X, "y": (2 * X + 5000).astype(np.float32)}
    with pytest.raises(ev.DataError, match="explained exactly by 'x'"):
        ev.estimate(ev.Regression("y ~ x"), table)


def test_the_evidence_is_finite_where_g_is_known():
    """Under the unit-information prior the log Bayes factor is (n - 1 - p)/2 log(1 + n)."""
    found, null = (ev.estimate(ev.Regression(f"y ~ {x}", prior="unit-information"), TABLE) for x in "x1")
    assert found.log_evidence - null.log_evidence == pytest.approx((ROWS - 2) / 2 * np.log1p(ROWS), abs=1e-6)


def test_a_scale_that_cannot_be_zero_makes_the_evidence_finite():
    priors = {
        "bounded": dist.Uniform(0.5, 0.6),
        "vanishing": dist.InverseGamma(2.0, 1.0),
        "known to be small": dist.LogNormal(-16.0, 0.1),
    }
    table = as_table(TABLE, ["x", "y"])
    frame = frame_of(parse("y ~ x"), table)
    law = ev.regression.families.family("gaussian")
    for name in ("bounded", "vanishing"):
        assert check_model(frame, table, law, {"scale": priors[name]}) == 0
    with pytest.raises(ev.DataError, match="infinite"):
        check_model(frame, table, law, {"scale": priors["known to be small"]})


def test_more_columns_than_rows_explain_anything():
    """Groups and columns with as many directions as rows leave nothing to say about the fit."""
    table = as_table({**TABLE, "row": np.arange(ROWS).astype(str)}, ["z", "of_group"])
    table["row"] = [f"r{place}" for place in range(ROWS)]
    formula = "of_group ~ z + (1 | row)"
    regression, frame = ev.Regression(formula), frame_of(parse(formula), table)
    asked = regression.prepared(frame, table, None)
    assert asked.check(frame, table) == 0


def test_terms_that_explain_all_are_refused_in_a_selection():
    with pytest.raises(ev.DataError, match="y ~ x: the response is explained exactly by 'x'"):
        ev.select_terms("y ~ z + x + noisy", TABLE)
    with pytest.raises(ev.DataError, match="y ~ x: the response is explained exactly by 'x'"):
        ev.select_terms("y ~ z + x", TABLE, prior="normal")
    assert ev.select_terms("y ~ z + x", TABLE, prior="unit-information").formulas[0] == "y ~ x"


def test_terms_that_explain_all_are_refused_in_a_search():
    """Few of 60 columns explain 50 rows; all 60 would explain any."""
    generator = np.random.default_rng(1)
    table = {f"v{place}": generator.standard_normal(50) for place in range(60)}
    table["y"] = table["v3"] - 2 * table["v7"]
    terms = " + ".join(name for name in table if name != "y")
    with pytest.raises(ev.DataError, match="explained exactly by 'v3', 'v7'"):
        ev.select_terms(f"y ~ {terms}", table)


def test_nearly_perfect_fits_have_the_error_of_rounding():
    """Of likelihoods in float32; exact evidences have all digits."""
    near = as_table(
        {"x": np.resize(X, 20_000), "y": np.resize(X, 20_000) + 1e-6 * np.resize(NOISE, 20_000)}, ["x", "y"]
    )
    frame, law = frame_of(parse("y ~ x"), near), ev.regression.families.family("gaussian")
    with pytest.warns(
        ev.EvidenceWarning, match=r"y ~ x: the columns leave a share of only 1e-12.* uncertain by about"
    ):
        assert check_model(frame, near, law, {"scale": dist.Exponential(1.0)}) > 1
    assert ev.estimate(ev.Regression("y ~ x"), near).standard_error == 0


NEARLY = 10.0 ** -np.arange(1, 5)  # deviations of the difference of two columns


@pytest.mark.parametrize("apart", NEARLY)
@pytest.mark.parametrize("prior", ["jzs", "unit-information"])
def test_the_evidence_depends_on_the_span_of_columns_only(apart, prior):
    """The difference of nearly equal columns explains the response but for a thousandth."""
    generator = np.random.default_rng(2)
    a, z, noise = generator.standard_normal((3, 1000))
    table = {"a": a + 100, "b": a + apart * z, "y": apart * (z + 1e-3 * noise)}
    found, other = (
        ev.estimate(ev.Regression(f"y ~ {terms}", prior=prior), table) for terms in ("a + b", "a + I(a - b)")
    )
    assert found.log_evidence == pytest.approx(other.log_evidence, abs=1e-5)
    sums = np.linalg.lstsq(np.column_stack([np.ones(1000), a, z]), table["y"], rcond=None)[1]
    exact = 1 - sums[0] / np.sum((table["y"] - table["y"].mean()) ** 2)
    assert 1 - found.diagnostics["r_squared"] == pytest.approx(1 - exact, rel=1e-6)


@pytest.mark.parametrize("apart", NEARLY)
@pytest.mark.parametrize("prior", ["jzs", "normal"])
@pytest.mark.parametrize("rows", [30, 3000])
def test_columns_that_nearly_agree_hide_no_perfect_fit(apart, prior, rows):
    a, z = np.random.default_rng(3).standard_normal((2, rows))
    table = {"a": a, "b": a + apart * z}
    table["y"] = table["a"] - table["b"]
    with pytest.raises(ev.DataError, match="by 'a', 'b' .*Bayes factors for these columns are unbounded"):
        ev.estimate(ev.Regression("y ~ a + b", prior=prior), table)
    with pytest.raises(ev.DataError, match=r"y ~ a \+ b: the response is explained exactly"):
        ev.select_terms("y ~ a + b", table, prior=prior)


def test_noise_that_sums_hide_is_no_perfect_fit():
    """1 - R² is 10⁻¹², of which sums of products have one digit: against QR of the rows."""
    generator = np.random.default_rng(4)
    columns = np.array([1000, 0, -50]) + generator.standard_normal((200, 3))
    table = dict(zip("abc", columns.T, strict=True))
    table["y"] = columns @ [1.0, 2.0, 3.0] + 3e-6 * generator.standard_normal(200)
    found = ev.estimate(ev.Regression("y ~ a + b + c"), table)
    basis = np.linalg.qr(columns - columns.mean(axis=0))[0]
    centred = table["y"] - table["y"].mean()
    residuals = centred - basis @ (basis.T @ centred)
    residuals -= basis @ (basis.T @ residuals)
    share = np.sum(residuals**2) / np.sum(centred**2)
    assert share < 1e-11
    assert 1 - found.diagnostics["r_squared"] == pytest.approx(share, rel=1e-3)
    sums = found.widths.sums
    null, fit = g_prior.log_evidence_of_null(sums), g_prior.Fit(share, np.ones(3), 3)
    assert found.log_evidence == pytest.approx(
        null + g_prior.log_bayes_factor(sums, fit, JZS_SCALE), abs=0.01
    )


def test_files_are_refined_as_tables_are(tmp_path):
    a, z, noise = np.random.default_rng(5).standard_normal((3, 500))
    table = pd.DataFrame({"a": a, "b": a + 1e-4 * z, "y": z + 1e-3 * noise, "w": z})
    table["w"] = table["a"] - table["b"]
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    source = ev.read_parquet(tmp_path / "rows.parquet")
    found, other = (ev.estimate(ev.Regression("y ~ a + b"), one) for one in (source, table))
    assert found.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    with pytest.raises(ev.DataError, match="explained exactly by 'a', 'b'"):
        ev.estimate(ev.Regression("w ~ a + b"), source)


def test_selected_models_have_the_evidences_of_their_formulas():
    """Some of which sums of products would round by nats."""
    generator = np.random.default_rng(6)
    table = dict(zip("acz", generator.normal(size=(3, 300)), strict=True))
    table["b"] = table["a"] + 1e-4 * table["z"]
    table["y"] = table["z"] + 1e-3 * generator.normal(size=300)
    selection = ev.select_terms("y ~ a + b + c", table)
    null = ev.estimate(ev.Regression("y ~ 1"), table).log_evidence
    for formula, factor in zip(selection.formulas, selection.log_bayes_factor, strict=True):
        found = ev.estimate(ev.Regression(formula), table).log_evidence - null
        assert factor == pytest.approx(found, abs=1e-3), formula
    assert selection.log_bayes_factor_error.max() < 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.EvidenceWarning")
def test_models_of_a_selection_have_the_error_of_rounding():
    generator = np.random.default_rng(0)
    table = {name: generator.normal(size=50) for name in "abc"}
    table["y"] = table["a"] + 2 * table["b"] + 1e-6 * generator.normal(size=50)
    selection = ev.select_terms("y ~ a + b + c", table, family="student-t")
    is_close = selection.included[:, :2].all(axis=1)
    assert (selection.log_bayes_factor_error[is_close] > 0.1).all()


COUNTS = np.resize([1, 2, 4, 8, 16], ROWS)
EXPLAINED = {
    "x": np.log(COUNTS),
    "k": COUNTS,
    "t": np.exp(1 + 0.5 * np.log(COUNTS)),
    "b": (COUNTS > 3).astype(int),
    "s": np.full(ROWS, 0.1),
    "y": 2 * np.log(COUNTS) + 1,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.EvidenceWarning")
@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("t ~ x", "exponential"),
        ("k ~ x", "poisson"),
        ("k ~ 0", "ordinal"),
        ("b ~ x", "bernoulli"),
        ("y | se(s) ~ 1", "gaussian"),
    ],
)
def test_a_bounded_likelihood_has_a_finite_evidence_that_prior_draws_confirm(formula, family):
    """Also where the columns separate the categories: only the prior bounds the effects then."""
    regression = ev.Regression(formula, family=family)
    found = ev.estimate(regression, EXPLAINED)
    plain = ev.estimate(regression, EXPLAINED, method=ev.PriorSampling(num_particles=100_000))
    error = np.hypot(found.standard_error, plain.standard_error)
    assert error < 0.1
    assert abs(found.log_evidence - plain.log_evidence) < 4 * error
