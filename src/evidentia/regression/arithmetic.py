"""Expressions computed of tables: in float64, row by row."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from evidentia.errors import DataError
from evidentia.regression import functions
from evidentia.regression.expressions import (
    ARITHMETIC,
    COMPARISONS,
    LOGIC,
    columns_of,
    computed_parts,
    is_text,
    literal,
    name_of_function,
)
from evidentia.regression.plain import labels
from evidentia.regression.quoting import decoded, name_of, quoted

if TYPE_CHECKING:
    from pandas import DataFrame

State = dict[str, Any]  # what was learnt from all rows, by the text of the call


def values_of(tree: ast.expr, table: DataFrame, state: State) -> Any:
    """The values of an expression for the rows of a table: numbers, or what Formulaic codes.

    Args:
        tree: from `tree_of`.
        table: with the columns.
        state: what was learnt. What it lacks is learnt from the table, and added.

    Raises:
        DataError: text in arithmetic.
    """
    name = name_of_function(tree) if isinstance(tree, ast.Call) else ""
    if isinstance(tree, ast.Call) and name in (*functions.LEARNT, *functions.CODINGS):
        return _of_formulaic(name, tree, table, state)
    return np.asarray(_of_rows(tree, table, state), np.float64)


def _of_rows(tree: ast.expr, table: DataFrame, state: State) -> ndarray:
    return np.broadcast_to(_numbers(tree, table, state), (len(table),))


def _numbers(node: ast.expr, table: DataFrame, state: State) -> Any:
    """The numbers or truth values of the rows, or one for all of them."""
    match node:
        case ast.Constant():
            return _number(node)
        case ast.Attribute():
            return functions.CONSTANTS[ast.unparse(node)]
        case ast.Name():
            return numbers_in(table, name_of(node.id))
        case ast.BinOp(left=left, op=op, right=right):
            return _operated(op, [_numbers(part, table, state) for part in (left, right)])
        case ast.UnaryOp(op=op, operand=operand):
            return _operated(op, [_numbers(operand, table, state)])
        case ast.Compare():
            return _compared(node, table, state)
        case ast.Call():
            return _called(node, table, state)
    raise AssertionError(node)  # `_check` has refused it


def numbers_in(table: DataFrame, name: str) -> ndarray:
    """A column in float64, so that small integers do not overflow.

    Raises:
        DataError: it holds no numbers.
    """
    from pandas.api import types

    column = table[name]
    if not types.is_numeric_dtype(column):
        raise DataError(
            f"column {name!r} holds {column.iloc[0]!r} and the like, with which a formula cannot calculate. Use it as it is, or "
            f"compare it: I({quoted(name)} == {column.iloc[0]!r})."
        )
    return column.to_numpy(np.float64)


def _operated(op: ast.AST, parts: list[Any]) -> Any:
    if type(op) in LOGIC:
        return LOGIC[type(op)](*map(_truths, parts))
    return ARITHMETIC[type(op)](*(np.asarray(part, np.float64) for part in parts))


def _truths(values: Any) -> ndarray:
    values = np.asarray(values)
    if values.dtype != bool and not np.isin(values, (0, 1)).all():
        raise DataError("&, |, ~ and np.where need conditions, such as (x > 0) & (z < 1).")
    return values != 0


def _compared(node: ast.Compare, table: DataFrame, state: State) -> ndarray:
    parts = [node.left, *node.comparators]
    if texts := [part for part in parts if is_text(part)]:
        name = next(name for part in parts for name in columns_of(part))
        is_same = (table[name] == ast.literal_eval(texts[0])).to_numpy(bool)
        return is_same if isinstance(node.ops[0], ast.Eq) else ~is_same
    values = [_numbers(part, table, state) for part in parts]
    found = [COMPARISONS[type(op)](*pair) for op, pair in zip(node.ops, pairwise(values), strict=True)]
    return np.logical_and.reduce(np.broadcast_arrays(*found))


def _called(node: ast.Call, table: DataFrame, state: State) -> Any:
    name, key = name_of_function(node), ast.unparse(node)
    if (total := functions.of_all_rows(name)) is not None:
        if key not in state:
            values = _numbers(computed_parts(node)[0], table, state)
            state[key] = {"value": float(total(np.asarray(values, np.float64)))}
        return state[key]["value"]
    if name in functions.LEARNT:
        found = _of_formulaic(name, node, table, state)
        if np.ndim(found) != 1:
            raise DataError(f"{decoded(key)} has several columns: it must stand by itself.")
        return np.asarray(found)
    arguments: list[Any] = [np.asarray(_numbers(one, table, state), np.float64) for one in node.args]
    if name == "np.where":
        arguments[0] = _truths(arguments[0])
    if name.rpartition(".")[2] in ("round", "around"):
        arguments[1:] = [int(one) for one in arguments[1:]]
    function = functions.of_rows(name)
    assert function is not None
    return function(*arguments)


def _of_formulaic(name: str, node: ast.Call, table: DataFrame, state: State) -> Any:
    """A spline, standardised numbers, or a coding."""
    function, (first, *others) = functions.of_formulaic(name), node.args
    assert function is not None
    more = {str(one.arg): literal(one.value) for one in node.keywords}
    if name in functions.CODINGS:
        column = name_of(first.id) if isinstance(first, ast.Name) else None
        values = _of_rows(first, table, state) if column is None else labels(column, table[column])
    else:
        values = np.asarray(_of_rows(first, table, state), np.float64)
        more["_state"] = state.setdefault(ast.unparse(node), {})
    return function(values, *map(literal, others), **more)


def _number(node: ast.Constant) -> float:
    try:
        return float(node.value)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        return float("inf")
