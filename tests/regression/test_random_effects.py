"""Effects that vary by group: against exact marginal densities, and latents as parameters."""

import warnings
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, poisson

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError
from evidentia.model.local.packs import GROUP_OF_STRIP, PRESENT, packs_of
from evidentia.regression.formula import parse
from evidentia.regression.random_effects import random_effects_of
from evidentia.regression.scaled_response import Response

SIZES = (1, 2, 9, 3, 40, 1, 5)


def ragged(seed=0):
    """Rows of seven groups of 1 to 40, mixed, with a column that varies and a second factor."""
    generator = np.random.default_rng(seed)
    group = generator.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    x = generator.normal(size=len(group))
    item = generator.integers(0, 3, len(group))
    y = 0.5 * x + generator.normal(size=len(SIZES))[group] + generator.normal(size=len(group))
    return pd.DataFrame({"y": y, "x": x, "g": [f"group {one}" for one in group], "item": item})


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(0, 100))
@settings(max_examples=50, deadline=None)
def test_every_row_has_its_place_beside_its_group(sizes, seed):
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    packs = packs_of(codes)
    packed = packs.arrays({"code": codes, "row": np.arange(len(codes))})
    present = packed[PRESENT]
    assert sorted(packed["row"][present]) == list(range(len(codes)))
    pack, strip, _ = np.nonzero(present)
    number = pack * packs.groups + packed[GROUP_OF_STRIP][pack, strip]
    found = {(int(one), int(code)) for one, code in zip(number, packed["code"][present], strict=True)}
    assert len(found) == len(sizes) == len({one for one, _ in found})
    assert number.max(initial=0) < packs.shape[0] * packs.groups
    assert present.size <= 3 * len(codes) + 3 * max(sizes)  # beside the largest group's own pack


def test_groups_of_one_size_are_packs_without_padding():
    packs = packs_of(np.repeat(np.arange(1000), 20))
    assert packs.shape == (1000, 1, 20) and packs.groups == 1


def gaussian_log_likelihood(formula, table, params, scale=0.8):
    """The sum of what `log_likelihood` gives for packs, with y - 0.3 as the fixed part."""
    varying = random_effects_of(parse(formula), table)
    rows = {"y": table["y"].to_numpy(np.float32)}
    arrays, _ = varying.packed(rows)

    def log_density(predictor, params, rows):
        return dist.Normal(predictor, scale).log_prob(rows["y"])

    function = varying.log_likelihood(log_density, lambda params, rows: 0.3 + 0 * rows["y"])
    params = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    values = jax.jit(function)(params, arrays)
    return float(np.sum(np.asarray(values, np.float64))), varying


def test_the_marginal_likelihood_of_gaussian_rows_is_exact():
    table = ragged()
    half = np.linalg.cholesky([[1.0, -0.4], [-0.4, 1.0]])
    params = {"sd(Intercept|g)": 0.9, "sd(x|g)": 0.5, "cholesky(g)": half}
    found, varying = gaussian_log_likelihood("y ~ x + (x | g)", table, params)
    x = ((table["x"] - table["x"].mean()) / table["x"].std(ddof=0)).to_numpy()
    assert varying.inner.names == ("Intercept", "x")
    factor = np.diag([0.9, 0.5]) @ half
    columns = np.column_stack([np.ones(len(x)), x]) @ factor
    same = table["g"].to_numpy()[:, None] == table["g"].to_numpy()[None]
    covariance = same * (columns @ columns.T) + 0.64 * np.eye(len(x))
    exact = multivariate_normal.logpdf(table["y"], np.full(len(x), 0.3), covariance)
    assert found == pytest.approx(exact, abs=0.01)


def test_other_factors_are_parameters_of_their_own():
    table = ragged()
    effects = np.array([[-1.0], [0.0], [2.0]])
    params = {"sd(Intercept|g)": 0.9, "sd(Intercept|item)": 0.5, "effects(item)": effects}
    found, varying = gaussian_log_likelihood("y ~ x + (1 | g) + (1 | item)", table, params)
    assert [one.name for one in varying.factors] == ["g", "item"]
    same = table["g"].to_numpy()[:, None] == table["g"].to_numpy()[None]
    mean = 0.3 + 0.5 * effects[table["item"], 0]
    exact = multivariate_normal.logpdf(table["y"], mean, 0.81 * same + 0.64 * np.eye(len(table)))
    assert found == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("formula", ["y ~ x + (x || g)", "y ~ x + (1 | g) + (0 + x | g)"])
