"""A log-likelihood that is computed in float64, with its derivatives, in float32 programs, too.

Programs of the methods are in float32, and `posterior/rows` takes care of sums over rows. Some
log-likelihoods lose their digits before they are summed: a Cholesky factor of an ill-conditioned
covariance exists in float64 only. They are computed in float64 here, for each position, and their
value, gradient and Hessian are rounded.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from evidentia.model.program import Params
from evidentia.system.compilation import in_float64

AT_ONCE = 1 << 24  # numbers of intermediate results that are held at once: 128 MiB for each of them


def in_double_precision(
    function: Callable[[Params, Any], Array], size: Callable[[Any], int]
) -> Callable[[Params, Any], Array]:
    """A function of parameters and data, computed in float64 under any setting of JAX.

    It has first and second derivatives with respect to the parameters, and none with respect to
    the data. Its value has the parameters' type.

    Args:
        function: `function(params, data) -> ()`.
        size: the number of intermediate results of the function, for some data. Under `jax.vmap`,
            as many positions are computed at once as fit `AT_ONCE`.

    Example:
        >>> import jax.numpy as jnp
        >>> precise = in_double_precision(lambda params, data: params["x"] - data, lambda data: 1)
        >>> round(float(precise({"x": jnp.float32(1.0)}, jnp.float32(0.5))), 3)
        0.5
    """

    def wide(params: Params, data: Any) -> Array:
        vector, unravel = ravel_pytree(params)
        of_vector = _derivatives(lambda one, data: function(unravel(one), data), size(data))
        return of_vector(vector, data)

    return wide


def _derivatives(function: Callable[[Array, Any], Array], size: int) -> Callable[[Array, Any], Array]:
    """A function of a vector whose derivatives come from float64, too.

    The rule for a tangent is linear in it, so that nothing of the function is differentiated
    outside of float64.
    """

    def value_and_gradient(vector: Array, data: Any) -> tuple[Array, Array]:
        return jax.value_and_grad(function)(vector, data)

    def with_hessian(vector: Array, data: Any) -> tuple[Array, Array, Array]:
        def gradient(one: Array) -> tuple[Array, tuple[Array, Array]]:
            value, slope = value_and_gradient(one, data)
            return slope, (value, slope)

        hessian, (value, slope) = jax.jacfwd(gradient, has_aux=True)(vector)
        return value, slope, hessian

    value = jax.custom_jvp(_wide(function, size))
    first = jax.custom_jvp(_wide(value_and_gradient, size))
    second = _wide(with_hessian, size * 2)

    @value.defjvp
    def _(primals, tangents):
        found, slope = first(*primals)
        return found, slope @ tangents[0]

    @first.defjvp
    def _(primals, tangents):
        found, slope, hessian = second(*primals)
        return (found, slope), (slope @ tangents[0], hessian @ tangents[0])

    return value


def _wide(function: Callable[[Array, Any], Any], size: int) -> Callable[..., Any]:
    """A function in float64, with results in the type of the vector."""

    def computed(vector: Array, data: Any) -> Any:
        with in_float64():
            found = function(*jax.tree.map(_widened, (vector, data)))
            return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, vector.dtype), found)

    return _in_groups(computed, max(1, AT_ONCE // size))


def _in_groups(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """A function that `vmap` computes for at most so many at once.

    Each `vmap` calls the function itself again, as its operations must be batched while JAX is in
    64 bits; so those of an outer one must not see what an inner one has made.
    """
    protected = custom_vmap(function)

    @protected.def_vmap
    def _(axis_size, in_batched, *arguments):
        flags = jax.tree.leaves(in_batched)
        at_once = min(axis_size, 1 << (most.bit_length() - 1))  # a power of two, as batches are

        def mapped(*arguments):
            leaves, structure = jax.tree.flatten(arguments)

            def at_one(batched):
                of_batch = iter(batched)
                each = [next(of_batch) if flag else leaf for leaf, flag in zip(leaves, flags, strict=True)]
                return function(*jax.tree.unflatten(structure, each))

            batched = [leaf for leaf, flag in zip(leaves, flags, strict=True) if flag]
            if at_once == axis_size:
                return jax.vmap(at_one)(batched)
            return jax.lax.map(at_one, batched, batch_size=at_once if at_once > 1 else None)

        found = _in_groups(mapped, max(1, most // at_once))(*arguments)
        return found, jax.tree.map(lambda _: True, found)

    return protected


def _widened(leaf: Any) -> Array:
    array = jnp.asarray(leaf)
    is_real = jnp.issubdtype(array.dtype, jnp.floating)
    return jax.lax.convert_element_type(array, jnp.float64) if is_real else array
