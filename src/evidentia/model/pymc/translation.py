"""A PyMC model as a NumPyro program and its data."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from evidentia.errors import ModelError
from evidentia.model.pymc.graphs import graph_of, prepare_jax
from evidentia.model.pymc.known import DISTRIBUTIONS
from evidentia.model.pymc.program import Known, PyMCProgram
from evidentia.model.pymc.rows import Rows, constant_of, rebuilt, value_of
from evidentia.model.pymc.support import check_model, check_variable, imported, is_ordered
from evidentia.model.pymc.variables import FREE, OWN, Draw, Variable


class Translation(NamedTuple):
    """A PyMC model's program, its data by name, and whether they can be rows.

    They cannot if the observed arrays differ in length.
    """

    program: PyMCProgram
    data: dict[str, np.ndarray]
    has_rows: bool


def translated(model: Any, name: str | None) -> Translation:
    """The program of a PyMC model.

    Raises:
        ModelError: PyMC is missing or of another version, `model` is not one of its models, or
            has a part that evidentia cannot use, with its name.
    """
    pymc = imported()
    if not isinstance(model, pymc.Model):
        raise ModelError(f"pm_model must be a pymc.Model; got {type(model).__name__}.")
    prepare_jax()
    check_model(model)
    values = _values(model)
    lengths = {_length(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    count = lengths.pop() if len(lengths) == 1 else None
    rows = Rows(count if count is not None and count > 1 else None, set(model.named_vars))
    given = {rv: values[rv.name] for rv in model.free_RVs}
    free = {rv.name: _free(model, rv, given) for rv in model.free_RVs}
    given |= {rv: _observed_value(model, rv, rows) for rv in model.observed_RVs}
    observed = {rv.name: _likelihood(rv, given, rows) for rv in model.observed_RVs}
    potentials = {one.name: rebuilt([one], given, rows.replacement)[0] for one in model.potentials}
    inputs = {**values, **rows.variables}
    program = PyMCProgram(
        name or model.name or "model",
        tuple(rows.arrays),
        free,
        {name: graph_of(inputs, [terms]) for name, terms in observed.items()},
        {name: graph_of(inputs, [terms]) for name, terms in potentials.items()},
    )
    return Translation(program, rows.arrays, rows.count is not None)


def _values(model: Any) -> dict[str, Any]:
    """A variable for the constrained values of each free random variable, by its name."""
    import pytensor.tensor as pt

    shapes = model.eval_rv_shapes()
    return {
        rv.name: pt.tensor(rv.name, dtype=rv.type.dtype, shape=tuple(map(int, shapes[rv.name])))
        for rv in model.free_RVs
    }


# --- Free variables ------------------------------------------------------------------------------


def _free(model: Any, rv: Any, given: Mapping[Any, Any]) -> Known | Variable:
    check_variable(model, rv)
    before = {one: value for one, value in given.items() if one is not rv}
    [copy] = rebuilt([rv], before, constant_of)
    inputs = {one.name: value for one, value in before.items()}
    shape = given[rv].type.shape
    kind = type(copy.owner.op).__name__
    if kind in DISTRIBUTIONS:
        parameters = copy.owner.op.dist_params(copy.owner)
        return Known(kind, graph_of(inputs, parameters), shape, is_ordered(model, rv))
    return _variable(copy, inputs, given[rv])


def _variable(copy: Any, inputs: Mapping[str, Any], value: Any) -> Variable:
    from pymc import logp
    from pymc.distributions.transforms import _default_transform

    own = {**inputs, OWN: value}
    transform = _default_transform(copy.owner.op, copy)
    graphs = None
    if transform is not None:
        parents = copy.owner.inputs
        forward = transform.forward(value, *parents)
        free = forward.type("free")
        to_free = {**inputs, FREE: free}
        graphs = (
            graph_of(own, [forward]),
            graph_of(to_free, [transform.backward(free, *parents)]),
            graph_of(to_free, [transform.log_jac_det(free, *parents)]),
        )
    used = graph_of(inputs, [copy]).inputs
    return Variable(value.type.shape, graph_of(own, [logp(copy, value)]), graphs, Draw(used, copy))


# --- Observed variables --------------------------------------------------------------------------


def _length(value: Any) -> int | None:
    """The number of rows of an observed array; None for a single number."""
    from pytensor.graph.traversal import explicit_graph_inputs

    known = value_of(value)
    if known is None:  # a conversion of a data container, for example to floating numbers
        arrays = [value_of(one) for one in explicit_graph_inputs([value])] or [np.zeros(())]
        known = next((one for one in arrays if one is not None and one.ndim == value.ndim), np.zeros(()))
    return len(known) if known.ndim else None


def _observed_value(model: Any, rv: Any, rows: Rows) -> Any:
    """An observed array as a variable: of a data container, or under the random variable's name."""
    from pytensor.graph.basic import Constant

    def as_data(source):
        known = value_of(source)
        if known is None or (isinstance(source, Constant) and source is not value):
            return source
        return rows.variable(source, known, rv.name if isinstance(source, Constant) else None)[1]

    value = model.rvs_to_values[rv]
    return rebuilt([value], {}, as_data)[0]


def _likelihood(rv: Any, given: Mapping[Any, Any], rows: Rows) -> Any:
    """The log-likelihood of an observed variable's value, for any number of rows."""
    from pymc import logp
    from pymc.distributions.shape_utils import change_dist_size

    others = {one: value for one, value in given.items() if one is not rv}
    [copy] = rebuilt([rv], others, rows.replacement)
    if rows.count is not None:
        try:
            copy = change_dist_size(copy, given[rv].shape[: rv.ndim - copy.owner.op.ndim_supp])
        except (NotImplementedError, AttributeError):
            pass  # a variable that keeps its number of rows: all data are one observation
    return logp(copy, given[rv])