def test_effects_of_different_terms_are_not_correlated(formula):
    table = ragged().assign(x=lambda rows: rows["x"] + 3)
    params = {"sd(Intercept|g)": 0.9, "sd(x|g)": 0.5}
    found, varying = gaussian_log_likelihood(formula, table, params)
    x = table["x"].to_numpy()
    columns = np.column_stack([np.ones(len(x)), x / np.sqrt(np.mean(x**2))]) @ np.diag([0.9, 0.5])
    same = table["g"].to_numpy()[:, None] == table["g"].to_numpy()[None]
    covariance = same * (columns @ columns.T) + 0.64 * np.eye(len(x))
    exact = multivariate_normal.logpdf(table["y"], np.full(len(x), 0.3), covariance)
    assert found == pytest.approx(exact, abs=0.01)
    response = Response({}, scale=2.0)
    shown = varying.in_table_units({name: np.full(3, value) for name, value in params.items()}, response)
    assert shown.keys() == params.keys()  # no correlation
    assert dict(varying.priors(response, {})).keys() == params.keys()


def test_terms_of_one_factor_may_have_correlations_each():
    table = ragged().assign(z=lambda rows: rows["x"] ** 2, w=lambda rows: np.cos(rows["x"]))
    varying = random_effects_of(parse("y ~ (x | g) + (0 + z + w | g)"), table)
    priors = dict(varying.priors(Response({}), {}))
    correlations = {"cholesky(Intercept,x|g)", "cholesky(z,w|g)"}
    assert correlations < priors.keys()
    halves = {
        name: np.linalg.cholesky([[1.0, r], [r, 1.0]])
        for name, r in zip(sorted(correlations), (0.3, -0.6), strict=True)
    }
    sds = dict.fromkeys(varying.sd_names, np.float32(1.0))
    factor = np.asarray(varying.inner.factor({**sds, **halves}))
    np.testing.assert_allclose(factor[:2, :2], halves["cholesky(Intercept,x|g)"], atol=1e-6)
    np.testing.assert_allclose(factor[2:, 2:], halves["cholesky(z,w|g)"], atol=1e-6)
    assert not factor[:2, 2:].any() and not factor[2:, :2].any()


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ (1 | g)",
        "y ~ (x | g)",
        "y ~ (x + z | g)",
        "y ~ (0 + x | g)",
        "y ~ (x + z || g)",
        "y ~ (x | g) + (0 + z | g)",
    ],
)
def test_the_intercept_is_where_all_columns_are_zero(formula):
    table = ragged().assign(x=lambda rows: rows["x"] + 50, z=lambda rows: rows["x"] ** 2)
    grouped = random_effects_of(parse(formula), table).inner
    generator = np.random.default_rng(5)
    columns = table.assign(Intercept=1.0)[list(grouped.names)].to_numpy()
    effects = generator.normal(size=grouped.size)  # of standardised columns
    np.testing.assert_allclose(columns @ (grouped.at_zero @ effects), grouped.columns @ effects, atol=1e-9)


@pytest.mark.parametrize("formula", ["y ~ x + (x | g)", "y ~ x + (x | g) + (x | item)"])
def test_deviations_and_correlations_are_those_where_the_columns_are_zero(formula):
    table = ragged().assign(x=lambda rows: 2 * rows["x"] + 7)
    varying = random_effects_of(parse(formula), table, is_gaussian=True)
    half = np.linalg.cholesky([[1.0, -0.4], [-0.4, 1.0]])
    params = {}
    for one in varying.factors:
        params |= {f"sd(Intercept|{one.name})": 0.9, f"sd(x|{one.name})": 0.5, f"cholesky({one.name})": half}
    found = varying.in_table_units(
        {name: np.asarray(one)[None] for name, one in params.items()}, Response({}, scale=3.0)
    )
    mean, width = table["x"].mean(), table["x"].std(ddof=0)
    unit = 3.0 * np.array([[1.0, -mean / width], [0.0, 1 / width]]) @ np.diag([0.9, 0.5]) @ half
    covariance = unit @ unit.T
    for one in varying.factors:
        deviations = [found[f"sd({name}|{one.name})"][0] for name in one.names]
        np.testing.assert_allclose(deviations, np.sqrt(np.diag(covariance)), rtol=1e-5)
        correlation = found[f"cor(Intercept,x|{one.name})"][0]
        assert correlation == pytest.approx(covariance[0, 1] / np.prod(deviations), rel=1e-5)


