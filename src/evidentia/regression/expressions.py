"""Expressions within formulas, such as `log(x / z)`: what they may be.

They are a small part of Python: arithmetic, comparisons, and the functions of `functions.py`. The
values of a row depend on this row and on what was learnt before from all rows, such as means
and knots; so those of a block of rows are those of the table. No other code can be run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from evidentia.errors import ConfigurationError
from evidentia.regression import functions
from evidentia.regression.quoting import decoded, name_of, shortened

DEEPEST = 100  # calls and operators within each other
ARITHMETIC = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.float_power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}
LOGIC = {ast.BitAnd: np.logical_and, ast.BitOr: np.logical_or, ast.Invert: np.logical_not}
COMPARISONS = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_INSTEAD: dict[type[ast.AST], str] = {
    ast.BitXor: "^ is no power here: write **",
    ast.Subscript: "[ ] takes single rows out of a column, and a formula is of whole columns",
    ast.BoolOp: "write & and | for 'and' and 'or', with each condition in parentheses",
    ast.Not: "write ~ for 'not'",
    ast.IfExp: "write np.where(condition, x, z) for 'if'",
}


@lru_cache(maxsize=1024)
def tree_of(text: str) -> ast.expr:
    """An expression as a tree, all of which can be computed.

    Raises:
        ConfigurationError: anything but arithmetic, comparisons and known functions of columns.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        problem = getattr(error, "msg", error)
        raise ConfigurationError(f"{shortened(text)} is no expression: {problem}.") from None
    except (RecursionError, MemoryError):
        raise _too_deep() from None
    _check_depth(tree)
    if isinstance(tree, ast.Call) and name_of_function(tree) in functions.CODINGS:
        _check(_coded_part(tree))
    else:
        _check(tree)
    if not any(columns_of(tree)):
        raise ConfigurationError(
            f"{text} has no column of the table. A constant is a column of the table with the same number in all rows."
        )
    return tree


def columns_of(tree: ast.expr) -> Iterator[str]:
    """The names of the columns of an expression, as in the table."""
    match tree:
        case ast.Name():
            yield name_of(tree.id)
        case ast.Attribute():
            return
        case ast.Call():
            yield from (name for part in computed_parts(tree) for name in columns_of(part))
        case _:
            for part in ast.iter_child_nodes(tree):
                if isinstance(part, ast.expr):
                    yield from columns_of(part)


def calculated_columns(factor: str) -> Iterator[str]:
    """The columns whose numbers a factor uses, as in the table, and not only as categories."""
    match tree := tree_of(factor):
        case ast.Call(args=[ast.Name(), *_]) if name_of_function(tree) in functions.CODINGS:
            return
    yield from columns_of(tree)


