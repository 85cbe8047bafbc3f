"""The models of `gpu.py`, and their rows, made on the device."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import evidentia as ev

IN_BLOCK = 1 << 16  # rows converted to float64 at a time

Arrays = dict[str, jax.Array]


@dataclass(frozen=True)
class Work:
    """A model, how its rows are drawn on the device, and how its evidence is known otherwise.

    `precision` is that of matrix products, as `jax.default_matmul_precision` takes it.
    """

    name: str
    model: ev.Model
    draw: Callable[[jax.Array, int], Arrays]
    exact: Callable[[Arrays], float] | None = None
    precision: str | None = None


def works() -> dict[str, Work]:
    """Linear regression with 5 features, softmax with 10 and 4 classes, a mixture of 3 in 2."""
    linear = ev.models.linear_regression(num_features=5)
    softmax = ev.models.softmax_regression(num_features=10, num_classes=4)
    mixture = ev.models.gaussian_mixture(num_components=3, num_features=2)
    found = [
        Work("linear", linear, linear_rows, exact_linear),
        Work("linear, full float32", linear, linear_rows, exact_linear, "highest"),
        Work("softmax", softmax, softmax_rows),
        Work("mixture", mixture, mixture_rows),
    ]
    return {work.name: work for work in found}


@partial(jax.jit, static_argnums=1)
def linear_rows(key: jax.Array, num_rows: int) -> Arrays:
    """Rows of the linear model, at parameters from its prior."""
    keys = jax.random.split(key, 3)
    x, weights = jax.random.normal(keys[0], (num_rows, 5)), jax.random.normal(keys[1], (6,))
    return {"x": x, "y": x @ weights[:5] + weights[5] + jax.random.normal(keys[2], (num_rows,))}


@partial(jax.jit, static_argnums=1)
def softmax_rows(key: jax.Array, num_rows: int) -> Arrays:
    """Rows of the softmax model, at parameters from its prior."""
    keys = jax.random.split(key, 3)
    x, weights = jax.random.normal(keys[0], (num_rows, 10)), jax.random.normal(keys[1], (11, 4))
    return {"x": x, "y": jax.random.categorical(keys[2], x @ weights[:10] + weights[10]).astype(jnp.int32)}


@partial(jax.jit, static_argnums=1)
def mixture_rows(key: jax.Array, num_rows: int) -> Arrays:
    """Rows of three components with some overlap."""
    key_component, key_noise = jax.random.split(key)
    means, scales = jnp.array([[-2.0, 0.0], [0.0, 2.0], [2.0, -1.0]]), jnp.array([0.5, 1.0, 0.7])
    component = jax.random.categorical(key_component, jnp.log(jnp.array([0.5, 0.3, 0.2])), shape=(num_rows,))
    noise = jax.random.normal(key_noise, (num_rows, 2))
    return {"y": means[component] + scales[component, None] * noise}


def exact_linear(arrays: Arrays, in_block: int = IN_BLOCK) -> float:
    """The log evidence of the linear model, from sums of products in float64 on the device.

    With S = Zᵀ Z of Z = [x, 1], A = I + S and b = Zᵀ y it is
    -½ [n log 2π + log |A| + |y|² - bᵀ A⁻¹ b].
    """
    num_rows = len(arrays["y"])
    with jax.enable_x64(True):
        products = np.asarray(_products(arrays, min(in_block, num_rows)))
    precision, projection = np.eye(len(products) - 1) + products[:-1, :-1], products[:-1, -1]
    fitted = projection @ np.linalg.solve(precision, projection)
    log_determinant = np.linalg.slogdet(precision)[1]
    return float(-0.5 * (num_rows * math.log(2 * math.pi) + log_determinant + products[-1, -1] - fitted))


@partial(jax.jit, static_argnums=1)
def _products(arrays: Arrays, size: int) -> jax.Array:
    """The sums of products of the columns [x, 1, y], block by block."""
    num_rows, num_columns = len(arrays["y"]), arrays["x"].shape[1] + 2

    def of_rows(first: Any, count: int) -> jax.Array:
        x, y = (
            jax.lax.dynamic_slice_in_dim(arrays[name], first, count).astype(jnp.float64)
            for name in ("x", "y")
        )
        columns = jnp.column_stack([x, jnp.ones(count), y])
        return columns.T @ columns

    whole = num_rows // size
    total = jax.lax.fori_loop(
        0, whole, lambda block, total: total + of_rows(block * size, size), jnp.zeros((num_columns,) * 2)
    )
    return total + of_rows(whole * size, num_rows - whole * size) if num_rows % size else total