@pytest.mark.reference
@pytest.mark.parametrize(("bars", "has_correlation"), [("|", True), ("||", False)])
def test_deviations_are_those_of_lme4(shared_data, bars, has_correlation):
    """lme4's REML: 24.74 and 5.92, correlation 0.07; uncorrelated, 25.05 and 5.99."""
    table = pd.read_csv(shared_data / "tables" / "sleepstudy.csv")
    regression = ev.Regression(f"Reaction ~ Days + (Days {bars} Subject)")
    found = ev.estimate(regression, table)
    draws = {name: np.exp(found.weighted.log_weights) @ values for name, values in found.weighted.items()}
    # Posterior means are larger than modes: 29.6 and 6.1, with deviations of 7 and 1.4.
    assert draws["sd(Intercept|Subject)"] == pytest.approx(25, abs=8)
    assert draws["sd(Days|Subject)"] == pytest.approx(5.9, abs=1.0)
    assert ("cor(Intercept,Days|Subject)" in draws) == has_correlation
    effects = ev.group_effects(regression, found, table)
    # lme4's conditional modes of the subjects 308, 309 and 310
    np.testing.assert_allclose(effects["Intercept"].iloc[:3], [2.26, -40.4, -38.96], atol=6)
    np.testing.assert_allclose(effects["Days"].iloc[:3], [9.2, -8.62, -5.45], atol=1.2)


def counts():
    generator = np.random.default_rng(2)
    group = np.repeat(np.arange(8), 5)
    x = generator.normal(size=40)
    y = generator.poisson(np.exp(0.5 + 0.4 * x + 0.7 * generator.normal(size=8)[group]))
    return pd.DataFrame({"y": y, "x": x, "g": group})


@pytest.mark.reference
# With latents as parameters the posterior is a funnel: of ten seeds two warn, this one too.
@pytest.mark.filterwarnings("ignore:model. the largest importance weights:evidentia.DiagnosticWarning")
def test_the_evidence_is_that_of_latents_as_parameters():
    table = counts()
    found = ev.estimate(ev.Regression("y ~ x + (1 | g)", family="poisson"), table)
    x = ((table["x"] - table["x"].mean()) / table["x"].std(ddof=0)).to_numpy(np.float32)
    group, y = table["g"].to_numpy(), table["y"].to_numpy(np.float32)

    def log_likelihood(params, batch):
        effect = params["sd"] * params["u"][batch["g"]]
        return dist.Poisson(jnp.exp(params["a"] + params["b"] * batch["x"] + effect)).log_prob(batch["y"])

    normal = dist.Normal(0, 2.5)
    units = dist.Normal(0, 1).expand([8]).to_event(1)
    explicit = ev.Model({"a": normal, "b": normal, "sd": dist.Exponential(1.0), "u": units}, log_likelihood)
    other = ev.estimate(explicit, {"x": x, "g": group, "y": y})
    joint = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * joint < 0.6
    assert found.num_observations == 40 == found.trajectory.num_observations[-1]
    assert {"Intercept", "x", "sd(Intercept|g)"} <= found.posterior.keys()
    assert "512 particles" in found.diagnostics["chosen"]
    without = ev.estimate(ev.Regression("y ~ x", family="poisson"), table)
    assert ev.compare({"with": found, "without": without}).best == "with"


