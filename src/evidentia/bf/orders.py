"""Orders and intervals of parameters (Klugkist, Laudy and Hoijtink 2005).

A hypothesis that restricts the parameters of a model has the Bayes factor

    P(restriction | data) / P(restriction)

against the model without it: the share of posterior draws that satisfy it, over that of prior
draws.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.bf.draws import Draws, both_of
from evidentia.bf.result import BayesFactor
from evidentia.errors import ConfigurationError, EstimationError, check_seed

COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_QUOTED = re.compile(r"`([^`]+)`")


def order(hypothesis: str, posterior: Any, prior: Any = None, *, seed: int = 0) -> BayesFactor:
    """The Bayes factor of an order or interval of parameters against none.

    Args:
        hypothesis: as "a > b > c", "-0.1 < b < 0.1", "abs(b) < 0.1", "g[0] > g[1] & x > 0";
            names with other characters in backticks.
        posterior: the `Evidence` of a model, or draws by name, each (draws, …).
        prior: draws by name; those of an Evidence's model are made if not given.
        seed: of the draws from the prior.

    Returns:
        The Bayes factor of the restricted model against the model itself, with its Monte Carlo
        error; `statistics` have both shares, and the log Bayes factor against the complement.

    Raises:
        ConfigurationError: a hypothesis that does not parse, or has unknown names; no prior.
        EstimationError: no draw of one side satisfies the hypothesis.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> prior = {name: generator.normal(size=40_000) for name in "abc"}
        >>> shifts = {"a": 0, "b": 2, "c": 4}
        >>> posterior = {name: draws + shifts[name] for name, draws in prior.items()}
        >>> round(ev.bf.order("a < b < c", posterior, prior).bf10, 1)
        5.0

    Source: Klugkist, Laudy, Hoijtink (2005), the encompassing prior.
    """
    check_seed(seed)
    holds = _parsed(hypothesis)
    after, before, count = both_of(posterior, prior, seed)
    shares = [
        _share(holds, draws, hypothesis, name) for name, draws in (("posterior", after), ("prior", before))
    ]
    (one, one_rest, one_error), (zero, zero_rest, zero_error) = shares
    complement = (
        math.inf
        if not one_rest
        else -math.inf
        if not zero_rest
        else math.log(one / one_rest * zero_rest / zero)
    )
    return BayesFactor(
        test="order of parameters",
        log_bf10=math.log(one / zero),
        error=math.hypot(one_error / one, zero_error / zero),
        claim=hypothesis,
        null_claim=f"parameters need not satisfy {hypothesis}",
        prior=f"the model's, restricted to {hypothesis}",
        num_observations=count,
        statistics={"posterior share": one, "prior share": zero, "log BF against the complement": complement},
    )


def _share(
    holds: Callable[[Mapping[str, ndarray]], ndarray], draws: Draws, hypothesis: str, name: str
) -> tuple[float, float, float]:
    """The shares of draws that satisfy the hypothesis and that do not, and their error."""
    satisfied = holds(draws.values)
    if not satisfied.any():
        raise EstimationError(
            f"no draw of the {name} satisfies {hypothesis!r}: its share is below {1 / len(satisfied):.1g}, and the Bayes factor "
            "cannot be estimated. Give more draws, or a weaker hypothesis."
        )
    one, rest = float(draws.shares @ satisfied), float(draws.shares @ ~satisfied)
    independent = math.sqrt(one * rest / draws.ess)
    return one, rest, max(independent, draws.error_of(satisfied.astype(float)))


def _parsed(hypothesis: Any) -> Callable[[Mapping[str, ndarray]], ndarray]:
    """A function of draws by name that tells which satisfy the hypothesis."""
    if not isinstance(hypothesis, str):
        raise ConfigurationError(f"hypothesis must be text, such as 'a > b > c'; got {hypothesis!r}.")
    quoted: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        return quoted.setdefault(f"_quoted{len(quoted)}", match[1]) and f"_quoted{len(quoted) - 1}"

    code = _QUOTED.sub(placeholder, hypothesis).replace("&", " and ").replace(",", " and ")
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except SyntaxError as error:
        raise ConfigurationError(
            f"hypothesis must read as 'a > b > c'; got {hypothesis!r} ({error.msg})."
        ) from error

    def holds(values: Mapping[str, ndarray]) -> ndarray:
        return np.asarray(_truth(tree, values, quoted, hypothesis))

    return holds


def _truth(node: ast.expr, values: Mapping[str, ndarray], quoted: Mapping[str, str], text: str) -> Any:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return np.logical_and.reduce([_truth(part, values, quoted, text) for part in node.values])
    if isinstance(node, ast.Compare) and all(type(each) in COMPARISONS for each in node.ops):
        sides = [_number(side, values, quoted, text) for side in (node.left, *node.comparators)]
        pairs = zip(node.ops, sides, sides[1:], strict=False)
        found = np.logical_and.reduce([COMPARISONS[type(each)](one, other) for each, one, other in pairs])
        if np.ndim(found) == 1:
            return found
    raise ConfigurationError(
        f"hypothesis must be comparisons of single parameters by <, <=, > or >=, joined by &; got {text!r}."
    )


def _number(node: ast.expr, values: Mapping[str, ndarray], quoted: Mapping[str, str], text: str) -> Any:
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        return node.value
    if isinstance(node, ast.Name):
        name = quoted.get(node.id, node.id)
        if name in values:
            return values[name]
        raise ConfigurationError(
            f"hypothesis {text!r} names {name!r}; the parameters are {', '.join(values)}."
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand, values, quoted, text)
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return ARITHMETIC[type(node.op)](
            *(_number(side, values, quoted, text) for side in (node.left, node.right))
        )
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "abs"
        and len(node.args) == 1
    ):
        return np.abs(_number(node.args[0], values, quoted, text))
    if isinstance(node, ast.Subscript):
        return _element(node, values, quoted, text)
    raise ConfigurationError(
        f"hypothesis may use names, numbers, + - * /, abs() and [index]; got {ast.unparse(node)!r} in {text!r}."
    )


def _element(
    node: ast.Subscript, values: Mapping[str, ndarray], quoted: Mapping[str, str], text: str
) -> ndarray:
    array = _number(node.value, values, quoted, text)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    index = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, int)]
    try:
        if len(index) == len(parts):
            return array[(slice(None), *index)]
    except IndexError as error:
        raise ConfigurationError(
            f"hypothesis {text!r}: {ast.unparse(node)} is out of range; {error}."
        ) from error
    raise ConfigurationError(
        f"hypothesis {text!r}: an index is a number from 0 on; got {ast.unparse(node)!r}."
    )
