"""Gaussian responses with several factors: all effects that vary are integrated out at once.

With r = (y - the fixed part) / σ, the effects u ~ N(0, 1) in units of their deviations, and A =
Z Λ / σ their columns, split into those of the factor with most levels, a, and of all others, b,

    log p(y) = -½ [n log(2π σ²) + log |I + AᵀA| + rᵀr - rᵀA (I + AᵀA)⁻¹ Aᵀr].

The matrix I + aᵀa has one small block D for each level. What is left of the others is Schur's
complement S = I + bᵀb - bᵀa D⁻¹ aᵀb, as large as there are other effects:

    log |I + AᵀA| = log |D| + log |S|.

The products of columns, Zᵀ Z, are computed once.

Source: Bates, Mächler, Bolker, Walker (2015), Journal of Statistical Software 67(1), section 3
(sparse factorisation of the same matrix).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import cho_solve, solve_triangular
from numpy import ndarray

from evidentia.evidence.laplace import Laplace
from evidentia.model.local.mode import cholesky, solve, solve_transposed
from evidentia.model.local.quadrature import Moments

if TYPE_CHECKING:
    from evidentia.regression.grouped import Grouped

MOST_OTHER_EFFECTS = 4_000  # a dense matrix of as many rows takes a second to factorise
MOST_PRODUCTS = 1 << 26  # of columns of the two parts: 256 MiB in float32
METHOD = Laplace(num_particles=128)  # few parameters are left, whose likelihood takes long
PRODUCTS = "own", "across", "among"  # arrays that have no rows
HALF_LOG_2PI = 0.9189385332046727

Params = Mapping[str, Any]


def is_feasible(inner: Grouped, outer: tuple[Grouped, ...]) -> bool:
    """Whether there are several factors, and the matrices are small enough."""
    others = sum(one.count for one in outer)
    return 0 < others <= MOST_OTHER_EFFECTS and inner.count * others <= MOST_PRODUCTS


def arrays_of(inner: Grouped, outer: tuple[Grouped, ...]) -> dict[str, ndarray]:
    """The columns of effects, with their products: own blocks, those across, and among others."""
    columns, places, first = [], [], 0
    for one in outer:
        columns.append(one.columns)
        places.append(first + one.codes[:, None] * one.size + np.arange(one.size))
        first += one.count
    others, places = np.concatenate(columns, axis=1), np.concatenate(places, axis=1)
    own = np.zeros((len(inner.levels), inner.size, inner.size))
    across = np.zeros((len(inner.levels), inner.size, first))
    among = np.zeros((first, first))
    each, every = np.arange(inner.size), inner.codes[:, None, None]
    np.add.at(own, (every, each[:, None], each), inner.columns[:, :, None] * inner.columns[:, None])
    np.add.at(across, (every, each[:, None], places[:, None]), inner.columns[:, :, None] * others[:, None])
    np.add.at(among, (places[:, :, None], places[:, None]), others[:, :, None] * others[:, None])
    rows = {"varying": inner.columns, "group": inner.codes, "others": others, "places": places}
    return {**rows, "own": own, "across": across, "among": among}


def starts_of(prior: Mapping[str, dist.Distribution]) -> tuple[dict[str, ndarray], ...]:
    """Where to look for modes: effects of 0, and deviations of 0.3 and 0.8 of the response's.

    Where a replaced prior does not allow these, a draw from it.
    """

    def of_size(size: float) -> dict[str, ndarray]:
        found = {}
        for name, distribution in prior.items():
            if isinstance(distribution, dist.LKJCholesky):
                found[name] = np.eye(distribution.dimension)
            else:
                is_deviation = name == "scale" or name.startswith("sd(")
                value = np.full(distribution.shape(), size if is_deviation else 0.0)
                is_possible = bool(jnp.all(distribution.support(value)))  # pyright: ignore[reportOptionalCall]
                found[name] = value if is_possible else np.asarray(distribution.sample(jax.random.key(0)))
        return found

    return of_size(0.3), of_size(0.8)


class Solved(NamedTuple):
    """The factorised matrix I + AᵀA, and Aᵀr after elimination, of one set of parameters."""

    own: Any  # the Cholesky factors of D
    own_sums: Any  # L_D⁻¹ aᵀr
    across: Any  # L_D⁻¹ aᵀb, (levels, effects, others)
    rest: Any  # the Cholesky factor of S
    rest_sums: Any  # L_S⁻¹ (bᵀr - bᵀa D⁻¹ aᵀr)


@dataclass(frozen=True, eq=False)
class Crossed:
    """The log-likelihood of all data, with every effect that varies integrated out.

    Attributes:
        fixed_predictor: `(params, rows) -> (rows,)`.
        inner: the factor with most levels.
        outer: all others.
    """

    fixed_predictor: Callable[[Params, Params], jax.Array]
    inner: Grouped
    outer: tuple[Grouped, ...]

    def num_rows(self, data: Params) -> int:
        """How many rows the data have."""
        return data["y"].shape[-1]

    def __call__(self, params: Params, data: Params) -> jax.Array:
        """log p(y | params)."""
        residuals, solved = self.solved(params, data)
        log_det = jnp.sum(jnp.log(jnp.diagonal(solved.own, axis1=1, axis2=2))) + jnp.sum(
            jnp.log(jnp.diagonal(solved.rest))
        )
        squares = jnp.sum(residuals**2) - jnp.sum(solved.own_sums**2) - jnp.sum(solved.rest_sums**2)
        return -len(residuals) * (HALF_LOG_2PI + jnp.log(params["scale"])) - log_det - 0.5 * squares

    def solved(self, params: Params, data: Params) -> tuple[jax.Array, Solved]:
        """r, and the factorised matrix."""
        scale, levels = params["scale"], len(self.inner.levels)
        rows = {name: array for name, array in data.items() if name not in PRODUCTS}
        residuals = (data["y"] - self.fixed_predictor(params, rows)) / scale
        factor = self.inner.factor(params) / scale
        own = jnp.einsum("ji,gjk,kl->gil", factor, data["own"], factor) + jnp.eye(self.inner.size)
        across = jnp.einsum("ji,gjq->giq", factor, self._scaled(params, data["across"]))
        among = self._scaled(params, self._scaled(params, data["among"]).T)
        own_sums = jax.ops.segment_sum(residuals[:, None] * (data["varying"] @ factor), data["group"], levels)
        sums = jax.ops.segment_sum(
            (residuals[:, None] * data["others"]).ravel(), data["places"].ravel(), among.shape[0]
        )
        triangle = cholesky(own)
        across, own_sums = solve(triangle, across), solve(triangle, own_sums[:, :, None])[:, :, 0]
        flat = across.reshape(-1, among.shape[0])
        rest = jnp.linalg.cholesky(jnp.eye(among.shape[0]) + among - flat.T @ flat)
        rest_sums = self._scaled(params, sums[None])[0] - own_sums.ravel() @ flat
        rest_sums = solve_triangular(rest, rest_sums, lower=True)
        return residuals, Solved(triangle, own_sums, across, rest, rest_sums)

    def moments(self, params: Params, data: Params) -> dict[str, Moments]:
        """Mean and variance of each level's effects of the table's columns, by factor and name."""
        _, solved = self.solved(params, data)
        mean = solve_triangular(solved.rest, solved.rest_sums, lower=True, trans=1)
        covariance = cho_solve((solved.rest, True), jnp.eye(len(mean)))
        of_own = solved.own_sums - jnp.einsum("giq,q->gi", solved.across, mean)
        among = jnp.einsum("giq,qr,gjr->gij", solved.across, covariance, solved.across)
        among = among + jnp.eye(self.inner.size)  # L_Dᵀ cov(a) L_D
        units = [jnp.broadcast_to(unit, of_own.shape) for unit in jnp.eye(self.inner.size)]
        # Λ L_D⁻ᵀ, by which both are multiplied
        inverse = jnp.stack([solve_transposed(solved.own, unit) for unit in units], axis=2)
        back = self.inner.at_zero @ self.inner.factor(params) @ inverse
        variance = jnp.einsum("gia,gab,gib->gi", back, among, back)
        found = {self.inner.name: _by_name(self.inner, jnp.einsum("gia,ga->gi", back, of_own), variance)}
        first = 0
        for one in self.outer:
            place = first + np.arange(one.count).reshape(-1, one.size)
            factor = one.at_zero @ one.factor(params)
            block = covariance[place[:, :, None], place[:, None]]
            variance = jnp.einsum("ia,gab,ib->gi", factor, block, factor)
            found[one.name] = _by_name(one, mean[place] @ factor.T, variance)
            first += one.count
        return found

    def drawn(self, params: Params, data: Params, noise: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Draws of u given the rows, (levels, effects) by factor, from standard normal noise."""
        _, solved = self.solved(params, data)
        given = jnp.concatenate([noise[one.name].ravel() for one in self.outer])
        others = solve_triangular(solved.rest, solved.rest_sums + given, lower=True, trans=1)
        own = solved.own_sums - jnp.einsum("giq,q->gi", solved.across, others) + noise[self.inner.name]
        found, first = {self.inner.name: solve_transposed(solved.own, own)}, 0
        for one in self.outer:
            found[one.name] = others[first : first + one.count].reshape(-1, one.size)
            first += one.count
        return found

    def _scaled(self, params: Params, columns: jax.Array) -> jax.Array:
        """Columns of other effects, on the last axis, times Λ / σ."""
        parts, first = [], 0
        for one in self.outer:
            part = columns[..., first : first + one.count]
            part = part.reshape(*part.shape[:-1], -1, one.size) @ (one.factor(params) / params["scale"])
            parts.append(part.reshape(*part.shape[:-2], -1))
            first += one.count
        return jnp.concatenate(parts, axis=-1)


def _by_name(grouped: Grouped, mean: jax.Array, variance: jax.Array) -> Moments:
    return {name: (mean[:, index], variance[:, index]) for index, name in enumerate(grouped.names)}