@pytest.mark.reference
def test_deviations_and_correlations_are_in_units_of_the_table():
    generator = np.random.default_rng(3)
    group = np.repeat(np.arange(30), 8)
    x = generator.normal(5.0, 2.0, size=240)
    effects = generator.normal(size=(30, 2)) * [30.0, 10.0]
    y = 400 + effects[group, 0] + (x - 5) * (20 + effects[group, 1]) + generator.normal(0, 15, 240)
    table = pd.DataFrame({"y": y, "x": x, "g": group})
    regression = ev.Regression("y ~ x + (1 + x | g)", prior="normal")
    found = ev.estimate(regression, table)
    draws = {name: np.exp(found.weighted.log_weights) @ values for name, values in found.weighted.items()}
    # Intercepts are at x = 0. Deviations of 30 groups have a relative error of 1 / √60 = 0.13.
    effects[:, 0] -= 5 * effects[:, 1]
    assert draws["sd(Intercept|g)"] == pytest.approx(np.std(effects[:, 0]), rel=0.25)
    assert draws["sd(x|g)"] == pytest.approx(np.std(effects[:, 1]), rel=0.25)
    assert abs(draws["cor(Intercept,x|g)"] - np.corrcoef(effects.T)[0, 1]) < 0.3
    assert draws["scale"] == pytest.approx(15, rel=0.25)
    found_effects = ev.group_effects(regression, found, table)
    assert list(found_effects.columns) == ["Intercept", "Intercept (sd)", "x", "x (sd)"]
    # Each group's own fit has deviations 5 / 2 = 2.7 for x, and at 0 about 5 times that.
    assert np.std(found_effects["Intercept"] - effects[:, 0]) < 25
    assert np.std(found_effects["x"] - effects[:, 1]) < 5


@pytest.mark.reference
def test_nested_factors_and_replaced_priors():
    table = counts().assign(h=lambda table: table.index % 2)
    regression = ev.Regression(
        "y ~ x + (1 | h/g)", family="poisson", priors={"sd(Intercept|h:g)": dist.HalfNormal(0.5)}
    )
    found = ev.estimate(regression, table, method=ev.SGAIS(num_particles=64))
    assert found.posterior["effects(h)"].shape == (found.num_particles, 2, 1)
    assert np.exp(found.weighted.log_weights) @ found.weighted["sd(Intercept|h:g)"] < 1.0


@pytest.mark.parametrize(
    ("formula", "columns", "terms", "has_intercept"),
    [
        ("y ~ (1 | g)", ["y", "g"], (), True),
        ("y ~ x + (x | g)", ["y", "x", "g"], ("x",), True),
        ("y ~ x + (0 + log(x) | g)", ["y", "x", "g"], ("log(x)",), False),
        ("y ~ 0 + x + (1 | g:h)", ["y", "x", "g", "h"], (), True),
        ("y ~ x + (1 || g)", ["y", "x", "g"], (), True),
        ("y ~ x + (0 + x || g)", ["y", "x", "g"], ("x",), False),
    ],
)
def test_formulas(formula, columns, terms, has_intercept):
    parsed = parse(formula)
    (varying,) = parsed.varying
    assert parsed.variables == columns
    assert (varying.terms, varying.has_intercept) == (terms, has_intercept)
    assert parse(parsed.with_terms(parsed.terms)).varying == parsed.varying
    assert parsed.has_intercept == ("0 + x + (1" not in formula)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("(x || g)", "(1 | g) + (0 + x | g)"),
        ("(1 + x + log(z) || g)", "(1 | g) + (0 + x | g) + (0 + log(z) | g)"),
        ("(0 + x + z || a/b)", "(0 + x | a) + (0 + z | a) + (0 + x | a:b) + (0 + z | a:b)"),
    ],
)
def test_two_bars_make_a_term_of_each_effect(short, long):
    found, written = parse(f"y ~ x + {short}"), parse(f"y ~ x + {long}")
    assert found.varying == written.varying and found.terms == written.terms
    assert parse(found.with_terms(found.terms)).varying == found.varying


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("y ~ x | g", {}, r"outside of parentheses: write \(1 \| group\)"),
        ("y ~ (1 | g) + (x | g)", {}, r"two terms by g in which the intercept varies; write them as one"),
        ("y ~ (x || g) + (0 + x | g)", {}, r"two terms by g in which x varies; write them as one"),
        ("y ~ (0 || g)", {}, r"has \(0 \|\| g\); needed are effects and columns"),
        ("y ~ (0 | g)", {}, r"needed are effects and columns"),
        ("y ~ (1 | log(g))", {}, r"\| right of ~ outside of parentheses|needed are effects and columns"),
        ("y ~ (1 | g)", {"prior": "jzs"}, "need another family than categorical and prior='normal'"),
        ("y ~ (1 | g)", {"family": "categorical"}, "need another family than categorical"),
    ],
)
def test_unusable_formulas_are_refused(formula, options, message):
    with pytest.raises(ConfigurationError, match=message):
        ev.Regression(formula, **options)


