"""What to write here for functions and constants of R, and for other names of the families."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evidentia.errors import ConfigurationError
from evidentia.regression.quoting import shortened

SPLINE = "A smooth effect is a spline, bs(x, df=4), whose df says how wiggly it may be."
CATEGORY = "A category written as numbers is C(x); text and pandas Categoricals need no function."
NUMBER = "A column of numbers is used as it is; convert text to numbers in the table."
GROUPS = "Effects that vary by the groups of a column are (1 | g)."
COMPARED = "A comparison is I(x > 1): 1 where it holds, 0 elsewhere."
BY_ROW = "Make a column of it in the table first."
WEIGHTS = "How often each row occurred is weights='n' of Regression and select_terms, the name of a column."
SURVIVAL = "Censored times are the response: Surv(time, status) ~ x, of the families exponential, weibull and lognormal."
PLACED = dict.fromkeys(("Surv", "se", "cbind"), " in this place")
FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(("factor", "as.factor", "as_factor", "fct", "as.character"), CATEGORY),
    **dict.fromkeys(
        ("ordered", "as.ordered"),
        "A category is C(x); the family ordinal takes an ordered response as it is.",
    ),
    **dict.fromkeys(("as.numeric", "as.integer", "as.double", "as.logical", "numeric"), NUMBER),
    **dict.fromkeys(
        ("ns", "rcs"), "A natural spline is cr(x, df=4, constraints='center'), a B-spline bs(x, df=4)."
    ),
    **dict.fromkeys(("s", "te", "ti", "t2", "lo", "loess", "pspline", "gp", "smooth"), SPLINE),
    "cbind": "Two counts are the whole response: cbind(successes, failures) ~ x, of the family binomial.",
    "trials": "The response of the family binomial is 'successes | trials', as in 's | n ~ x'.",
    **dict.fromkeys(("Surv", "cens", "resp_cens"), SURVIVAL),
    **dict.fromkeys(("re", "Error", "strata", "random", "f", "cluster", "frailty"), GROUPS),
    **dict.fromkeys(("ifelse", "if_else", "case_when"), COMPARED),
    **dict.fromkeys(("pmin", "min"), "Write np.minimum(x, z), or x.min() for that of all rows."),
    **dict.fromkeys(("pmax", "max"), "Write np.maximum(x, z), or x.max() for that of all rows."),
    "ln": "Write log(x).",
    "interaction": "Write a:b.",
    "relevel": "The first category is that of C(g, contr.treatment('b')).",
    "cut": "Make a column of intervals in the table first, as with pandas.cut.",
    **dict.fromkeys(("weights", "resp_weights"), WEIGHTS),
    **dict.fromkeys(("se", "resp_se"), "Known standard errors are those of the response: y | se(s) ~ x."),
    **dict.fromkeys(("is.na", "mo", "me", "mi"), BY_ROW),
}
CONSTANTS = {"TRUE": "True", "FALSE": "False", "NULL": "None"}
_APART = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")  # quoted names and texts
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\s*\(")
_CONTRAST = re.compile(
    r"(?<![\w.])C\(([^(),]+),\s*(?:contr\.)?(sum|treatment|poly|helmert)\s*\)"
)  # R's spelling
_CONSTANT = re.compile(rf"=\s*({'|'.join(CONSTANTS)})\b")


_SAME = (
    (re.compile(r"(?<![\w.])(?:as\.)?factor\s*\("), "C("),
    (
        re.compile(r"(?<![\w.])ns\(\s*([\w.]+)\s*,\s*(?:df\s*=\s*)?(\d+)\s*\)"),
        r"cr(\1, df=\2, constraints='center')",
    ),
)


def translated(formula: str) -> str:
    """The formula with calls of R that have the same columns here, or others that span the same.

    Example:
        >>> translated("y ~ factor(a) + ns(x, 3)")
        "y ~ C(a) + cr(x, df=3, constraints='center')"
    """
    start, parts = 0, []
    for quoted in [*_APART.finditer(formula), None]:
        end = len(formula) if quoted is None else quoted.start()
        code = formula[start:end]
        for pattern, ours in _SAME:
            code = pattern.sub(ours, code)
        parts += [code, "" if quoted is None else quoted[0]]
        start = end if quoted is None else quoted.end()
    return "".join(parts)


def check_functions(formula: str, known: str | None = None) -> None:
    """Raise ConfigurationError for functions and constants of R, with what to write instead.

    `known` is a function that the left-hand side is written with.
    """
    code = _APART.sub("''", formula)
    for name in _CALL.findall(code):
        if name in FUNCTIONS and name != known:
            raise ConfigurationError(
                f"formula {shortened(formula)!r}: there is no function {name}{PLACED.get(name, '')}. {FUNCTIONS[name]}"
            )
    if found := _CONTRAST.search(code):
        raise ConfigurationError(
            f"formula {shortened(formula)!r}: there is no contrast {found[2]}. Write C({found[1]}, contr.{found[2]}()), whose brackets are needed."
        )
    if found := _CONSTANT.search(code):
        name = found[1]
        raise ConfigurationError(
            f"formula {shortened(formula)!r}: there is no constant {name}. Write {CONSTANTS[name]}."
        )


FAMILIES: dict[str, str] = {
    **dict.fromkeys(("normal", "gauss", "norm", "linear", "lm", "ols"), "family='gaussian'"),
    **dict.fromkeys(("t", "student", "studentt", "robust"), "family='student-t'"),
    **dict.fromkeys(("logistic", "logit", "binary", "bernoullilogit"), "family='bernoulli'"),
    "probit": "family='bernoulli', link='probit'",
    **dict.fromkeys(("count", "counts", "quasipoisson", "log"), "family='poisson' or 'negative-binomial'"),
    **dict.fromkeys(
        ("negbinomial", "negbinomial2", "negbin", "nbinom", "nbinom2", "nb"), "family='negative-binomial'"
    ),
    **dict.fromkeys(("zip", "zeroinfl", "zeroinflated"), "family='zero-inflated-poisson'"),
    **dict.fromkeys(
        ("zinb", "zeroinflatednegbinomial", "zeroinflatednb"), "family='zero-inflated-negative-binomial'"
    ),
    "hurdle": "family='hurdle-poisson' or 'hurdle-negative-binomial'",
    "hurdlenegbinomial": "family='hurdle-negative-binomial'",
    **dict.fromkeys(("zoib", "inflatedbeta", "oneinflatedbeta"), "family='zero-one-inflated-beta'"),
    **dict.fromkeys(("multinomial", "softmax", "mlogit"), "family='categorical'"),
    **dict.fromkeys(("cumulative", "ordered", "polr", "clm", "orderedlogit"), "family='ordinal'"),
    "loggaussian": "family='lognormal'",
    **dict.fromkeys(("cox", "coxph"), "family='weibull', whose hazards are proportional"),
    **dict.fromkeys(("quasibinomial", "binom"), "family='binomial'"),
    "inversegaussian": "family='gamma', the nearest",
}


def family_advice(name: object, known: Mapping[str, object]) -> str:
    """What to write for another name of a family: " Write family='gaussian'.", or nothing.

    Example:
        >>> family_advice("normal", {"gaussian": ...})
        " Write family='gaussian'."
    """
    if not isinstance(name, str):
        return ""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    same = [one for one in known if one.replace("-", "") == plain]
    advice = f"family={same[0]!r}" if same else FAMILIES.get(plain)
    return f" Write {advice}." if advice else ""
