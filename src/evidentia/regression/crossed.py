"""Gaussian responses with several factors: all effects that vary are integrated out at once.

With r = (y - the fixed part) / σ, the effects u ~ N(0, 1) in units of their deviations, and A =
Z Λ / σ their columns, those of the factor with most levels, a, and of all others, b,

    log p(y) = -½ [n log(2π σ²) + log |I + AᵀA| + rᵀr - rᵀA (I + AᵀA)⁻¹ Aᵀr].

`Crossed` is this function of all parameters for JAX, with dense matrices, for methods that are
named. Its `integrand`, in float64 on the host (`elimination.py`), is what `OverDeviations` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float
from numpy import ndarray

from evidentia.model.local.mode import cholesky, solve
from evidentia.regression.coordinates import Coordinates, factor_of
from evidentia.regression.effects_given import Moments, drawn_given, moments_given
from evidentia.regression.elimination import products_of
from evidentia.regression.normal_integrand import NormalIntegrand, columns_of
from evidentia.regression.predictor import Predictor
from evidentia.regression.working import working_of

if TYPE_CHECKING:
    from evidentia.regression.grouped import Grouped

MOST_OTHER_EFFECTS = 8_000  # a dense matrix of as many rows takes ten seconds to factorise
HALF_LOG_2PI = 0.9189385332046727
OF_EFFECTS = "varying", "group", "others", "places"  # arrays that are not of the fixed part

Params = Mapping[str, Any]


def is_feasible(inner: Grouped, outer: tuple[Grouped, ...]) -> bool:
    """Whether there are several factors, and the matrix of others is small enough."""
    return 0 < sum(one.count for one in outer) <= MOST_OTHER_EFFECTS


def arrays_of(inner: Grouped, outer: tuple[Grouped, ...]) -> dict[str, ndarray]:
    """The columns of effects in each row, and the places of those of others among them."""
    columns, places, first = [], [], 0
    for one in outer:
        columns.append(one.columns)
        places.append(first + one.codes[:, None] * one.size + np.arange(one.size))
        first += one.count
    others, places = np.concatenate(columns, axis=1), np.concatenate(places, axis=1)
    return {"varying": inner.columns, "group": inner.codes, "others": others, "places": places}


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


@dataclass(frozen=True, eq=False)
class Crossed:
    """The log-likelihood of all data, with every effect that varies integrated out.

    Attributes:
        fixed_predictor: `(params, rows) -> (rows,)`, linear in the coefficients.
        prior: of all parameters, by name.
        inner: the factor with most levels.
        outer: all others.
        identity: what tells it from others where it is bound to data (`model.binding`).
    """

    fixed_predictor: Predictor
    prior: Mapping[str, dist.Distribution]
    inner: Grouped
    outer: tuple[Grouped, ...]
    identity: str = field(default_factory=lambda: uuid4().hex)

    def num_rows(self, data: Params) -> int:
        """How many rows the data have."""
        return data["y"].shape[-1]

    def __call__(self, params: Params, data: Params) -> jax.Array:
        """log p(y | params)."""
        scale, levels, size = params["scale"], len(self.inner.levels), self.inner.size
        residuals = (data["y"] - self.fixed_predictor(params, _of_fixed_part(data))) / scale
        own = data["varying"] @ (self.inner.factor(params) / scale)
        others, places = self._scaled(params, data["others"]), data["places"]
        count = sum(one.count for one in self.outer)
        group = data["group"]
        squares = jax.ops.segment_sum(own[:, :, None] * own[:, None], group, levels)
        triangle = cholesky(jnp.eye(size) + squares)
        across = jnp.zeros((levels, size, count))
        across = across.at[group[:, None, None], jnp.arange(size)[:, None], places[:, None]].add(
            own[:, :, None] * others[:, None]
        )
        across = solve(triangle, across).reshape(-1, count)
        own_sums = jax.ops.segment_sum(residuals[:, None] * own, group, levels)
        own_sums = solve(triangle, own_sums[:, :, None]).ravel()
        rest = jnp.eye(count) - across.T @ across
        rest = rest.at[places[:, :, None], places[:, None]].add(others[:, :, None] * others[:, None])
        rest = jnp.linalg.cholesky(rest)
        sums = jnp.zeros(count).at[places].add(residuals[:, None] * others) - own_sums @ across
        rest_sums = solve_triangular(rest, sums, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diagonal(triangle, axis1=1, axis2=2)))
        log_det = log_det + jnp.sum(jnp.log(jnp.diagonal(rest)))
        squares = jnp.sum(residuals**2) - jnp.sum(own_sums**2) - jnp.sum(rest_sums**2)
        return -len(residuals) * (HALF_LOG_2PI + jnp.log(scale)) - log_det - 0.5 * squares

    def integrand(self, data: Params) -> NormalIntegrand:
        """The integrand over deviations and correlations, for data on the host."""
        coordinates = Coordinates((self.inner, *self.outer), self.prior)
        working = working_of(self.prior, coordinates.factors)
        rows = {name: np.asarray(array) for name, array in _of_fixed_part(data).items()}
        products = products_of(self.inner, self.outer, self._columns(working.sizes, rows))
        return NormalIntegrand(coordinates, working, products, self.num_rows(data))

    def _columns(self, sizes: Mapping[str, int], rows: Params) -> Iterator[Float[ndarray, "rows columns"]]:
        """Blocks of rows: the columns of the coefficients, and y less the offset."""
        first = 0
        for columns, offset in columns_of(self.fixed_predictor, self.prior, sizes, rows):
            y = rows["y"][first : first + len(offset)].astype(np.float64)
            yield np.column_stack([columns, y - offset])
            first += len(offset)

    def given(self, data: Params) -> EffectsGiven:
        """What gives moments and draws of the effects, for data on the host."""
        return EffectsGiven(self.integrand(data))

    def _scaled(self, params: Params, columns: jax.Array) -> jax.Array:
        """Columns of other effects, (rows, columns), times Λ / σ."""
        ends = np.cumsum([one.size for one in self.outer])
        parts = jnp.split(columns, ends[:-1], axis=1)
        scaled = (part @ one.factor(params) for part, one in zip(parts, self.outer, strict=True))
        return jnp.concatenate([*scaled], axis=1) / params["scale"]


@dataclass(frozen=True, eq=False)
class EffectsGiven:
    """The effects of all factors given parameters, in units of the model."""

    integrand: NormalIntegrand

    def moments(self, params: Params) -> dict[str, Moments]:
        """Mean and variance of each level's effects of the table's columns, by factor and name."""
        found, combined = self.integrand.eliminated_at(params)
        grouped = self.integrand.coordinates.factors
        return moments_given(found, combined, grouped, [factor_of(one, params) for one in grouped])

    def drawn(self, params: Params, noise: Mapping[str, ndarray]) -> dict[str, ndarray]:
        """Draws of u given the rows, (levels, effects) by factor, from standard normal noise."""
        found, combined = self.integrand.eliminated_at(params)
        return drawn_given(found, combined, self.integrand.coordinates.factors, noise)


def each_of(draws: Mapping[str, Any]) -> Iterator[dict[str, ndarray]]:
    """The parameters of each draw, of arrays with draws on the leading axis."""
    on_host = {name: np.asarray(values, np.float64) for name, values in draws.items()}
    for index in range(len(next(iter(on_host.values())))):
        yield {name: values[index] for name, values in on_host.items()}


def _of_fixed_part(data: Params) -> dict[str, Any]:
    return {name: array for name, array in data.items() if name not in OF_EFFECTS}
