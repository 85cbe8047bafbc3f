"""Coordinates of deviations and correlations, in which posteriors are about Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.grouped import Grouped
from evidentia.regression.peak import Point
from evidentia.system.compilation import in_float64

STARTS = 0.15, 0.5, 1.5  # deviations where a search begins, in units of the scale
TO_CHOLESKY = dist.biject_to(dist.constraints.corr_cholesky)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A point has a place on the line of each deviation (`logs_of`), then those of correlations.

    Attributes:
        factors: that with most levels first.
        prior: of all parameters.
        information: of a row about its predictor, in units of the deviations.
    """

    factors: tuple[Grouped, ...]
    prior: Mapping[str, dist.Distribution]
    information: float = 1.0

    @cached_property
    def sd_names(self) -> tuple[str, ...]:
        """The names of all deviations."""
        return tuple(name for one in self.factors for name in one.sd_names)

    @cached_property
    def correlations(self) -> dict[str, slice]:
        """The places of the free numbers of each Cholesky factor of correlations."""
        first, found = len(self.sd_names), {}
        for one in self.factors:
            for name, place in one.correlations.items():
                size = place.stop - place.start
                found[name] = slice(first, first + size * (size - 1) // 2)
                first = found[name].stop
        return found

    @cached_property
    def least(self) -> Float[ndarray, " deviations"]:
        """log deviation at which a level's effect is known as well from its rows as beforehand."""
        means = [len(one.codes) / len(one.levels) for one in self.factors for _ in one.sd_names]
        return -0.5 * np.log(np.array(means) * self.information)

    @property
    def starts(self) -> tuple[Point, ...]:
        """Points without correlations."""
        free = sum(place.stop - place.start for place in self.correlations.values())
        return tuple(np.append(places_of(np.log(start) - self.least), np.zeros(free)) for start in STARTS)

    def params(self, point: Point) -> dict[str, Any]:
        """Deviations, in units of the scale, and Cholesky factors of correlations."""
        logs, _ = logs_of(point[: len(self.sd_names)])
        found: dict[str, Any] = dict(zip(self.sd_names, np.exp(self.least + logs), strict=True))
        with in_float64():
            for name, place in self.correlations.items():
                found[name] = np.asarray(TO_CHOLESKY(jnp.asarray(point[place])))
        return found

    def roots(self, point: Point) -> list[Float[ndarray, "effects effects"]]:
        """Λ of each factor, in units of the scale."""
        params = self.params(point)
        return [factor_of(one, params) for one in self.factors]

    def log_prior(self, point: Any, log_scales: Any) -> Any:
        """Of the coordinates of a point, at logarithms of the scale; for JAX."""
        total, (logs, log_slopes) = 0.0, logs_of(point[: len(self.sd_names)])
        for index, name in enumerate(self.sd_names):
            log_sd = self.least[index] + logs[index] + log_scales
            total = total + log_density_of(self.prior[name], jnp.exp(log_sd)) + log_sd + log_slopes[index]
        for name, place in self.correlations.items():
            root = TO_CHOLESKY(point[place])
            total = total + self.prior[name].log_prob(root)
            total = total + TO_CHOLESKY.log_abs_det_jacobian(point[place], root)
        return total


def logs_of(places: Any) -> tuple[Any, Any]:
    """log ρ/ρ₀ at places on a line, and the logarithm of its slope.

    Below ρ₀, where the likelihood is about constant, log ρ has an exponential tail, as ρ has a
    density at 0. There log ρ/ρ₀ = z - z²/2, so that the tail of z is about a Gaussian's. Above, it
    is z itself. For NumPy and JAX.
    """
    below = jnp.minimum(places, 0.0) if isinstance(places, jax.Array) else np.minimum(places, 0.0)
    slopes = jnp.log1p(-below) if isinstance(places, jax.Array) else np.log1p(-below)
    return places - below**2 / 2, slopes


def places_of(logs: Float[ndarray, " deviations"]) -> Float[ndarray, " deviations"]:
    """The places of `logs_of`."""
    return np.where(logs < 0, 1 - np.sqrt(1 - 2 * np.minimum(logs, 0)), logs)


def factor_of(grouped: Grouped, params: Mapping[str, Any]) -> Float[ndarray, "effects effects"]:
    """Λ, as `Grouped.factor`, in float64."""
    root = np.eye(grouped.size)
    for name, place in grouped.correlations.items():
        root[place, place] = params[name]
    return np.array([params[name] for name in grouped.sd_names])[:, None] * root


def log_density_of(law: dist.Distribution, values: Any) -> Any:
    """The log density; -∞ outside the support, which NumPyro leaves to its users."""
    inside = law.support(values)  # pyright: ignore[reportOptionalCall]
    return jnp.where(inside, law.log_prob(values), -jnp.inf)
