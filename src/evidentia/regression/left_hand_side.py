"""The part of a formula left of "~": a response, and for some a second column."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.families import CATEGORIES, Family
from evidentia.regression.quoting import decoded, encoded
from evidentia.regression.terms import is_name

if TYPE_CHECKING:
    from pandas import Series

Form = Literal["plain", "trials", "time", "error"]
_WHOLE = re.compile(r"(Surv|cbind)\s*\(.*\)", re.DOTALL)
_ERROR = re.compile(r"[^|]*\|\s*se\s*\(.*\)", re.DOTALL)
_NUMBER = re.compile(r"[0-9.]+")
FAMILIES: dict[Form, tuple[str, tuple[str, ...]]] = {  # of responses with a second column
    "trials": ("successes | trials", ("binomial",)),
    "time": ("Surv(time, status)", ("exponential", "weibull", "lognormal")),
    "error": ("y | se(s)", ("gaussian",)),
}
RIGHT_CENSORED = "There is Surv(time, status), of times from 0 that are observed or right-censored"


class LeftHandSide(NamedTuple):
    """Expressions, and what the second is.

    Attributes:
        response: a column or computed of columns.
        second: the number of trials, whether a time is that of an event, or a standard error.
        form: which of these: "trials", "time" or "error"; "plain" without.
    """

    response: str
    second: str | None = None
    form: Form = "plain"

    def __str__(self) -> str:
        match self.form:
            case "time":
                return f"Surv({_bare(self.response)}, {_bare(self.second or '')})"
            case "error":
                return f"{self.response} | se({_bare(self.second or '')})"
        return self.response if self.second is None else f"{self.response} | {self.second}"


def check_numeric(column: Series, name: str, family: Family) -> None:
    """Raise DataError for a response without numbers, unless its law is one of categories."""
    if family.kind in CATEGORIES or column.to_numpy().dtype.kind in "fiub":
        return
    seen = ", ".join(map(repr, column.unique().tolist()[:3]))
    raise DataError(
        f"the response {name} must hold numbers for this family; it has {seen}. For two categories use family='bernoulli', "
        "for more 'categorical' or 'ordinal'."
    )


def check_family(left: LeftHandSide, formula: str, family: str, prior: str | None) -> None:
    """Raise ConfigurationError if a response is not of the form that a family or prior has."""
    written, families = FAMILIES.get(left.form, ("", (family,)))
    if (left.form == "trials") != (family == "binomial"):
        raise ConfigurationError(
            "a response 'successes | trials' and the family binomial need each other; got the formula "
            f"{formula!r} and the family {family}."
        )
    if family not in families:
        listed = " or ".join(filter(None, [", ".join(families[:-1]), families[-1]]))
        raise ConfigurationError(
            f"a response {written!r} needs the family {listed}; got the formula {formula!r} and the family {family}."
        )
    if left.form == "error" and prior == "jzs":
        raise ConfigurationError(
            f"prior='jzs' has an unknown variance, and {formula!r} has known standard errors. Use 'normal' or 'unit-information'."
        )


def function_of(left: str) -> str | None:
    """The function of R that a left-hand side is written with, if it is one that is known."""
    if found := _WHOLE.fullmatch(left.strip()):
        return found[1]
    return "se" if _ERROR.fullmatch(left.strip()) else None


def left_hand_side(left: str, formula: str) -> LeftHandSide:
    """Take the left-hand side of a formula apart.

    Raises:
        ConfigurationError: more than one `|`, or arguments of Surv or se that do not exist here.

    Example:
        >>> left_hand_side("Surv(time, status == 1)", "Surv(time, status == 1) ~ x")
        LeftHandSide(response='time', second='I(status == 1)', form='time')
    """
    written = function_of(left)
    if written == "Surv":
        return _time(left.strip(), formula)
    if written == "cbind":
        return _counts(left.strip(), formula)
    response, *others = (part.strip() for part in left.split("|"))
    if len(others) > 1:
        raise ConfigurationError(
            f"formula {formula!r} must have at most one | left of ~, as in 'successes | trials ~ x'."
        )
    if written == "se":
        return LeftHandSide(response, _error(others[0], formula), "error")
    if not others:
        return LeftHandSide(response)
    return LeftHandSide(response, f"I({others[0]})" if _NUMBER.fullmatch(others[0]) else others[0], "trials")


def _time(call: str, formula: str) -> LeftHandSide:
    given, named = _arguments(call, formula)
    if len(given) > 2 or "time2" in named or "origin" in named:
        _refuse(formula, call, f"Surv(start, stop, event) and intervals are not supported. {RIGHT_CENSORED}")
    kind = named.pop("type", None)
    if kind is not None and (not isinstance(kind, ast.Constant) or kind.value != "right"):
        _refuse(formula, call, f"type={ast.unparse(kind)} is not supported. {RIGHT_CENSORED}")
    if unknown := named.keys() - {"time", "event"}:
        _refuse(formula, call, f"there is no argument {min(unknown)}. {RIGHT_CENSORED}")
    arguments = [*given, *(named[name] for name in ("time", "event") if name in named)]
    if not 1 <= len(arguments) <= 2 or (given and "time" in named):
        _refuse(formula, call, f"a time and whether it is that of an event are needed. {RIGHT_CENSORED}")
    time, *event = map(_expression, arguments)
    return LeftHandSide(time, event[0], "time") if event else LeftHandSide(time)


def _counts(call: str, formula: str) -> LeftHandSide:
    """Successes and failures, as R's glm has them."""
    given, named = _arguments(call, formula)
    if len(given) != 2 or named:
        _refuse(
            formula,
            call,
            "the two counts of a binomial are needed, cbind(successes, failures). Of several responses, estimate one formula each",
        )
    total = ast.BinOp(given[0], ast.Add(), given[1])
    return LeftHandSide(_expression(given[0]), _expression(total), "trials")


def _error(call: str, formula: str) -> str:
    given, named = _arguments(call, formula)
    sigma = named.pop("sigma", None)
    if sigma is not None and ast.unparse(sigma) not in ("False", "FALSE"):
        _refuse(
            formula,
            call,
            "rows have no deviation besides their standard errors. For one, let an effect vary by row, as in (1 | study)",
        )
    if len(given) != 1 or named:
        _refuse(formula, call, "one standard error is needed, as in y | se(s) ~ x")
    return _expression(given[0])


def _arguments(call: str, formula: str) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    try:
        tree = ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if not isinstance(tree, ast.Call) or any(isinstance(one, ast.Starred) for one in tree.args):
        _refuse(formula, call, "it cannot be read")
    return tree.args, {str(one.arg): one.value for one in tree.keywords}


def _expression(tree: ast.expr) -> str:
    """An expression as a term of a formula: arithmetic and comparisons within I(...)."""
    text = ast.unparse(tree)
    return text if is_name(text) or isinstance(tree, ast.Call) else f"I({text})"


def _bare(text: str) -> str:
    """An expression as an argument, without the I(...) that makes it a term."""
    match ast.parse(encoded(text), mode="eval").body:
        case ast.Call(func=ast.Name(id="I"), args=[inner], keywords=[]):
            return decoded(ast.unparse(inner))
    return text


def _refuse(formula: str, call: str, problem: str) -> NoReturn:
    raise ConfigurationError(f"formula {formula!r} has {decoded(call)}: {problem}.")
