"""Discrete latent variables, summed out.

A site z with a finite support that has a value in each row, or one value for all rows, is no
parameter: the likelihood is the sum over its values,

    p(y_i | θ) = Σ_k p(z_i = k | θ) p(y_i | z_i = k, θ).

The program is run with each site at each of its values; sites of the same row, all combinations.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.primitives import Messenger

from evidentia.errors import ModelError

MOST_COMBINATIONS = 1000  # of the values of all sites in one row

Program = Callable[..., Any]
Indices = Mapping[str, Array]  # of the value at which each site is


def is_summed_out(message: Mapping[str, Any]) -> bool:
    """Whether a statement of a program is a discrete variable that is not observed."""
    return message["type"] == "sample" and not message["is_observed"] and message["fn"].is_discrete


def is_latent(message: Mapping[str, Any]) -> bool:
    """Whether a statement of a program is a continuous variable that is not observed."""
    return message["type"] == "sample" and not message["is_observed"] and not message["fn"].is_discrete


def support_of(name: str, distribution: Any) -> Array:
    """The values of a discrete site. Raises ModelError if they are not finitely many numbers."""
    base = distribution
    while hasattr(base, "base_dist"):
        base = base.base_dist
    kind = type(base).__name__
    if distribution.event_shape:
        raise ModelError(
            f"site {name!r} is a discrete latent ({kind}) with several numbers per value; give each a site of its own, or sum "
            "it out of the likelihood."
        )
    try:
        return distribution.enumerate_support(expand=False).reshape(-1)
    except (NotImplementedError, TypeError, ValueError, jax.errors.JAXTypeError):
        raise ModelError(
            f"site {name!r} is a discrete latent ({kind}) whose values cannot be listed; only those with finitely many, known "
            "beforehand, are summed out. Bound it, sum it out of the likelihood, or, if it should be observed, put its "
            "values into data."
        ) from None


class AtValues(Messenger):
    """Runs a program with its discrete latent sites at given values, or else at their first.

    Attributes:
        sizes: the numbers of values of the sites that it met.
    """

    def __init__(self, program: Program, indices: Indices | None = None):
        super().__init__(program)
        self._indices = indices or {}
        self.sizes: dict[str, int] = {}

    def process_message(self, msg: Any) -> None:
        """Give a discrete site its value."""
        if is_summed_out(msg) and msg["value"] is None:
            name, values = msg["name"], support_of(msg["name"], msg["fn"])
            self.sizes[name] = len(values)
            shape = msg["fn"].shape(msg["kwargs"].get("sample_shape", ()))
            msg["value"] = jnp.broadcast_to(values[self._indices.get(name, 0)], shape)


class Terms(NamedTuple):
    """Log-probabilities of a program's statements: one for each row, and one for all rows."""

    by_row: Float[Array, "*rows"]
    shared: Float[Array, ""]


def log_sum(terms_at: Callable[[Indices], Terms], own: Mapping[str, int], shared: Mapping[str, int]) -> Terms:
    """The terms with discrete sites summed out, whose numbers of values are given.

    Those of `own` have a value in each row, those of `shared` one for all rows. Given the latter,
    rows are independent.
    """

    def over_rows(indices: Indices) -> Terms:
        if not own:
            return terms_at(indices)
        found = jax.vmap(lambda each: terms_at({**indices, **each}))(_combinations(own))
        return Terms(jax.nn.logsumexp(found.by_row, axis=0), found.shared[0])

    if not shared:
        return over_rows({})
    found = jax.vmap(over_rows)(_combinations(shared))
    totals = found.shared + jnp.sum(found.by_row, axis=tuple(range(1, found.by_row.ndim)))
    return Terms(jnp.zeros_like(found.by_row[0]), jax.nn.logsumexp(totals))


def _combinations(sizes: Mapping[str, int]) -> dict[str, Array]:
    count = math.prod(sizes.values())
    if count > MOST_COMBINATIONS:
        raise ModelError(
            f"the discrete latents {', '.join(map(repr, sizes))} have {count:,} combinations of values; at most {MOST_COMBINATIONS:,} can be "
            "summed out."
        )
    grid = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    return {name: jnp.asarray(row) for name, row in zip(sizes, grid, strict=True)}
