"""The integrand over deviations for normal responses with several factors, on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.conjugate import Conditional, conditional
from evidentia.regression.coordinates import Coordinates, factor_of, log_density_of
from evidentia.regression.elimination import Eliminated, Products, eliminated
from evidentia.regression.peak import Point
from evidentia.regression.predictor import Predictor
from evidentia.regression.working import Working, log_prior_ratios
from evidentia.system.compilation import in_float64

ROWS_AT_ONCE = 65_536

Params = Mapping[str, Any]


def columns_of(
    predictor: Predictor, prior: Mapping[str, dist.Distribution], sizes: Mapping[str, int], data: Params
) -> Iterator[tuple[Float[ndarray, "rows columns"], Float[ndarray, " rows"]]]:
    """Blocks of rows: the columns of the coefficients, and the offset."""
    ends = np.cumsum(list(sizes.values())).tolist()
    places = {name: slice(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)}

    @jax.jit
    def evaluated(batch):
        def at(flat):
            params = {name: flat[place].reshape(prior[name].shape()) for name, place in places.items()}
            return predictor(params, batch)

        size = sum(sizes.values())
        return jax.vmap(at)(jnp.eye(size)), at(jnp.zeros(size))

    for start in range(0, len(data["y"]), ROWS_AT_ONCE):
        batch = {name: array[start : start + ROWS_AT_ONCE] for name, array in data.items()}
        columns, offset = (np.asarray(part, np.float64) for part in evaluated(batch))
        yield (columns - offset).T, offset


@dataclass(frozen=True, eq=False)
class NormalIntegrand:
    """An `Integrand`, with deviations in units of σ.

    Attributes:
        coordinates: of the points.
        working: the law of the coefficients.
        products: of the rows' columns: those of the coefficients, and y less the offset.
        num_rows: their number.
    """

    coordinates: Coordinates
    working: Working
    products: Products
    num_rows: int

    @property
    def seconds(self) -> float:
        """As in `Integrand`."""
        return self.products.seconds

    @property
    def starts(self) -> tuple[Point, ...]:
        """As in `Integrand`."""
        return self.coordinates.starts

    def at(self, point: Point) -> NormalGiven:
        """As in `Integrand`."""
        found = eliminated(self.products, self.coordinates.roots(point))
        law = conditional(found, self.num_rows, self.working, lambda logs: self._log_prior(point, logs))
        return NormalGiven(self, self.coordinates.params(point), law)

    def eliminated_at(self, params: Params) -> tuple[Eliminated, Float[ndarray, " columns"]]:
        """The elimination at all parameters, and what combines its columns to (y - Xβ) / σ."""
        scale = float(params["scale"])
        roots = [factor_of(one, params) / scale for one in self.coordinates.factors]
        return eliminated(self.products, roots), np.append(-self.working.flat(params)[0], 1.0) / scale

    def log_ratios(self, params: Mapping[str, ndarray]) -> Float[ndarray, " draws"]:
        """The prior over the working law of coefficients, as logarithms, at draws."""
        return log_prior_ratios(self.coordinates.prior, self.working, params)

    def _log_prior(self, point: Point, log_scales: Float[ndarray, " points"]) -> Float[ndarray, " points"]:
        with in_float64():
            return np.asarray(self._log_prior_of(point, log_scales), np.float64)

    @cached_property
    def _log_prior_of(self) -> Any:
        """Of log σ and a point, with the Jacobian of both."""
        scale = self.coordinates.prior["scale"]

        @jax.jit
        def log_prior(point, log_scales):
            own = log_density_of(scale, jnp.exp(log_scales)) + log_scales
            return own + self.coordinates.log_prior(point, log_scales)

        return log_prior


@dataclass(frozen=True)
class NormalGiven:
    """A `Given` of normal responses."""

    integrand: NormalIntegrand
    params: Params
    law: Conditional

    @property
    def log_mass(self) -> float:
        """As in `Given`."""
        return self.law.log_mass

    def draw(
        self, generator: np.random.Generator, count: int
    ) -> tuple[dict[str, ndarray], Float[ndarray, " draws"]]:
        """As in `Given`."""
        integrand = self.integrand
        scales, coefficients = self.law.draw(generator, count)
        found = {"scale": scales}
        for name, value in self.params.items():
            is_deviation = name in integrand.coordinates.sd_names
            found[name] = scales * value if is_deviation else np.broadcast_to(value, (count, *value.shape))
        found |= integrand.working.by_name(coefficients, integrand.coordinates.prior)
        return found, integrand.log_ratios(found)
