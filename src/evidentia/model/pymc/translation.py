"""A PyMC model as a NumPyro program and its data."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np

from evidentia.errors import ModelError
from evidentia.model.pymc.checks import (
    check_general,
    check_model,
    check_variable,
    imported,
    is_ordered,
    transform_of,
)
from evidentia.model.pymc.graphs import CHECKED, UNCHECKED, Graph, graph_of, prepare_jax
from evidentia.model.pymc.known import DISTRIBUTIONS
from evidentia.model.pymc.program import Cholesky, Known, PyMCProgram
from evidentia.model.pymc.rows import Rows, constant_of, rebuilt, value_of
from evidentia.model.pymc.splitting import Split, split
from evidentia.model.pymc.variables import FREE, OWN, Draw, Variable

MOST_GUESSES = 31  # of the arrays that are no rows, in spite of their length: all subsets of five


class Translation(NamedTuple):
    """A PyMC model's program, its data by name, and `pointwise` of `Model.from_numpyro`."""

    program: PyMCProgram
    data: dict[str, np.ndarray]
    pointwise: bool | None


def translated(model: Any, name: str | None) -> Translation:
    """The program of a PyMC model.

    Raises:
        ModelError: PyMC is missing or of another version, `model` is not one of its models, or
            has a part that evidentia cannot use, with its name.
    """
    pymc = imported()
    if not isinstance(model, pymc.Model):
        raise ModelError(f"pm_model must be a pymc.Model or a bambi.Model; got {type(model).__name__}.")
    prepare_jax()
    check_model(model)
    values = _values(model)
    free = {rv.name: _free(model, rv, values) for rv in model.free_RVs}
    lengths = {_length(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    count = lengths.pop() if len(lengths) == 1 else None

    def with_rows(single: frozenset[Any]) -> tuple[PyMCProgram, Rows]:
        rows = Rows(count if (count or 0) > 1 else None, single, set(model.named_vars))
        observed, potentials = _likelihoods(model, values, rows)
        return PyMCProgram(
            name or model.name or "model", tuple(rows.arrays), free, observed, potentials
        ), rows

    program, rows = with_rows(frozenset())
    found = split(program, rows.arrays) if rows.count is not None else Split.NOT
    if found is not Split.INDEPENDENT:  # perhaps an array is as long as the rows by accident
        for single in islice(_subsets(rows.guessed), MOST_GUESSES):
            other, its_rows = with_rows(single)
            if split(other, its_rows.arrays) is Split.INDEPENDENT:
                return Translation(other, its_rows.arrays, None)
    return Translation(program, rows.arrays, None if found is not Split.NOT else False)


def _subsets(sources: list[Any]) -> Iterator[frozenset[Any]]:
    """The subsets of some sources but the empty one, smaller ones first."""
    for size in range(1, len(sources) + 1):
        yield from map(frozenset, combinations(sources, size))


def _likelihoods(
    model: Any, values: Mapping[Any, Any], rows: Rows
) -> tuple[dict[str, Graph], dict[str, Graph]]:
    """The observed variables and the potentials, as functions of parameters and rows."""
    given = {**values, **{rv: _observed_value(model, rv, rows) for rv in model.observed_RVs}}
    observed = {rv.name: _likelihood(rv, given, rows) for rv in model.observed_RVs}
    potentials = {one.name: rebuilt([one], given, rows.replacement)[0] for one in model.potentials}
    inputs = {**{rv.name: value for rv, value in values.items()}, **rows.variables}
    return (
        {name: graph_of(inputs, [terms]) for name, terms in observed.items()},
        {name: graph_of(inputs, [terms]) for name, terms in potentials.items()},
    )


def _values(model: Any) -> dict[Any, Any]:
    """A variable for the values of each free random variable, on their own scale."""
    from pytensor.tensor.type import TensorType

    shapes = model.eval_rv_shapes()
    return {rv: TensorType(rv.type.dtype, tuple(map(int, shapes[rv.name])))(rv.name) for rv in model.free_RVs}


# --- Free variables ------------------------------------------------------------------------------


def _free(model: Any, rv: Any, values: Mapping[Any, Any]) -> Known | Cholesky | Variable:
    check_variable(model, rv)
    before = {one: value for one, value in values.items() if one is not rv}
    [copy] = rebuilt([rv], before, constant_of)
    inputs = {one.name: value for one, value in before.items()}
    if type(copy.owner.op).__name__ == "_LKJCholeskyCovRV":
        _, size, concentration, deviations = copy.owner.inputs
        shape = (int(np.asarray(size.data)),)
        return Cholesky(graph_of(inputs, [concentration]), _variable(deviations, inputs, shape))
    shape = values[rv].type.shape
    return _variable(copy, inputs, shape, transform_of(model, rv), is_ordered(model, rv))


def _variable(
    copy: Any,
    inputs: Mapping[str, Any],
    shape: tuple[int, ...],
    transform: Any = None,
    is_ordered: bool = False,
) -> Known | Variable:
    op = copy.owner.op
    if type(op).__name__ in DISTRIBUTIONS:
        return Known(type(op).__name__, graph_of(inputs, op.dist_params(copy.owner)), shape, is_ordered)
    return _general(copy, inputs, shape, transform)


def _general(copy: Any, inputs: Mapping[str, Any], shape: tuple[int, ...], transform: Any) -> Variable:
    from pymc import logp
    from pytensor.tensor.type import TensorType

    op, value = copy.owner.op, TensorType(copy.type.dtype, shape)(OWN)
    own, graphs = {**inputs, OWN: value}, None
    if transform is not None:
        parents = copy.owner.inputs
        forward = transform.forward(value, *parents)
        free = forward.type(FREE)
        to_free = {**inputs, FREE: free}
        graphs = (
            graph_of(own, [forward]),
            graph_of(to_free, [transform.backward(free, *parents)]),
            graph_of(to_free, [transform.log_jac_det(free, *parents)]),
        )
    # PyMC checks that the values sum to zero to 1e-9, which float32 does not reach.
    checks = UNCHECKED if type(op).__name__ == "ZeroSumNormalRV" else CHECKED
    density = graph_of(own, [logp(copy, value)], checks)
    draw = Draw(graph_of(inputs, [copy]).inputs, copy)
    found = Variable(shape, density, graphs, draw)
    if not draw.inputs:
        check_general(copy.name, found)
    return found


# --- Observed variables --------------------------------------------------------------------------


def _length(value: Any) -> int | None:
    """The number of rows of an observed array; None for a single number."""
    from pytensor.graph.traversal import graph_inputs

    known = value_of(value)
    if known is None:  # a conversion of a data container, for example to floating numbers
        arrays = [value_of(one) for one in graph_inputs([value])] or [np.zeros(())]
        known = next((one for one in arrays if one is not None and one.ndim == value.ndim), np.zeros(()))
    return len(known) if known.ndim else None


def _observed_value(model: Any, rv: Any, rows: Rows) -> Any:
    """An observed array as data: of its container's name, or its random variable's."""
    from pytensor.graph.basic import Constant

    def as_data(source):
        known = value_of(source)
        if known is None or (isinstance(source, Constant) and source is not value):
            return source
        return rows.variable(source, known, rv.name if isinstance(source, Constant) else None)

    value = model.rvs_to_values[rv]
    return rebuilt([value], {}, as_data)[0]


def _likelihood(rv: Any, given: Mapping[Any, Any], rows: Rows) -> Any:
    """The log-likelihood of an observed variable's value, for any number of rows."""
    from pymc import logp
    from pymc.distributions.shape_utils import change_dist_size

    others = {one: value for one, value in given.items() if one is not rv}
    [copy] = rebuilt([rv], others, rows.replacement)
    if rows.count is not None:
        # A variable that keeps its number of rows is one of all data as one observation.
        with suppress(NotImplementedError, AttributeError):
            copy = change_dist_size(copy, given[rv].shape[: rv.ndim - copy.owner.op.ndim_supp])
    return logp(copy, given[rv])
