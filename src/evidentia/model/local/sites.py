"""Latent sites of a NumPyro program that have a value in each row.

A site z ~ N(μ, τ) is z = μ + τ u with u ~ N(0, 1), whichever way it is written: a τ near 0 is no
difficulty. Other locations and scales are taken out likewise, and all others are mapped from the
real numbers by NumPyro's bijector; then f(u) has log p(z) + log |det ∂z/∂u| - log N(u; 0, 1).
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.distributions import constraints
from numpyro.primitives import Messenger

from evidentia.errors import ModelError
from evidentia.model.likelihoods import pointwise
from evidentia.model.local.mode import LogDensity
from evidentia.model.local.quadrature import Effects
from evidentia.model.program import Params, Program, bijector, trace_of
from evidentia.model.recentred import family_of

HALF_LOG_2PI = 0.9189385332046727


class Hidden(Messenger):
    """Runs a program with the named sites at some value, as of a prior that does not need them."""

    def __init__(self, program: Program, names: frozenset[str]):
        super().__init__(program)
        self._names = names

    def process_message(self, msg: Any) -> None:
        """Give a site a value."""
        if msg["type"] == "sample" and msg["name"] in self._names and msg["value"] is None:
            shape = msg["fn"].shape(msg["kwargs"].get("sample_shape", ()))
            bijection = bijector(msg)
            msg["value"] = bijection(jnp.zeros(bijection.inverse_shape(shape)))


class _AtStandard(Messenger):
    """Runs a program with local sites at their places in u; collects the terms of f(u)."""

    def __init__(self, program: Program, sizes: Mapping[str, int], u: Array):
        super().__init__(program)
        self._sizes, self._u, self.terms = sizes, u, jnp.zeros(len(u))
        self._starts = dict(zip(sizes, itertools.accumulate(sizes.values(), initial=0), strict=False))

    def process_message(self, msg: Any) -> None:
        """Place a site."""
        name = msg["name"]
        if msg["type"] != "sample" or name not in self._sizes or msg["value"] is not None:
            return
        if msg["scale"] is not None or isinstance(msg["fn"], dist.MaskedDistribution):
            raise ModelError(
                f"site {name!r} has a value in each row and is scaled or masked, which leaves no density to integrate over. Scale "
                "or mask the observed sites only."
            )
        u = self._u[:, self._starts[name] : self._starts[name] + self._sizes[name]]
        msg["value"], terms = _placed(msg, u)
        self.terms = self.terms + terms


class LocalSites:
    """The likelihood of a program given the standardised values of its local sites.

    Attributes:
        sizes: how many unconstrained numbers a site has in each row.
    """

    def __init__(self, program: Program, sizes: Mapping[str, int]):
        self.program: Program = program
        self.sizes: dict[str, int] = dict(sizes)

    @property
    def size(self) -> int:
        """How many they have together."""
        return sum(self.sizes.values())

    def __call__(self, params: Params, rows: Mapping[str, Any]) -> LogDensity:
        """f(u) of `Integrated`."""

        def log_density(u):
            values, terms = self.parts(params, rows, u)
            return values + terms

        return log_density

    def effects(self, params: Params, rows: Mapping[str, Any]) -> Effects:
        """The values of the sites in each row."""

        def values(u):
            sites = self.trace(params, rows, u)[0]
            return {name: sites[name]["value"] for name in self.sizes}

        return values

    def parts(self, params: Params, rows: Mapping[str, Any], u: Array) -> tuple[Array, Array]:
        """Each row's log-likelihood with local sites at u, and what their priors add to f(u)."""
        trace, terms = self.trace(params, rows, u)
        placed = {name: trace[name]["value"] for name in self.sizes}
        return pointwise(self.program)({**params, **placed}, rows), terms

    def trace(self, params: Params, rows: Mapping[str, Any], u: Array) -> tuple[Mapping[str, Any], Array]:
        """NumPyro's trace with local sites at u, and what their priors add to f(u)."""
        placing = _AtStandard(self.program, self.sizes, u)
        return trace_of(placing, rows, params), placing.terms


def _placed(message: Mapping[str, Any], u: Array) -> tuple[Array, Array]:
    """A site's value at u, and for each row log p(z) + log |det ∂z/∂u| - log N(u; 0, 1)."""
    distribution = message["fn"]
    shape = distribution.shape(message["kwargs"].get("sample_shape", ()))
    base = family_of(distribution)
    if isinstance(base, dist.MultivariateNormal):
        steps = jnp.einsum("...ij,...j->...i", base.scale_tril, u.reshape(shape))
        return jnp.asarray(base.loc) + steps, jnp.zeros(len(u))
    location, scale = getattr(base, "loc", None), getattr(base, "scale", None)
    if base.support is constraints.real and location is not None and scale is not None:
        value = location + scale * u.reshape(shape)
        if isinstance(base, dist.Normal):
            return value, jnp.zeros(len(u))
        log_det = _by_row(jnp.broadcast_to(jnp.log(scale), shape))
    else:
        bijection = bijector(message)
        free = u.reshape(bijection.inverse_shape(shape))
        value = bijection(free)
        log_det = _by_row(bijection.log_abs_det_jacobian(free, value))
    standard = jnp.sum(-0.5 * u**2 - HALF_LOG_2PI, axis=1)
    return value, _by_row(distribution.log_prob(value)) + log_det - standard


def _by_row(values: Array) -> Array:
    return jnp.sum(values.reshape(len(values), math.prod(values.shape[1:])), axis=1)
