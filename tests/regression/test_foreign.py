"""Functions, constants and families as R and brms have them: what to write here."""

import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError
from evidentia.regression.foreign import FUNCTIONS

X = np.linspace(1.0, 4.0, 30)
TABLE = {
    "y": np.sin(X * 5),
    "x": X,
    "s": np.arange(30) % 4,
    "f": np.arange(30) % 3,
    "g": np.resize(list("abc"), 30),
}


@pytest.mark.parametrize(
    "formula, words",
    [
        ("y ~ x + as.character(g)", r"there is no function as\.character\. A category .* C\(x\)"),
        ("y ~ as.numeric (x)", r"there is no function as\.numeric\. A column of numbers is used as it is"),
        (
            "y ~ rcs(x, 3)",
            r"there is no function rcs\. A natural spline is cr\(x, df=4, constraints='center'\)",
        ),
        (
            "y ~ cbind(s, f)",
            r"Two counts are the whole response: cbind\(successes, failures\) ~ x, of the family binomial",
        ),
        ("I(Surv(x, f)) ~ g", "Censored times are the response"),
        ("y ~ I(ln(x))", r"there is no function ln\. Write log\(x\)"),
        ("y ~ relevel(g, 'b')", r"that of C\(g, contr\.treatment\('b'\)\)"),
        ("y ~ Error(g)", r"Effects that vary by the groups of a column are \(1 \| g\)"),
        ("y ~ (s(x) | g)", r"there is no function s\. A smooth effect is a spline, bs\(x, df=4\)"),
        ("y | weights(s) ~ x", r"How often each row occurred is weights='n' of Regression"),
        ("s | trials(f) ~ x", r"is 'successes \| trials', as in 's \| n ~ x'"),
        (
            "y ~ max(x, f)",
            r"there is no function max\. Write np\.maximum\(x, z\), or x\.max\(\) for that of all",
        ),
        ("y ~ I(x - min(x))", r"there is no function min\. Write np\.minimum\(x, z\), or x\.min\(\)"),
        ("y ~ C(g, sum)", r"there is no contrast sum\. Write C\(g, contr\.sum\(\)\)"),
        ("y ~ x + C(g,contr.helmert)", r"Write C\(g, contr\.helmert\(\)\)"),
        ("y ~ poly(x, 2, raw = TRUE)", r"there is no constant TRUE\. Write True"),
    ],
)
def test_names_of_r_say_what_to_write(formula, words):
    with pytest.raises(ConfigurationError, match=words) as caught:
        ev.Regression(formula)
    assert formula in str(caught.value)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ C(s)",
        "y ~ bs(x, df=4)",
        "y ~ cr(x, df=4, constraints='center')",
        "y ~ np.minimum(x, f)",
        "y ~ np.maximum(x, f)",
        "y ~ I(x > 1.5)",
        "y ~ x:g",
        "y ~ C(g, contr.treatment('b'))",
        "y ~ C(g, contr.sum())",
        "y ~ C(g, contr.helmert())",
        "y ~ I(x - x.min())",
        "y ~ I(x.max() - x)",
        "y ~ poly(x, 2, raw=True)",
    ],
)
def test_what_is_to_be_written_works(formula):
    assert np.isfinite(ev.estimate(ev.Regression(formula), TABLE).log_evidence)


def test_the_advice_for_two_counts_works():
    assert ev.Regression("s | I(s + f) ~ x", family="binomial").variables == ["s", "f", "x"]


@pytest.mark.parametrize("name", ["sqrt", "log1p", "expm1", "sin", "cos", "tan", "exp", "log", "log2", "abs"])
def test_functions_of_numbers_have_their_usual_names(name):
    plain, of_numpy = (
        ev.estimate(ev.Regression(f"y ~ {function}(x)"), TABLE) for function in (name, f"np.{name}")
    )
    assert plain.log_evidence == pytest.approx(of_numpy.log_evidence, abs=1e-9)


def test_quoted_names_are_no_functions():
    for name in FUNCTIONS:
        assert ev.Regression(f"y ~ C(g, contr.treatment('{name}(x)'))").variables == ["y", "g"]


@pytest.mark.parametrize(
    "name, advice",
    [
        ("normal", "'gaussian'"),
        ("Gaussian", "'gaussian'"),
        ("Poisson", "'poisson'"),
        ("negbinomial", "'negative-binomial'"),
        ("Negative Binomial", "'negative-binomial'"),
        ("negative_binomial", "'negative-binomial'"),
        ("student_t", "'student-t'"),
        ("logistic", "'bernoulli'"),
        ("probit", "'bernoulli', link='probit'"),
        ("multinomial", "'categorical'"),
        ("cumulative", "'ordinal'"),
        ("loggaussian", "'lognormal'"),
        ("coxph", "'weibull', whose hazards are proportional"),
    ],
)
def test_other_names_of_families_say_which_it_is(name, advice):
    with pytest.raises(
        ConfigurationError, match=rf"family must be one of .*; got '{name}'\. Write family={advice}\."
    ):
        ev.Regression("y ~ x", family=name)


@pytest.mark.parametrize("name", ["tweedie", "", None, 3, ["poisson"], dist.Poisson])
def test_what_is_no_family_is_refused(name):
    with pytest.raises(ConfigurationError, match="family must be one of"):
        ev.Regression("y ~ x", family=name)
    with pytest.raises(ConfigurationError, match="link of the family gaussian must be one of identity"):
        ev.Regression("y ~ x", link=name or "log")


def natural_spline(x, df):
    """The natural cubic splines with the knots of R's ns: quantiles, and both ends."""
    knots = np.quantile(x, np.linspace(0, 1, df + 1))

    def term(knot):
        cubes = np.maximum(x - knot, 0) ** 3 - np.maximum(x - knots[-1], 0) ** 3
        return cubes / (knots[-1] - knot)

    return np.column_stack([x, *(term(knot) - term(knots[-2]) for knot in knots[:-2])])


def test_factor_and_ns_as_r_users_write_them():
    """Under the JZS prior only what the columns span matters."""
    generator = np.random.default_rng(0)
    x = np.sort(generator.gamma(2, size=60))
    table = {"x": x, "y": np.sin(x) + generator.normal(size=60), "code": np.arange(60) % 3}
    for df in (2, 3, 5):
        basis = natural_spline(x, df)
        names = [f"b{place}" for place in range(df)]
        by_hand = {**table, **dict(zip(names, basis.T, strict=True))}
        expected = ev.estimate(ev.Regression(f"y ~ {' + '.join(names)}"), by_hand).log_evidence
        for call in (f"ns(x, {df})", f"ns(x, df = {df})"):
            found = ev.estimate(ev.Regression(f"y ~ {call}"), table).log_evidence
            assert found == pytest.approx(expected, abs=1e-6)
    ours = ev.estimate(ev.Regression("y ~ C(code)"), table).log_evidence
    for call in ("factor(code)", "as.factor(code)"):
        assert ev.estimate(ev.Regression(f"y ~ {call}"), table).log_evidence == ours
    assert ev.bf.anova("y ~ factor(code)", table).log_bf10 == ev.bf.anova("y ~ C(code)", table).log_bf10
