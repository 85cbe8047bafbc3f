"""Whether a log-likelihood in JAX has one value at a position: in every call, in every trace.

A callback to Python may return other numbers at each call. A function that draws from NumPy's
generator while it is traced gets other constants in each program, and an estimate needs several.
Neither is seen in the values of one call.
"""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jaxtyping import Float

from evidentia.errors import ModelError
from evidentia.model.probe import Values, constants_of, probing_positions
from evidentia.model.program import Densities, Observations

ROUNDING = 1e-4  # relative, and in nats: sums of float32 in another order differ by less
ADDRESS = re.compile(r"at 0x[0-9a-f]+")  # of a Python function, in the text of a program


def check_repeats(
    evaluate: Callable[[Float[np.ndarray, "positions parameters"]], Values],
    positions: Float[np.ndarray, "positions parameters"],
) -> Values:
    """The model's values at positions. Raises ModelError if a second call gives others."""
    first, second = evaluate(positions), evaluate(positions)
    _compare(first.log_likelihoods, second.log_likelihoods)
    return first


def check_traces(densities: Densities, rows: Observations) -> None:
    """Raise ModelError if a second trace of the log-likelihood has other values at a position.

    Nothing is evaluated if the programs are the same.
    """
    position = jnp.asarray(probing_positions(densities.size)[0])
    programs = [_trace(densities, position, rows) for _ in range(2)]
    if _identity(programs[0]) == _identity(programs[1]):
        return
    arguments = jax.tree.leaves((position, rows))
    _compare(*(np.asarray(jaxpr_as_fun(program)(*arguments)[0]) for program in programs))


def _trace(densities: Densities, position: jax.Array, rows: Observations) -> ClosedJaxpr:
    # A new function each time, as JAX keeps the programs of those that it knows.
    return jax.make_jaxpr(lambda position, rows: densities.log_likelihood(position, rows))(position, rows)


def _identity(program: ClosedJaxpr) -> tuple[str, tuple[bytes, ...]]:
    constants = tuple(constant.tobytes() for constant in constants_of(program))
    return ADDRESS.sub("", str(program)), constants


def _compare(first: np.ndarray, second: np.ndarray) -> None:
    same = np.isclose(first, second, rtol=ROUNDING, atol=ROUNDING, equal_nan=True)
    if not same.all():
        place = np.unravel_index(np.argmin(same), same.shape)
        raise ModelError(
            f"log_likelihood has more than one value at the same parameters and rows: {first[place]:.6g} and then "
            f"{second[place]:.6g}. It must depend on its arguments alone: draw random numbers outside of it, or from a "
            "generator with a fixed seed that each call makes anew."
        )
