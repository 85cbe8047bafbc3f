"""A model bound to data in memory: what a unit of the likelihood is.

A unit is a row. If rows of a group share latent values, it is a pack of whole groups; and if all
rows depend on each other, all data are one unit. Estimators see units only, which they temper,
sample and put into chunks.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int
from numpyro import handlers

from evidentia.data.arrays import as_arrays, as_one_row, num_rows
from evidentia.data.digits import check_digits
from evidentia.errors import DataError, DependentRowsError, EvidentiaError, ModelError
from evidentia.model.bound import BoundModel
from evidentia.model.local.groups import LEADS
from evidentia.model.local.packs import packs_of
from evidentia.model.model import Model
from evidentia.model.program import run_traced

MOST_ROWS = 10_000  # of a model that turns out to be one of dependent rows


class Levels(NamedTuple):
    """The groups of the data.

    Attributes:
        names: their numbers in the data.
        places: their numbers among the groups of all packs.
    """

    names: list[int]
    places: Int[np.ndarray, " groups"]


class Units(NamedTuple):
    """A model bound to data.

    Attributes:
        model: for the shapes of the units.
        arrays: with units on the leading axis.
        data: with rows on the leading axis, also if units are something else.
        num_rows: of the data.
        reason: why all data are one unit; None if they are not.
        levels: the groups, if units are packs of them.
    """

    model: BoundModel
    arrays: Any
    data: Any
    num_rows: int
    reason: str | None = None
    levels: Levels | None = None


def bound_to(model: Model, data: Any) -> Units:
    """A model bound to data in memory.

    Raises:
        DataError, ModelError: data or a model that cannot be used.
    """
    if model.pointwise is False:
        return _bound_whole(model, data, "the model takes all data at once (pointwise=False)")
    arrays = as_arrays(data, labels=model.groups, missing=model.missing)
    _check(model, arrays)
    if model.groups is not None:
        return _bound_groups(model, arrays, model.groups)
    try:
        bound = model.bind(arrays)
    except DependentRowsError as error:
        if model.pointwise or num_rows(arrays) > MOST_ROWS:
            raise
        try:
            return _bound_whole(model, data, str(error))
        except ModelError as other:
            raise DependentRowsError(
                f"{error} All data as one observation cannot be used either: {other}"
            ) from None
    return Units(bound, arrays, arrays, _num_rows(model, arrays) or num_rows(arrays))


def _bound_groups(model: Model, arrays: Any, column: str) -> Units:
    labels = check_labels(arrays, column)
    names, codes = np.unique(labels, return_inverse=True)
    packs, places = packs_of(codes), np.zeros(len(names), int)
    places[codes] = packs.group_of_row
    packed = {**packs.arrays(arrays), LEADS: packs.leads}
    levels = Levels(names.tolist(), places)
    return Units(model.bind_groups(packed), packed, arrays, len(labels), levels=levels)


def check_labels(arrays: Any, column: str, name: str = "data") -> Int[np.ndarray, " rows"]:
    """The number of each row's group. Raises DataError, in which `arrays` have a name."""
    labels = arrays.get(column) if isinstance(arrays, dict) else None
    if labels is None:
        known = ", ".join(arrays) if isinstance(arrays, dict) else type(arrays).__name__
        raise DataError(
            f"{name} must have the column {column!r}, which is groups= of the model; got {known}."
        )
    if labels.ndim != 1 or labels.dtype.kind != "i" or labels.min() < 0:
        raise DataError(
            f"{name}[{column!r}] must have the number of each row's group, an integer of 0 and up; got {labels.dtype} of shape "
            f"{labels.shape}, from {labels.min()}. pandas.factorize makes numbers of names."
        )
    return labels


def _bound_whole(model: Model, data: Any, reason: str) -> Units:
    arrays, rows = as_one_row(data, model.missing)
    data = jax.tree.map(lambda array: array[0] if array.ndim > 1 else array, arrays)
    if model.is_program:
        _check_own_observations(model.prior, data)
    _check(model, data)
    bound = model.bind_whole(arrays)
    return Units(bound, arrays, data, _num_rows(model, arrays) or rows, reason)


def _check_own_observations(program: Any, data: Any) -> None:
    """Check the digits of observations that a NumPyro function holds itself, beside the data."""

    def run(key, data):
        for name, site in run_traced(handlers.seed(program, key), data).items():
            values = site.get("value")
            if isinstance(values, np.ndarray) and values.ndim and values.dtype.kind in "fiu":
                check_digits(values, f"the observations of {name!r}")

    try:
        jax.eval_shape(run, jax.random.key(0), data)
    except EvidentiaError:
        raise
    except Exception:  # of the user's function, which binding the model reports
        return


def _num_rows(model: Model, arrays: Any) -> int | None:
    """The number of rows, if the log-likelihood knows better than the arrays' shapes."""
    count = getattr(model.log_likelihood, "num_rows", None)
    return count and count(arrays)


def _check(model: Model, arrays: Any) -> None:
    if model.check_data is not None:
        model.check_data(arrays)
