"""All data as one observation, for a model whose rows depend on each other.

Such a model has one log-likelihood for all rows. With the data as a table of one row it is a model
like others: estimators see one observation, whose likelihood they temper.
"""

from typing import Any, NamedTuple

import jax

from evidentia.data.arrays import as_arrays, as_one_row, num_rows
from evidentia.errors import DependentRowsError, ModelError
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model

MOST_ROWS = 10_000  # of a model that turns out to be one of dependent rows


class Whole(NamedTuple):
    """Why all data are one observation, and how many rows they have."""

    num_rows: int
    reason: str


class Bound(NamedTuple):
    """A model bound to data: arrays with observations on the leading axis, or all data as one."""

    model: BoundModel
    arrays: Any
    whole: Whole | None = None

    @property
    def data(self) -> Any:
        """The arrays with rows on the leading axis, also if all data are one observation."""
        if self.whole is None:
            return self.arrays
        return jax.tree.map(lambda array: array[0] if array.ndim > 1 else array, self.arrays)


def bound_to(model: Model, data: Any) -> Bound:
    """A model bound to data in memory, whose rows may depend on each other.

    Raises:
        DataError, ModelError: data or a model that cannot be used.
    """
    if model.pointwise is not False:
        arrays = as_arrays(data)
        _check(model, arrays)
        try:
            return Bound(model.bind(arrays), arrays)
        except DependentRowsError as error:
            if model.pointwise or num_rows(arrays) > MOST_ROWS:
                raise
            try:
                return _bound_whole(model, data, str(error))
            except ModelError as other:
                raise DependentRowsError(
                    f"{error} All data as one observation cannot be used either: {other}"
                ) from None
    return _bound_whole(model, data, "the model takes all data at once (pointwise=False)")


def _bound_whole(model: Model, data: Any, reason: str) -> Bound:
    arrays, rows = as_one_row(data)
    found = Bound(model.bind_whole(arrays), arrays, Whole(rows, reason))
    _check(model, found.data)
    return found


def _check(model: Model, arrays: Any) -> None:
    if model.check_data is not None:
        model.check_data(arrays)
