"""Values of a model, for its checks, and a hash of its program, which identifies it.

Models are equal if their programs are: the same densities, gradients and prior draws, constants
included, however they are written. A rebuilt model therefore compiles nothing, and a function that
closes over another value makes another model. Code whose results are not used does not count: a
prior is drawn with a few rows of the data, on which only the likelihood depends.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Float

from evidentia.model.program import Densities, Observations

NUM_POSITIONS = 16
NUM_NEAR = 8  # of them near zero: far out, the Jacobian of a 20-dimensional Cholesky factor underflows


class Values(NamedTuple):
    """A model's values at random positions, for several batches: (batches, positions, …) each.

    Attributes:
        prior: constrained parameters and the log prior density of each, by name.
        prior_of_batches: the same, with the prior called with each batch.
        log_likelihoods: the log-likelihood of each row.
    """

    prior: Any
    prior_of_batches: Any
    log_likelihoods: Float[np.ndarray, "batches positions rows"]


def probing_positions(size: int) -> Float[np.ndarray, "positions parameters"]:
    """Random positions at which models are probed, the first of them near zero."""
    positions = np.random.default_rng(0).standard_normal((NUM_POSITIONS, size), np.float32)
    positions[:NUM_NEAR] *= 0.25
    return positions


def probe(
    densities: Densities, batches: Observations
) -> tuple[str, Callable[[Float[np.ndarray, "positions parameters"]], Values]]:
    """A hash of what a model computes, and a function that gives its values at positions.

    `batches` are stacked on the leading axis; there are always `NUM_POSITIONS` positions.
    """
    positions = probing_positions(densities.size)

    def values(positions, batches):
        def one(position, batch):
            prior = of_batch = densities.place(position)
            if densities.rows:
                of_batch = densities.place(position, batch)
            return prior, of_batch, densities.pointwise(prior[0], batch)

        over_positions = jax.vmap(one, in_axes=(0, None))
        return jax.vmap(over_positions, in_axes=(None, 0))(positions, batches)

    def the_rest(key, position, batch):  # lowered for its text, never run
        def log_posterior(position):
            params, log_densities = densities.place(position)
            return sum(log_densities.values()) + jnp.sum(densities.pointwise(params, batch))

        return densities.draw(key), jax.grad(log_posterior)(position)

    program, traced = _live(values, positions, batches)
    key = jax.eval_shape(lambda: jax.random.key(0))
    other, rest = _live(the_rest, key, positions[0], jax.tree.map(lambda leaf: leaf[0], batches))
    # The texts do not contain the names of parameters and data.
    names = tuple(densities.sites.items()), jax.tree.structure(batches), bool(densities.rows)
    lowered = traced.lower()
    digest = hashlib.sha256(f"{lowered.as_text()}{rest.lower().as_text()}{names}".encode())
    for constant in (*constants_of(program), *constants_of(other)):
        digest.update(f"{constant.shape}{constant.dtype}".encode() + constant.tobytes())
    identity = digest.hexdigest()
    compiled = _compiled(_Lowered(identity, lowered))

    def evaluate(positions):
        return Values(*jax.tree.map(np.asarray, compiled(positions, batches)))

    return identity, evaluate


def _live(function: Callable[..., Any], *arguments: Any) -> tuple[ClosedJaxpr, Any]:
    """The program of a function without code whose results are not used, and the same traced."""
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    jaxpr, _ = dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars), instantiate=True)
    used = {id(each) for equation in jaxpr.eqns for each in equation.invars} | set(map(id, jaxpr.outvars))
    constants = zip(jaxpr.constvars, program.consts, strict=True)
    kept = [(variable, constant) for variable, constant in constants if id(variable) in used]
    live = ClosedJaxpr(
        jaxpr.replace(constvars=[variable for variable, _ in kept]), [constant for _, constant in kept]
    )
    run, structure = jaxpr_as_fun(live), jax.tree.structure(shapes)

    def of_arguments(*arguments):
        return jax.tree.unflatten(structure, run(*jax.tree.leaves(arguments)))

    return live, jax.jit(of_arguments).trace(*arguments)


def constants_of(value: Any) -> Iterator[np.ndarray]:
    """The arrays that a traced program closes over.

    JAX may pass them to the program as arguments instead of writing them into its text
    (`jax_use_simplified_jaxpr_constants`).
    """
    if isinstance(value, ClosedJaxpr):
        yield from map(_plain, value.consts)
        value = value.jaxpr
    if isinstance(value, Jaxpr):
        for equation in value.eqns:
            yield from (_plain(each.val) for each in equation.invars if isinstance(each, Literal))
            yield from constants_of(tuple(equation.params.values()))
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from constants_of(entry)


def _plain(constant: Any) -> np.ndarray:
    is_key = jnp.issubdtype(jnp.result_type(constant), jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(constant) if is_key else constant)


class _Lowered(NamedTuple):
    """A lowered program, compared by its identity alone."""

    identity: str
    program: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Lowered) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


@lru_cache(maxsize=64)
def _compiled(lowered: _Lowered) -> Any:
    return lowered.program.compile(compiler_options={"xla_backend_optimization_level": 0})  # run once
