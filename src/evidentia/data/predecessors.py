"""Rows of a series, each with the rows before it: Markov factors become independent rows.

The likelihood of a Markov model of order p is a product over rows,

    p(y_{p+1}, …, y_T | y_1, …, y_p, θ) = Π_t p(y_t | y_{t-1}, …, y_{t-p}, θ),

in which each factor needs p earlier rows. With these as columns of their own, factors can be taken
in any order, and by mini-batches, as for independent rows.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, section 1; Cameron (2020), MSc thesis,
Eq. 1.11.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from evidentia.errors import DataError, check_count, kind_of

BEFORE = "before_"  # how the names of earlier rows begin

Arrays = Mapping[str, Any]


def with_predecessors(data: Arrays, order: int) -> dict[str, np.ndarray]:
    """The rows of a series from number p on, each with the p rows before it.

    The first p rows are only predecessors: the evidence is that of the others, given these.

    Args:
        data: arrays by name, rows in order on the leading axis.
        order: p, at least one.

    Returns:
        The arrays without their first p rows and, for each `name`, `before_name`, (rows, p, ...):
        the latest first.

    Raises:
        ConfigurationError: `order` is not a positive integer.
        DataError: `data` are not arrays by name of the same length, there are no more than p rows,
            or a name is taken.

    Example:
        >>> with_predecessors({"y": [1.0, 2.0, 3.0, 4.0]}, order=2)
        {'y': array([3., 4.]), 'before_y': array([[2., 1.],
               [3., 2.]])}
    """
    check_count("order", order, 1)
    arrays = _checked(data)
    num_rows = len(next(iter(arrays.values())))
    if num_rows <= order:
        raise DataError(f"data must have more than order={order:,} rows; got {num_rows:,}.")
    before = {
        BEFORE + name: np.stack([rows[order - lag : num_rows - lag] for lag in range(1, order + 1)], axis=1)
        for name, rows in arrays.items()
    }
    return {name: rows[order:] for name, rows in arrays.items()} | before


def batches_with_predecessors(batches: Iterable[Arrays], order: int) -> Iterator[dict[str, np.ndarray]]:
    """The same of a stream: batches of any size, in order; the last p rows are kept between them.

    Args:
        batches: arrays by name, as for `with_predecessors`.
        order: p, at least one.

    Raises:
        ConfigurationError, DataError: as `with_predecessors`; a batch with other names.

    Example:
        >>> stream = iter([{"y": [1.0]}, {"y": [2.0, 3.0]}, {"y": [4.0]}])
        >>> [batch["before_y"].tolist() for batch in batches_with_predecessors(stream, order=1)]
        [[[1.0], [2.0]], [[3.0]]]
    """
    check_count("order", order, 1)
    kept: dict[str, np.ndarray] = {}
    for batch in batches:
        arrays = _checked(batch)
        if kept and kept.keys() != arrays.keys():
            raise DataError(f"each batch must have the arrays {', '.join(kept)}; got {', '.join(arrays)}.")
        joined = {name: np.concatenate([kept[name], rows]) if kept else rows for name, rows in arrays.items()}
        if len(next(iter(joined.values()))) > order:
            yield with_predecessors(joined, order)
        kept = {name: rows[-order:] for name, rows in joined.items()}


def _checked(data: Arrays) -> dict[str, np.ndarray]:
    if not isinstance(data, Mapping) or not data:
        raise DataError(f"data must be arrays by name, with rows on the leading axis; got {kind_of(data)}.")
    arrays = {name: np.asarray(rows) for name, rows in data.items()}
    lengths = {name: len(rows) if rows.ndim else 0 for name, rows in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise DataError(f"the arrays of data must have the same number of rows; {listed}.")
    if taken := [name for name in arrays if BEFORE + name in arrays]:
        raise DataError(
            f"data must not have {BEFORE + taken[0]!r}, the name for the rows before {taken[0]!r}."
        )
    return arrays