@pytest.mark.parametrize(
    ("formula", "changes", "message"),
    [
        ("y ~ x + (1 | g)", {"g": 1}, "'g' has one level in the rows used"),
        ("y ~ (x | g)", {"x": 1.0}, "'x' has the same value in all rows used: its effect cannot vary"),
    ],
)
def test_tables_without_groups_are_refused(formula, changes, message):
    table = pd.DataFrame({"y": np.arange(1002) % 5, "x": np.arange(1002.0), "g": np.arange(1002) % 3})
    with pytest.raises(DataError, match=message):
        ev.estimate(ev.Regression(formula, family="poisson"), table.assign(**changes))


@pytest.mark.slow
def test_rows_without_a_group_are_left_out_with_a_warning():
    table = counts().astype({"g": float})
    table.loc[3, "g"] = np.nan
    with pytest.warns(ev.errors.EvidenceWarning, match=r"1 of 40 rows have missing values \(g 1\)"):
        found = ev.estimate(
            ev.Regression("y ~ (1 | g)", family="poisson"), table, method=ev.SGAIS(num_particles=32)
        )
    assert found.num_observations == 39


def test_selection_takes_no_random_effects():
    with pytest.raises(ConfigurationError, match="select_terms takes no effects that vary by group"):
        ev.select_terms("y ~ x + (1 | g)", counts(), family="poisson")


@pytest.mark.reference
def test_group_effects_are_those_of_conjugate_regression():
    table = ragged()
    tight = {"sd(Intercept|g)": dist.Uniform(0.999, 1.001), "scale": dist.Uniform(0.999, 1.001)}
    regression = ev.Regression(
        "y ~ x + (1 | g)", prior="normal", priors={**tight, "x": dist.Normal(0.5, 1e-3)}
    )
    evidence = ev.estimate(regression, table, method=ev.SGAIS(num_particles=64))
    found = ev.group_effects(regression, evidence, table)
    assert list(found.columns) == ["Intercept", "Intercept (sd)"] and list(found.index) == sorted(
        set(table["g"])
    )
    # Given the effect of x, intercept and group effects are jointly normal.
    groups = (table["g"].to_numpy()[:, None] == np.array(found.index)).astype(float)
    columns = np.column_stack([np.ones(len(table)), groups])
    wide = (2.5 * table["y"].std(ddof=0)) ** -2
    precision = columns.T @ columns + np.diag([wide, *np.ones(len(SIZES))])
    rest = table["y"] - table["y"].mean() - 0.5 * (table["x"] - table["x"].mean())
    mean = np.linalg.solve(precision, columns.T @ rest)[1:]
    deviation = np.sqrt(np.diag(np.linalg.inv(precision)))[1:]
    # 32 draws of the intercept, whose deviation is about 0.4: 4 · 0.4 / √32
    np.testing.assert_allclose(found["Intercept"], mean, atol=0.3)
    np.testing.assert_allclose(found["Intercept (sd)"], deviation, rtol=0.35)


@pytest.mark.slow
def test_group_effects_need_a_result_of_the_same_regression():
    table = counts()
    plain, varying = (ev.Regression(f"y ~ {terms}", family="poisson") for terms in ("x", "(1 | g)"))
    other = ev.estimate(plain, table, method=ev.SGAIS(num_particles=32))
    with pytest.raises(ConfigurationError, match="model must have effects that vary by group"):
        ev.group_effects(plain, other, table)
    with pytest.raises(ConfigurationError, match="evidence must be of .* got that of 'y ~ x'"):
        ev.group_effects(varying, other, table)
    dispersed = ev.Regression("y ~ (1 | g)", family="negative-binomial")
    found = ev.estimate(varying, table, method=ev.SGAIS(num_particles=32))
    with pytest.raises(ConfigurationError, match="it has the parameters of another model"):
        ev.group_effects(dispersed, found, table)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        (
            {"cholesky(g)": dist.LKJCholesky(2, 5.0)},
            r"priors names 'cholesky\(g\)', which is not a parameter",
        ),
        (
            {"sd(x|g)": 3.0},
            r"priors\['sd\(x\|g\)'\] must be a NumPyro distribution of one number.*; got 3\.0",
        ),
    ],
)
def test_priors_that_cannot_be_replaced_are_refused(priors, message):
    with pytest.raises(ConfigurationError, match=message):
        ev.estimate(ev.Regression("y ~ x + (x | g)", family="poisson", priors=priors), counts())


