"""What the rows of a group tell: all of them, or moments of their columns.

If the log-likelihood of a row is a polynomial of second degree in some columns z of the data, as
that of a normal response is in the response and its predictors, the sum over rows depends on their
number, Σ z and Σ z zᵀ only. Which columns these are is found in the traced program.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.model.local.groups import own_columns
from evidentia.model.local.integrated import Integrated
from evidentia.model.local.packed import unpacked
from evidentia.model.polynomial import CONSTANT, Degree, degrees
from evidentia.model.program import Densities

MOST = 2  # the degree up to which moments of rows are kept


class OfMoments(NamedTuple):
    """The columns of which moments tell all, together, and why others are not among them."""

    names: tuple[str, ...]
    reasons: dict[str, str]


def of_moments(densities: Densities, packs: Mapping[str, Any]) -> OfMoments:
    """The columns of real numbers in which the log-likelihood of a row is of second degree.

    Args:
        densities: of a model whose data are packs of groups.
        packs: some of them.
    """
    function, params = _function(densities), _params(densities)
    columns = {name: packs[name] for name in own_columns(unpacked(packs))}
    real = {name: array for name, array in columns.items() if array.dtype.kind == "f"}

    def of_groups(real, params, u):
        return function.conditional(params, {**packs, **real})(u)

    program = jax.make_jaxpr(of_groups)(real, params, _locals(function, packs))
    rest = len(program.jaxpr.invars) - len(real)

    def degree(names) -> Degree:
        inputs = [Degree(1, frozenset({name})) if name in names else CONSTANT for name in sorted(real)]
        return degrees(program, [*inputs, *[CONSTANT] * rest])[0]

    names, reasons = sorted(real), {}
    while names and (found := degree(names)).power > MOST:
        alone = {name: degree([name]) for name in names}
        odd = {name: one for name, one in alone.items() if one.power > MOST} or dict.fromkeys(names, found)
        reasons |= {name: _said(one) for name, one in odd.items()}
        names = [name for name in names if name not in odd]
    return OfMoments(tuple(names), reasons)


def _said(degree: Degree) -> str:
    return f"it enters by {degree.operation!r}" if degree.operation else f"its degree is {degree.power:.0f}"


def is_quadratic(densities: Densities, packs: Mapping[str, Any]) -> bool:
    """Whether f(u) is of second degree and effects are linear, as for normal rows and effects."""
    function = _function(densities)

    def both(params, u):
        return function.conditional(params, packs)(u), function.effects(params, packs)(u)

    params = _params(densities)
    program = jax.make_jaxpr(both)(params, _locals(function, packs))
    inputs = [CONSTANT] * (len(program.jaxpr.invars) - 1)
    of_values, *of_effects = degrees(program, [*inputs, Degree(1, frozenset({"u"}))])
    return of_values.power <= MOST and all(one.power <= 1 for one in of_effects)


def _function(densities: Densities) -> Integrated:
    assert isinstance(densities.pointwise, Integrated)
    return densities.pointwise


def _params(densities: Densities) -> Any:
    return jax.eval_shape(densities.place, jax.ShapeDtypeStruct((densities.size,), jnp.float32))[0]


def _locals(function: Integrated, packs: Mapping[str, Any]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((function.num_places(packs), function.size), np.float32)
