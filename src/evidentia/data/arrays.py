"""Data in memory: conversion of any container of numbers to checked arrays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.data.digits import Digits
from evidentia.data.lazy import collected
from evidentia.data.numbers import as_numbers
from evidentia.errors import DataError

OF_LABELS = "pandas.factorize makes numbers of names."
MIN_RUNS = 65_536  # of neighbouring rows that `shuffled` keeps together


def as_arrays(
    data: Any,
    *,
    name: str = "data",
    min_rows: int = 1,
    allow_nan: bool = False,
    missing: Sequence[str] = (),
    labels: str | None = None,
    digits: Digits | None = None,
) -> Any:
    """Convert data to NumPy arrays: float32 for real numbers, int32 for integers and booleans.

    Args:
        data: one array, a tuple of arrays, or a mapping (or a data frame or Arrow table) from
            names to arrays, with observations on the leading axis. An array is anything that NumPy
            can read: NumPy, JAX, pandas, Polars, Arrow; also decimals, lists of one length in
            each row, and sparse matrices, which become dense.
        name: the name of `data` in errors.
        min_rows: the minimum number of rows: 1, or 0 for a batch of a source.
        allow_nan: accept NaN, which marks a missing value, in all arrays.
        missing: names of arrays in which it is accepted.
        labels: the name of an array of labels, which nothing computes with, so that they may be
            large numbers close to each other.
        digits: the check of earlier batches, for data that come in batches.

    Returns:
        An array, a tuple or a dict of arrays, in the structure of `data`.

    Raises:
        DataError: too few rows, different lengths, values that are not numbers, NaN or infinities,
            masked values, pandas objects whose rows are labelled differently, or a column whose
            variation float32 cannot hold (an EvidenceWarning if it is held coarsely).

    Example:
        >>> as_arrays({"y": [1, 2, 3]})
        {'y': array([1, 2, 3], dtype=int32)}
    """
    data = collected(data, name)
    _check_labels(data, name)
    digits = digits or Digits()

    def convert(values: Any, argument: str) -> np.ndarray:
        part = argument.removeprefix(name)
        can_miss = allow_nan or _is_named(argument, name, missing)
        if part == f"[{labels!r}]":
            return as_numbers(values, argument, can_miss, None, part, OF_LABELS)
        return as_numbers(values, argument, can_miss, digits, part)

    arrays, named = _converted(data, name, convert)
    _check_lengths(named, name, min_rows)
    return arrays


def as_one_row(data: Any, missing: Sequence[str] = (), name: str = "data") -> tuple[Any, int]:
    """All data as a table of one row, for a model whose rows depend on each other.

    The arrays may differ in length, and be single numbers. NaN is accepted in those of the names
    in `missing`; `name` is that of the data in errors.

    Returns:
        The arrays, each with a new leading axis of length one; and the number of rows of the data:
        the length of the leading axis that all arrays share, or else 1.

    Raises:
        DataError: as for `as_arrays`, apart from lengths.

    Example:
        >>> as_one_row({"y": [1, 2, 3], "limit": 2})
        ({'y': array([[1, 2, 3]], dtype=int32), 'limit': array([2], dtype=int32)}, 3)
    """

    def convert(values: Any, argument: str) -> np.ndarray:
        is_number = np.ndim(values) == 0 and not getattr(values, "shape", ())  # a sparse matrix has no ndim
        can_miss = _is_named(argument, name, missing)
        array = as_numbers([values] if is_number else values, argument, can_miss, digits=Digits())
        return array if is_number else array[None]

    arrays, named = _converted(collected(data, name), name, convert)
    if not named:
        raise DataError(f"{name} is empty: it must hold at least one array.")
    lengths = {array.shape[1] for array in named.values() if array.ndim > 1}
    if lengths == {0}:
        raise DataError(f"{name} must have at least one observation; got 0.")
    return arrays, lengths.pop() if len(lengths) == 1 else 1


def _converted(
    data: Any, name: str, convert: Callable[[Any, str], np.ndarray]
) -> tuple[Any, dict[str, np.ndarray]]:
    """The arrays in the structure of the data, and by their names in errors."""
    if isinstance(data, tuple):
        arrays: Any = tuple(convert(value, f"{name}[{i}]") for i, value in enumerate(data))
        return arrays, {f"{name}[{i}]": array for i, array in enumerate(arrays)}
    if isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names"):
        keys = list(data) if isinstance(data, Mapping) else list(_column_names(data))
        _check_names(keys, name)
        arrays = {str(key): convert(data[key], f"{name}[{key!r}]") for key in keys}
        return arrays, {f"{name}[{key!r}]": array for key, array in arrays.items()}
    arrays = convert(data, name)
    return arrays, {name: arrays}


def num_rows(arrays: Any) -> int:
    """Number of observations: the length of the leading axis."""
    return jax.tree.leaves(arrays)[0].shape[0]


def map_arrays(function: Callable[..., Any], arrays: Any, *others: Any) -> Any:
    """Apply a function to corresponding arrays, keeping the structure and order of `arrays`."""
    if isinstance(arrays, Mapping):
        return {name: function(array, *(other[name] for other in others)) for name, array in arrays.items()}
    if isinstance(arrays, tuple):
        return tuple(map(function, arrays, *others))
    return function(arrays, *others)


def on_device(arrays: Any) -> Any:
    """Copy arrays to JAX's default device, where all windows share them.

    The last row is repeated up to a round number of rows, so that data sets of similar size share
    compiled programs.
    """
    rows = num_rows(arrays)
    return jax.tree.map(lambda leaf: jnp.asarray(with_rows(leaf, round_up(rows))), arrays)


def shuffled(arrays: Any, seed: int) -> Any:
    """The rows of NumPy arrays in random order, the same for all data sets of that size.

    Millions of rows are shuffled in short runs of neighbours, at least `MIN_RUNS` of them, which
    is several times faster.
    """
    rows = num_rows(arrays)
    length = max(1, rows // MIN_RUNS)
    starts = length * np.random.default_rng(seed).permutation(-(-rows // length))
    order = (starts[:, None] + np.arange(length)).ravel()
    return jax.tree.map(partial(np.take, indices=order[order < rows], axis=0), arrays)


def with_rows(array: np.ndarray, count: int) -> np.ndarray:
    """Pad an array to `count` rows by repeating its last row.

    Padding must be valid for the model: a mask hides its log-likelihood, but not a NaN gradient.
    """
    return np.concatenate([array, np.repeat(array[-1:], count - len(array), axis=0)])


def are_columns(leaves: Sequence[Any], kind: type, rows: int) -> bool:
    """Whether these are arrays of a kind, as `as_arrays` gives them, with so many rows each."""
    types = np.float32, np.int32
    are_arrays = all(isinstance(leaf, kind) and leaf.dtype in types and leaf.ndim > 0 for leaf in leaves)
    return bool(leaves) and are_arrays and all(leaf.shape[0] == rows for leaf in leaves)


def check_alike(arrays: Any, template: Any, name: str) -> None:
    """Raise DataError unless arrays match the template in structure, row shapes and dtypes."""
    given, needed = described(arrays), described(template)
    if given != needed:
        raise DataError(
            f"{name} holds {given}; the first batch held {needed}. Give every batch the same names, shapes and dtypes."
        )


def checked_batch(
    batch: Any,
    name: str,
    check_data: Callable[[Any], None] | None,
    template: Any | None,
    digits: Digits | None = None,
    missing: Sequence[str] = (),
) -> Any:
    """The arrays of a batch that a model can use, like those of the first batch, if there was one.

    Raises DataError.
    """
    arrays = as_arrays(batch, name=name, digits=digits, missing=missing)
    if check_data is not None:
        check_data(arrays)
    if template is not None:
        check_alike(arrays, template, name)
    return arrays


def described(arrays: Any) -> str:
    """Structure, row shapes and dtypes, for comparison and messages."""
    if isinstance(arrays, tuple):
        return f"({', '.join(map(described, arrays))})"
    if isinstance(arrays, Mapping):  # in any order
        return f"{{{', '.join(f'{name!r}: {described(arrays[name])}' for name in sorted(arrays))}}}"
    shape = ", ".join(map(str, ("n", *arrays.shape[1:])))
    return f"{arrays.dtype} ({shape}{',' if arrays.ndim == 1 else ''})"


def round_up(rows: int) -> int:
    """Round up to a power of two; above 4,096, to a finer grid that wastes at most an eighth."""
    power = 1 << max(5, (rows - 1).bit_length())
    step = power if power <= 4096 else power // 16
    return -(-rows // step) * step


def _is_named(argument: str, name: str, names: Sequence[str]) -> bool:
    return argument in {f"{name}[{one!r}]" for one in names}


def _column_names(table: Any) -> list[str]:
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def _check_names(keys: list[Any], name: str) -> None:
    """Raise DataError if two columns have the same name, as text."""
    names = [str(key) for key in keys]
    if repeated := sorted({one for one in names if names.count(one) > 1}):
        raise DataError(
            f"{name} must have columns of different names; {', '.join(map(repr, repeated))} occurs more than once."
        )


def _check_labels(data: Any, name: str) -> None:
    """Raise DataError if pandas objects label their rows differently: position pairs rows."""
    members = (
        enumerate(data) if isinstance(data, tuple) else data.items() if isinstance(data, Mapping) else ()
    )
    labels = {
        f"{name}[{key!r}]": one.index
        for key, one in members
        if hasattr(one, "index") and hasattr(one, "iloc")
    }
    for (first, expected), (other, found) in pairwise(labels.items()):
        if len(found) == len(expected) and not found.equals(expected):
            raise DataError(
                f"{first} and {other} label their rows differently: the pandas indexes begin with {list(expected[:3])} and {list(found[:3])}. "
                "Bring them into one order, for example with .loc, or drop the labels with .to_numpy()."
            )


def _check_lengths(named: Mapping[str, np.ndarray], name: str, min_rows: int) -> None:
    if not named:
        raise DataError(f"{name} is empty: it must hold at least one array.")
    lengths = {name: len(array) for name, array in named.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise DataError(f"all arrays of {name} must have the same number of observations; {listed}.")
    rows = next(iter(lengths.values()))
    if rows < min_rows:
        raise DataError(f"{name} must have at least one observation; got {rows}.")
