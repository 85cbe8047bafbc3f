"""PyTensor graphs evaluated with JAX.

A graph is evaluated node by node while JAX traces, with the shapes that its inputs have then.
What depends on shapes and constants alone is computed by PyTensor itself, so that JAX sees numbers
where it needs them, as in `reshape`; all else is what PyTensor's own conversion to JAX makes of
each operation. PyTensor computes in 64 bits; here numbers have the precision of the inputs, as in
JAX's own functions.
"""

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.errors import ModelError
from evidentia.model.pymc.special import FUNCTIONS

# PyTensor's own for JAX: among others, logarithms of sums of exponentials become stable. Its first
# stage by itself, "canonicalize", does not end on the interval transform of a vector.
REWRITES = "fast_run"
NOT_FOR_JAX = ("cxx_only", "BlasOpt", "fusion", "inplace", "scan_save_mem_prealloc")
# Impossible parameters, such as a negative scale, have a log-probability of -inf; or no check.
CHECKED, UNCHECKED = "local_check_parameter_to_ninf_switch", "local_remove_check_parameter"


@dataclass(frozen=True, eq=False)
class Graph:
    """Functions of named arrays.

    Attributes:
        inputs: PyTensor's variables by name.
        outputs: variables computed from them.
    """

    inputs: Mapping[str, Any]
    outputs: Sequence[Any]

    def __call__(self, values: Mapping[str, Any]) -> list[Any]:
        """The outputs at values by name, of which there may be more than the inputs."""
        known: dict[Any, Any] = {
            variable: jnp.asarray(values[name]) for name, variable in self.inputs.items()
        }
        dtype = _dtype_of(known.values())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Explicitly requested dtype")  # of 64 bits, by PyTensor
            for node in self._nodes:
                arguments = [_value(one, known) for one in node.inputs]
                known.update(zip(node.outputs, _apply(node, arguments, dtype), strict=True))
        return [_in_jax(_value(one, known), dtype) for one in self.outputs]

    @cached_property
    def _nodes(self) -> list[Any]:
        from pytensor.graph.traversal import io_toposort

        return io_toposort(list(self.inputs.values()), self.outputs)


def graph_of(inputs: Mapping[str, Any], outputs: Sequence[Any], checks: str = CHECKED) -> Graph:
    """A graph of variables, simplified for precision; it keeps only the inputs that it needs.

    Raises:
        ModelError: it has an operation that PyTensor cannot convert to JAX.
    """
    from pytensor.graph.rewriting.utils import rewrite_graph
    from pytensor.graph.traversal import ancestors

    simple: Any = rewrite_graph(list(outputs), include=(REWRITES, checks), exclude=NOT_FOR_JAX)
    used = set(ancestors(simple))
    return Graph({name: variable for name, variable in inputs.items() if variable in used}, simple)


def prepare_jax() -> Any:
    """PyTensor's conversion to JAX, whose first import would change JAX's precision for all."""
    is_new = "pytensor.link.jax.dispatch.basic" not in sys.modules
    before = jax.config.values["jax_enable_x64"]
    from pytensor.link.jax import dispatch

    if is_new:
        jax.config.update("jax_enable_x64", before)
    return dispatch.jax_funcify  # pyright: ignore[reportPrivateImportUsage]


# --- One node ------------------------------------------------------------------------------------


def _value(variable: Any, known: Mapping[Any, Any]) -> Any:
    if variable in known:
        return known[variable]
    return variable.data  # of a constant


def _apply(node: Any, arguments: list[Any], dtype: Any) -> list[Any]:
    if all(_is_concrete(one) for one in arguments):
        return _performed(node, arguments)
    kind = type(node.op).__name__
    if kind == "Shape":
        return [np.array(jnp.shape(arguments[0]), np.int64)]
    if kind == "Shape_i":
        return [np.array(jnp.shape(arguments[0])[node.op.i], np.int64)]
    if kind in ("CheckAndRaise", "Assert", "CheckParameterValue"):
        return [arguments[0]]
    if kind == "Elemwise":
        function = type(node.op.scalar_op).__name__
        if function == "Cast":
            return [_cast(arguments[0], node.outputs[0].type.dtype, dtype)]
        if function in FUNCTIONS:
            return [FUNCTIONS[function](*(_in_jax(one, dtype) for one in arguments))]
    results = _converted(node, arguments)(*(_in_jax(one, dtype) for one in arguments))
    return [results] if len(node.outputs) == 1 and not isinstance(results, tuple | list) else list(results)


def _converted(node: Any, arguments: list[Any]) -> Any:
    """PyTensor's JAX function of a node; numbers known beforehand become its constants."""
    from pytensor.graph.basic import Constant

    inputs = [
        one.type.constant_type(one.type, value)
        if _is_concrete(value) and not isinstance(one, Constant) and hasattr(one.type, "constant_type")
        else one
        for one, value in zip(node.inputs, arguments, strict=True)
    ]
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = node.clone_with_new_inputs(inputs, strict=False)
    try:
        return prepare_jax()(node.op, node=node)
    except NotImplementedError as error:
        raise ModelError(
            f"the PyMC model uses {str(node.op)[:60]}, which PyTensor cannot convert to JAX. Write it with other operations; "
            "or, for a likelihood that is not JAX, see Model.from_callable."
        ) from error


def _performed(node: Any, arguments: list[Any]) -> list[Any]:
    storage = {variable: [value] for variable, value in zip(node.inputs, arguments, strict=True)}
    storage.update({variable: [None] for variable in node.outputs})
    computed = {variable: [variable not in node.outputs] for variable in storage}
    node.op.make_thunk(node, storage, computed, [], "py")()
    return [storage[variable][0] for variable in node.outputs]


def _is_concrete(value: Any) -> bool:
    return not isinstance(value, jax.Array)


def _dtype_of(values: Iterable[Any]) -> Any:
    dtypes = [jnp.result_type(one) for one in values]
    return jnp.result_type(jnp.float32, *(one for one in dtypes if jnp.issubdtype(one, jnp.floating)))


def _in_jax(value: Any, dtype: Any) -> Any:
    """A number of PyTensor's for JAX: single ones without a precision of their own."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    if np.ndim(value) == 0:
        return value.item()
    if value.dtype.kind == "f":
        return jnp.asarray(value, dtype)
    return np.array(value, np.int32) if value.dtype in (np.int64, np.uint64) else np.array(value)


def _cast(value: Any, wanted: str, dtype: Any) -> Any:
    """A change of type: between floating types it changes nothing."""
    kind = np.dtype(wanted).kind
    if kind != "f":
        return value.astype(jax.dtypes.canonicalize_dtype(wanted))
    return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(dtype)
