"""Degrees of traced functions in their arguments."""

import math

import jax
import jax.numpy as jnp
import pytest

from evidentia.model.polynomial import Degree, degrees


def of(function, x, y):
    program = jax.make_jaxpr(function)(x, y)
    return degrees(program, [Degree(1, frozenset("x")), Degree()])[0]


@pytest.mark.parametrize(
    ("function", "power"),
    [
        (lambda x, y: jnp.exp(y), 0),
        (lambda x, y: jnp.sum(x) / y[0] + 1, 1),
        (lambda x, y: jax.jit(lambda z: (z - y) ** 2)(x), 2),
        (lambda x, y: (x @ y) * x[0] ** 2, 3),
        (lambda x, y: jnp.where(y > 0, x[::-1], 2 * x), 1),
        (lambda x, y: jnp.where(jnp.isfinite(jnp.sin(y)), x, 0), 1),
        (lambda x, y: jnp.where((x == x) & (x != jnp.inf), x, -jnp.inf), 1),  # a check of its support
        (lambda x, y: jnp.zeros(3).at[0].add(x[1]), 1),
        (lambda x, y: (jnp.exp(x), y * 2)[1], 0),  # a result that does not depend on it
    ],
)
def test_polynomials(function, power):
    assert of(function, jnp.ones(3), jnp.ones(3)).power == power


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda x, y: y / x, "div"),
        (lambda x, y: jnp.exp(x) * y, "exp"),
        (lambda x, y: jnp.where(x > 0, x, y), "gt"),
        (lambda x, y: y[x.astype(int)], "convert_element_type"),
        (lambda x, y: x**-1, "integer_pow"),
        (lambda x, y: jax.lax.integer_pow(jnp.exp(x), 0) * jnp.exp(x), "exp"),
        (lambda x, y: jnp.where(jnp.log(x) > -jnp.inf, x, y), "log"),  # x may be 0
        (lambda x, y: jax.lax.scan(lambda c, z: (c * z, c), y[0], x)[0], "scan"),
    ],
)
def test_others_with_the_first_operation_at_fault(function, operation):
    found = of(function, jnp.ones(3), jnp.ones(3))
    assert found.power == math.inf and found.operation == operation and found.names == {"x"}