def answers(deviation_of_items):
    generator = np.random.default_rng(4)
    person, item = np.divmod(np.arange(1200), 20)
    logits = generator.normal(size=60)[person] + deviation_of_items * generator.normal(size=20)[item]
    return pd.DataFrame(
        {"y": generator.uniform(size=1200) < 1 / (1 + np.exp(-logits)), "id": person, "item": item}
    )


@pytest.mark.reference
def test_effects_of_levels_with_many_rows_are_found_about_their_mode():
    table, regression = answers(1.0), ev.Regression("y ~ (1 | id) + (1 | item)", family="bernoulli")
    found = ev.estimate(regression, table)
    with warnings.catch_warnings():  # its weights are just uneven enough for one, or not
        warnings.simplefilter("ignore", ev.errors.DiagnosticWarning)
        other = ev.estimate(regression, table, method=ev.SGAIS(num_particles=128))
    joint = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * joint < 1.0
    assert isinstance(found.method, ev.Laplace) and found.num_observations == 1200
    shown = [ev.group_effects(regression, one, table, factor="item")["Intercept"] for one in (found, other)]
    np.testing.assert_allclose(*shown, atol=0.2)  # two standard errors of 128 draws
    persons = [ev.group_effects(regression, one, table)["Intercept"] for one in (found, other)]
    np.testing.assert_allclose(*persons, atol=0.4)  # 32 draws each


@pytest.mark.reference
def test_groups_whose_parameters_are_about_gaussian_take_laplaces_method():
    generator = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 10)
    logits = 0.5 + 1.2 * generator.normal(size=60)[group]
    table = pd.DataFrame({"y": generator.uniform(size=600) < 1 / (1 + np.exp(-logits)), "g": group})
    regression = ev.Regression("y ~ (1 | g)", family="bernoulli")
    found = ev.estimate(regression, table)
    assert isinstance(found.method, ev.Laplace) and found.standard_error < 0.02
    assert found.diagnostics["chosen"] == "Laplace, as the posterior is about Gaussian at its mode"
    other = ev.estimate(regression, table, method=ev.SGAIS(num_particles=128))
    joint = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * joint < 0.4
    none_but_two = table.assign(
        y=table["y"] & (group % 50 == 0)
    )  # their inner integrals are far from Gaussian
    skewed = ev.estimate(regression, none_but_two)
    exact = -34.0735  # a sum over a grid of intercepts, deviations and effects
    assert abs(skewed.log_evidence - exact) < 4 * skewed.standard_error < 0.4


@pytest.mark.reference
def test_every_row_may_be_a_group_of_its_own():
    """100,000 overdispersed counts: against a sum over a grid of all that varies."""
    generator = np.random.default_rng(0)
    y = generator.poisson(np.exp(0.5 + 0.7 * generator.normal(size=100_000)))
    found = ev.estimate(
        ev.Regression("y ~ (1 | g)", family="poisson"), pd.DataFrame({"y": y, "g": np.arange(len(y))})
    )
    counts, numbers = np.unique(y, return_counts=True)
    effects = np.linspace(-9, 9, 721)

    def log_joint(intercept, deviation):
        predictor = intercept + deviation * effects
        terms = poisson.logpmf(counts[:, None], np.exp(predictor)) + norm.logpdf(effects)
        of_counts = numbers @ (logsumexp(terms, axis=1) + np.log(effects[1] - effects[0]))
        return of_counts + norm.logpdf(intercept, 0, 2.5) - deviation

    axes = [np.linspace(*(np.mean(v) + np.array([-7, 7]) * np.std(v)), 41) for v in found.posterior.values()]
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    truth = logsumexp([log_joint(*point) for point in product(*axes)]) + np.log(cell)
    assert abs(found.log_evidence - truth) < 4 * found.standard_error < 0.4


@pytest.mark.reference
def test_a_factor_without_effects_is_sampled_as_multiples_of_its_deviation():
    found = ev.estimate(ev.Regression("y ~ (1 | id) + (1 | item)", family="bernoulli"), answers(0.0))
    assert isinstance(found.method, ev.SGAIS)
