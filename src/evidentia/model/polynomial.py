"""Whether a traced function is a polynomial of some of its arguments, and of which degree.

Found in the program, without evaluation: a proof, where numbers at some places would be a guess.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

Names = frozenset[str]


class Degree(NamedTuple):
    """An upper bound of the degree of a value in some of the arguments.

    Attributes:
        power: the degree; infinite if the value may be no polynomial.
        names: the arguments that it depends on.
        operation: the first one that is none of polynomials.
    """

    power: float = 0
    names: Names = frozenset()
    operation: str = ""


CONSTANT = Degree()
# The result is linear in all operands together, which may all depend on the arguments;
LINEAR = (
    *("add", "add_any", "sub", "neg", "reduce_sum", "cumsum", "copy"),
    *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "rev"),
    *("concatenate", "pad", "slice"),
)
# or linear in those at these places, while the others are divisors, indices or conditions.
PLACES: dict[str, slice] = {
    "div": slice(0, 1),
    "gather": slice(0, 1),
    "dynamic_slice": slice(0, 1),
    "scatter-add": slice(0, None, 2),
    "select_n": slice(1, None),
}
PRODUCTS = "mul", "dot_general"
CALLS = "jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"
COMPARISONS = "eq", "ne", "lt", "le", "gt", "ge"


def degrees(program: ClosedJaxpr, inputs: Sequence[Degree]) -> list[Degree]:
    """The degrees of the results of a program, from those of its arguments, which are finite."""
    jaxpr: Jaxpr = program.jaxpr
    known: dict[Any, Degree] = dict(zip(jaxpr.invars, inputs, strict=True))

    def of(atom: Any) -> Degree:
        return CONSTANT if isinstance(atom, Literal) else known.get(atom, CONSTANT)

    for equation in jaxpr.eqns:
        operands = [of(atom) for atom in equation.invars]
        is_finite = all(one.power < math.inf for one in operands)
        if all(one == CONSTANT for one in operands) or (is_finite and _is_of_finite(equation)):
            continue
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        if equation.primitive.name in CALLS and isinstance(inner, ClosedJaxpr):
            found = degrees(inner, operands)
        else:
            found = [_of_operation(equation, operands)] * len(equation.outvars)
        known.update(zip(equation.outvars, found, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _is_of_finite(equation: Any) -> bool:
    """Whether an equation only asks if numbers are finite, as checks of a support do.

    Polynomials of finite numbers are; log x or 1/x need not be.
    """
    if equation.primitive.name not in COMPARISONS:
        return False
    first, second = equation.invars
    values = (atom.val for atom in (first, second) if isinstance(atom, Literal))
    return first is second or any(np.all(np.isinf(value)) for value in values)


def _of_operation(equation: Any, operands: Sequence[Degree]) -> Degree:
    name, params = equation.primitive.name, equation.params
    names = frozenset[str]().union(*(one.names for one in operands))
    powers = [one.power for one in operands]
    operation = next((one.operation for one in operands if one.operation), "")
    if name in LINEAR or (name == "convert_element_type" and np.issubdtype(params["new_dtype"], np.floating)):
        return Degree(max(powers), names, operation)
    if name in PRODUCTS:
        return Degree(sum(powers), names, operation)
    if name == "square" or (name == "integer_pow" and params["y"] > 0):
        return Degree(powers[0] * params.get("y", 2), names, operation)
    linear = powers[PLACES.get(name, slice(0))]
    if linear and sum(linear) == sum(powers):  # the others are constants
        return Degree(max(linear), names, operation)
    return Degree(math.inf, names, operation or name)