def is_learnt(tree: ast.expr) -> bool:
    """Whether it depends on all rows: on a mean, or on the knots of a spline."""
    calls = (name_of_function(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(name in functions.LEARNT or functions.of_all_rows(name) is not None for name in calls)


def num_learnt_columns(tree: ast.expr) -> int:
    """At least the number of columns that splines and polynomials make while they are learnt."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = [[*node.args[1:], *node.keywords] for node in calls if name_of_function(node) in functions.LEARNT]
    constants = [
        part for each in given for one in each for part in ast.walk(one) if isinstance(part, ast.Constant)
    ]
    return max([1, *(one.value for one in constants if type(one.value) is int)])


def literal(node: ast.expr) -> Any:
    """The value of an argument that is not computed of columns: numbers, text, contrasts."""
    match node:
        case ast.Call():
            function = functions.of_formulaic(name_of_function(node))
            assert function is not None
            return function(
                *map(literal, node.args), **{str(one.arg): literal(one.value) for one in node.keywords}
            )
        case ast.Attribute():
            return functions.of_formulaic(ast.unparse(node))
        case ast.Name():
            return functions.of_formulaic(node.id)
    return ast.literal_eval(node)


def name_of_function(node: ast.Call) -> str:
    """`log`, `np.log`, or `.mean` of a method."""
    match node.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np" | "contr" as owner), attr=name):
            return f"{owner}.{name}"
        case ast.Attribute(attr=name):
            return f".{name}"
    return ast.unparse(node.func)


def computed_parts(node: ast.Call) -> list[ast.expr]:
    """The parts of a call that are computed of columns."""
    name = name_of_function(node)
    if name.startswith(".") and isinstance(node.func, ast.Attribute):
        return [node.func.value]
    return node.args[:1] if name in (*functions.LEARNT, *functions.CODINGS) else list(node.args)


def is_text(node: ast.expr) -> bool:
    """Whether a part of an expression is text within quotes."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _shown(node: ast.expr) -> str:
    return shortened(decoded(ast.unparse(node)))


def _too_deep() -> ConfigurationError:
    return ConfigurationError(
        f"an expression has more than {DEEPEST} operators or parentheses within each other. Make a column of it in the table "
        "first."
    )


def _check_depth(tree: ast.expr) -> None:
    """Without recursion, which the rest needs."""
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [part for node in level for part in ast.iter_child_nodes(node)]
    if level:
        raise _too_deep()


def _check(node: ast.expr) -> None:
    """Raise ConfigurationError for anything that `_numbers` does not compute."""
    match node:
        case ast.Name():
            return
        case ast.Attribute() if ast.unparse(node) in functions.CONSTANTS:
            return
        case ast.Constant(value=value) if isinstance(value, int | float):
            return
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) if type(op) in ARITHMETIC or type(op) in LOGIC:
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
        case ast.Compare(ops=ops) if all(type(op) in COMPARISONS for op in ops):
            parts = _compared_parts(node)
        case ast.Call():
            parts = _checked_call(node)
        case _:
            raise _refused(node)
    for part in parts:
        _check(part)


def _refused(node: ast.expr) -> ConfigurationError:
    kind = type(getattr(node, "op", node))
    instead = _INSTEAD.get(kind) or _INSTEAD.get(type(node))
    text = _shown(node)
    if instead is None and isinstance(node, ast.Attribute):
        instead = f"a column with this name is written `{text}`, within backticks"
    return ConfigurationError(
        f"{text} cannot be computed in a formula: {instead or 'write arithmetic of columns and calls of functions'}."
    )


def _compared_parts(node: ast.Compare) -> list[ast.expr]:
    """The numbers that are compared; or a column with text, for equality."""
    parts = [node.left, *node.comparators]
    if any(map(is_text, parts)):
        others = [part for part in parts if not is_text(part)]
        is_pair = len(parts) == 2 and isinstance(node.ops[0], ast.Eq | ast.NotEq)
        if not is_pair or len(others) != 1 or not isinstance(others[0], ast.Name):
            raise ConfigurationError(f"{_shown(node)}: text is compared with one column, by == or !=.")
        return others
    return parts


def _checked_call(node: ast.Call) -> list[ast.expr]:
    """The arguments that are computed, after a check of the function and of the others."""
    name = name_of_function(node)
    if name in functions.LEARNT:
        return [_coded_part(node)]
    if functions.of_all_rows(name) is not None:
        allowed = (0,) if name.startswith(".") else (1,)
    elif functions.of_rows(name) is not None:
        allowed = functions.num_arguments(name)
    elif name in functions.CODINGS:
        raise ConfigurationError(f"{_shown(node)} has categories: it must stand by itself.")
    else:
        raise ConfigurationError(functions.unknown(name.removeprefix(".")))
    if node.keywords or len(node.args) not in allowed:
        counts = " or ".join(map(str, allowed))
        raise ConfigurationError(
            f"{_shown(node)} cannot be computed in a formula: {name} takes {counts} argument{'s' * (counts != '1')}, without names."
        )
    return computed_parts(node)


def _coded_part(node: ast.Call) -> ast.expr:
    """The first argument of a function of Formulaic, after a check of the others."""
    name, call = name_of_function(node), _shown(node)
    others = [*node.args[1:], *(one.value for one in node.keywords)]
    if not node.args or any(isinstance(one, ast.Starred) for one in node.args):
        raise ConfigurationError(f"{call} needs a column as its first argument.")
    for one in others:
        _check_literal(one, call)
    function = functions.of_formulaic(name)
    assert function is not None
    try:  # contrasts have arguments of their own
        more = {str(one.arg): literal(one.value) for one in node.keywords}
        functions.check_call(name, function, [None, *map(literal, node.args[1:])], more)
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{call} has unknown arguments: {error}.") from None
    return node.args[0]


def _check_literal(node: ast.expr, call: str) -> None:
    """Raise ConfigurationError for an argument that is not a value or a contrast."""
    match node:
        case ast.Call() if (
            functions.of_formulaic(name_of_function(node)) and name_of_function(node) not in functions.LEARNT
        ):
            for one in (*node.args, *(one.value for one in node.keywords)):
                _check_literal(one, call)
            return
        case ast.Attribute() if functions.of_formulaic(ast.unparse(node)):
            return
        case ast.Name(id=name) if name in functions.CONTRASTS:
            return
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ConfigurationError(
            f"{call} has the argument {_shown(node)}; all arguments but the first must be written as numbers or text."
        ) from None
