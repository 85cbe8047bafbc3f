"""Which parameters a log-likelihood depends on, found in its traced program without evaluation.

Numbers alone cannot tell: a likelihood whose peak is narrow underflows to one value elsewhere.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from evidentia.model.program import Densities, Observations

Names = frozenset[str]
NONE: Names = frozenset()
SHAPED = "broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "copy"  # zeros stay zeros


def traced(densities: Densities, rows: Observations) -> ClosedJaxpr:
    """The log-likelihood of rows as a program of the constrained parameters."""
    params = {name: jax.ShapeDtypeStruct(site.shape, jnp.float32) for name, site in densities.sites.items()}
    return jax.make_jaxpr(densities.pointwise)(params, rows)


def parameters_used(densities: Densities, program: ClosedJaxpr) -> Names:
    """The parameters that can influence the log-likelihood; those multiplied by zero cannot."""
    names = [frozenset({name}) for name in sorted(densities.sites)]  # leaves of a dict are sorted
    rest = len(program.jaxpr.invars) - len(names)
    return frozenset().union(*_reaching(program, [*names, *[NONE] * rest]))


def _reaching(program: ClosedJaxpr, inputs: Sequence[Names]) -> list[Names]:
    """The parameters that reach each result of a program, from those in each of its inputs."""
    jaxpr: Jaxpr = program.jaxpr
    known = dict(zip(jaxpr.invars, inputs, strict=True))
    zeros = {
        variable
        for variable, constant in zip(jaxpr.constvars, program.consts, strict=True)
        if not jnp.issubdtype(jnp.result_type(constant), jax.dtypes.prng_key) and not np.any(constant)
    }

    def is_zero(atom):
        return not np.any(atom.val) if isinstance(atom, Literal) else atom in zeros

    for equation in jaxpr.eqns:
        kind = equation.primitive.name
        found = [NONE if isinstance(one, Literal) else known.get(one, NONE) for one in equation.invars]
        inner = equation.params.get("jaxpr")
        if (kind == "mul" and any(map(is_zero, equation.invars))) or (
            kind in SHAPED and is_zero(equation.invars[0])
        ):
            zeros.update(equation.outvars)
            results = [NONE]
        elif kind in ("jit", "pjit") and isinstance(inner, ClosedJaxpr):
            results = _reaching(inner, found)
        else:
            results = [frozenset().union(*found)] * len(equation.outvars)
        known.update(zip(equation.outvars, results, strict=True))
    return [NONE if isinstance(one, Literal) else known.get(one, NONE) for one in jaxpr.outvars]
