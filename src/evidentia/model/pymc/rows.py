"""Rows in a PyMC model: what in its graphs belongs to single observations.

An array whose first axis is as long as the observed ones is taken for one value per row, in what
the likelihood does with it: data containers under their names, arrays in the model's formulas
under new ones. Whether the likelihood then belongs to single rows is found out as for any model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

INFINITE = 1e15  # its square is a float32


@dataclass
class Rows:
    """The arrays of a model with a value per row, and their variables in its graphs.

    Attributes:
        count: the number of rows, or None if the observed arrays differ.
        single: inputs that are known to be no rows, in spite of their length.
        taken: names that are not free.
        guessed: inputs of the likelihood that were taken for rows because of their length.
    """

    count: int | None
    single: frozenset[Any]
    taken: set[str]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    guessed: list[Any] = field(default_factory=list)
    _names: dict[Any, str] = field(default_factory=dict)

    def variable(self, source: Any, value: np.ndarray, name: str | None = None) -> Any:
        """The variable that stands for an array of the model, with any number of rows."""
        from pytensor.tensor.type import TensorType

        if source not in self._names:
            self._names[source] = name or source.name or self._same(value) or self._new_name()
        name = self._names[source]
        if name not in self.variables:
            self.arrays[name] = np.asarray(value)
            shape = (None,) * min(value.ndim, 1) + value.shape[1:]
            self.variables[name] = TensorType(source.type.dtype, shape)(name)
            self.taken.add(name)
        return self.variables[name]

    def replacement(self, source: Any) -> Any:
        """What stands for an input of the likelihood's graphs: itself, or rows."""
        value = value_of(source)
        if value is None:
            return source
        if source in self._names:
            return self.variable(source, _bounded(value))
        is_as_long = self.count is not None and np.ndim(value) > 0 and len(value) == self.count
        if not is_as_long or source in self.single:
            return constant_of(source)
        self.guessed.append(source)
        return self.variable(source, _bounded(value))

    def _same(self, value: np.ndarray) -> str | None:
        """The name of an equal array that has none of its own, used twice in the formulas."""
        for name, other in self.arrays.items():
            if name.startswith("constant_") and other.dtype == value.dtype and np.array_equal(other, value):
                return name
        return None

    def _new_name(self) -> str:
        number = 1
        while f"constant_{number}" in self.taken:
            number += 1
        return f"constant_{number}"


def _bounded(value: np.ndarray) -> np.ndarray:
    """An array with large numbers in place of infinite ones, such as bounds that are none.

    Data must be finite; and at an infinite bound a distribution function has no gradient.
    """
    if value.dtype.kind != "f":
        return value
    return np.nan_to_num(value, nan=np.nan, posinf=INFINITE, neginf=-INFINITE)


def value_of(source: Any) -> np.ndarray | None:
    """The value of a constant or a shared array; None for all else, such as random generators."""
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.graph.basic import Constant
    from pytensor.tensor.type import TensorType

    if not isinstance(source.type, TensorType):
        return None
    if isinstance(source, Constant):
        return np.asarray(source.data)
    return np.asarray(source.get_value()) if isinstance(source, SharedVariable) else None


def constant_of(source: Any) -> Any:
    """A constant in place of a shared array: the value that it has now."""
    from pytensor.graph.basic import Constant
    from pytensor.tensor.basic import constant

    value = value_of(source)
    return source if value is None or isinstance(source, Constant) else constant(value)


def rebuilt(outputs: Sequence[Any], given: Mapping[Any, Any], replacement: Callable[[Any], Any]) -> list[Any]:
    """A copy of graphs with some variables replaced, and their inputs by what `replacement` says.

    Shapes that PyTensor knows are found anew, so that an array of any length can be in the place
    of one of a known length.
    """
    copies = dict(given)
    for variable in _in_order(outputs, copies):
        if variable in copies:
            continue
        node = variable.owner
        if node is None:
            copies[variable] = replacement(variable)
            continue
        new = node.clone_with_new_inputs([copies[one] for one in node.inputs], strict=False)
        for old, copy in zip(node.outputs, new.outputs, strict=True):
            copy.name = old.name
            copies.setdefault(old, copy)
    return [copies[one] for one in outputs]


def _in_order(outputs: Sequence[Any], known: Mapping[Any, Any]) -> Iterator[Any]:
    """Variables before those computed from them, without what lies behind known ones."""
    seen, stack = set(known), [(one, False) for one in outputs]
    while stack:
        variable, is_ready = stack.pop()
        if is_ready:
            yield variable
        elif variable not in seen:
            seen.add(variable)
            stack.append((variable, True))
            if variable.owner is not None:
                stack += [(one, False) for one in variable.owner.inputs]
