"""The integrand over deviations for normal responses with several factors, on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.conjugate import HALF_LOG_2PI, Conditional, Working, conditional
from evidentia.regression.elimination import Eliminated, Products, eliminated
from evidentia.regression.grouped import Grouped
from evidentia.regression.peak import Point
from evidentia.regression.predictor import Predictor
from evidentia.system.compilation import in_float64

STARTS = 0.15, 0.5, 1.5  # ratios of deviations to the scale
ROWS_AT_ONCE = 65_536
WIDER = 3.0  # than the prior: the working law of coefficients whose prior is not normal
TO_CHOLESKY = dist.biject_to(dist.constraints.corr_cholesky)

Params = Mapping[str, Any]


def coefficients_of(prior: Mapping[str, dist.Distribution], factors: Sequence[Grouped]) -> dict[str, int]:
    """The names and numbers of the coefficients among the parameters."""
    others = {"scale", *(name for one in factors for name in (*one.sd_names, *one.correlations))}
    return {name: int(np.prod(law.shape())) for name, law in prior.items() if name not in others}


def columns_of(
    predictor: Predictor, prior: Mapping[str, dist.Distribution], sizes: Mapping[str, int], data: Params
) -> Iterator[Float[ndarray, "rows columns"]]:
    """Blocks of rows: the columns of the coefficients, and y less the offset."""
    ends = np.cumsum(list(sizes.values())).tolist()
    places = {name: slice(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)}

    @jax.jit
    def evaluated(batch):
        def at(flat):
            params = {name: flat[place].reshape(prior[name].shape()) for name, place in places.items()}
            return predictor(params, batch)

        size = sum(sizes.values())
        return at(jnp.zeros(size)), jax.vmap(at)(jnp.eye(size))

    for start in range(0, len(data["y"]), ROWS_AT_ONCE):
        batch = {name: array[start : start + ROWS_AT_ONCE] for name, array in data.items()}
        offset, columns = (np.asarray(part, np.float64) for part in evaluated(batch))
        yield np.column_stack([(columns - offset).T, batch["y"].astype(np.float64) - offset])


@dataclass(frozen=True, eq=False)
class NormalIntegrand:
    """An `Integrand` whose points are deviations (`logs_of`), then free numbers of correlations.

    Attributes:
        factors: that with most levels first.
        prior: of all parameters.
        products: of the rows' columns.
        num_rows: their number.
    """

    factors: tuple[Grouped, ...]
    prior: Mapping[str, dist.Distribution]
    products: Products
    num_rows: int

    @property
    def seconds(self) -> float:
        """As in `Integrand`."""
        return self.products.seconds

    @property
    def starts(self) -> tuple[Point, ...]:
        """As in `Integrand`."""
        free = sum(_num_free(place) for one in self.factors for place in one.correlations.values())
        return tuple(np.append(places_of(np.log(ratio) - self._least), np.zeros(free)) for ratio in STARTS)

    @property
    def sd_names(self) -> tuple[str, ...]:
        """The names of all deviations."""
        return tuple(name for one in self.factors for name in one.sd_names)

    def at(self, point: Point) -> NormalGiven:
        """As in `Integrand`."""
        ratios, choleskys = self._parts(point)
        params = dict(zip(self.sd_names, ratios, strict=True)) | choleskys
        found = eliminated(self.products, [factor_of(one, params) for one in self.factors])
        law = conditional(found, self.num_rows, self._working, lambda scales: self._log_prior(point, scales))
        return NormalGiven(self, ratios, choleskys, law)

    def eliminated_at(self, params: Params) -> tuple[Eliminated, Float[ndarray, " columns"]]:
        """The elimination at all parameters, and what combines its columns to (y - Xβ) / σ."""
        relative = {name: np.asarray(params[name], float) / float(params["scale"]) for name in self.sd_names}
        others = {name: params[name] for one in self.factors for name in one.correlations}
        found = eliminated(self.products, [factor_of(one, relative | others) for one in self.factors])
        coefficients = [np.ravel(np.asarray(params[name], float)) for name in self.sizes]
        return found, np.concatenate([*(-one for one in coefficients), [1.0]]) / float(params["scale"])

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The names and numbers of the coefficients."""
        return coefficients_of(self.prior, self.factors)

    @cached_property
    def _working(self) -> Working:
        parts = [_moments(self.prior[name]) for name in self.sizes]
        means, deviations = (np.concatenate([np.zeros(0), *part]) for part in zip(*parts, strict=True))
        return Working(means, deviations)

    def _parts(self, point: Point) -> tuple[ndarray, dict[str, ndarray]]:
        """Ratios of deviations, and the Cholesky factors of correlations."""
        first, found = len(self.sd_names), {}
        for one in self.factors:
            for name, place in one.correlations.items():
                free = point[first : first + _num_free(place)]
                with in_float64():
                    found[name] = np.asarray(TO_CHOLESKY(jnp.asarray(free)))
                first += _num_free(place)
        logs, _ = logs_of(point[: len(self.sd_names)])
        return np.exp(self._least + logs), found

    @cached_property
    def _least(self) -> Float[ndarray, " deviations"]:
        """log sd/σ at which the effect of a level is known as well from its rows as beforehand."""
        means = [self.num_rows / len(one.levels) for one in self.factors for _ in one.sd_names]
        return -0.5 * np.log(means)

    def _log_prior(self, point: Point, log_scales: Float[ndarray, " points"]) -> Float[ndarray, " points"]:
        with in_float64():
            return np.asarray(self._log_prior_of(point, log_scales), np.float64)

    @cached_property
    def _log_prior_of(self) -> Any:
        """Of log σ and a point, with the Jacobian of both."""
        first_free, least = len(self.sd_names), self._least

        @jax.jit
        def log_prior(point, log_scales):
            total = _log_density(self.prior["scale"], jnp.exp(log_scales)) + log_scales
            ratios, log_slopes = logs_of(point[:first_free])
            for index, name in enumerate(self.sd_names):
                logs = least[index] + ratios[index] + log_scales
                total = total + _log_density(self.prior[name], jnp.exp(logs)) + logs + log_slopes[index]
            first = first_free
            for one in self.factors:
                for name, place in one.correlations.items():
                    free = point[first : first + _num_free(place)]
                    root = TO_CHOLESKY(free)
                    total = total + self.prior[name].log_prob(root)
                    total = total + TO_CHOLESKY.log_abs_det_jacobian(free, root)
                    first += _num_free(place)
            return total

        return log_prior

    def log_ratios(self, params: Params) -> Float[ndarray, " draws"]:
        """As in `Integrand`: the prior over the working law of coefficients."""
        first, total = 0, np.zeros(len(params["scale"]))
        for name, size in self.sizes.items():
            mean, deviation = (
                self._working.mean[first : first + size],
                self._working.deviations[first : first + size],
            )
            steps = (params[name].reshape(-1, size) - mean) / deviation
            total += 0.5 * np.sum(steps**2, axis=1) + np.log(deviation).sum() + size * HALF_LOG_2PI
            with in_float64():
                total += np.asarray(_log_density(self.prior[name], jnp.asarray(params[name])), np.float64)
            first += size
        return total


@dataclass(frozen=True)
class NormalGiven:
    """A `Given` of normal responses."""

    integrand: NormalIntegrand
    ratios: Float[ndarray, " deviations"]
    choleskys: Mapping[str, ndarray]
    law: Conditional

    @property
    def log_mass(self) -> float:
        """As in `Given`."""
        return self.law.log_mass

    def draw(self, generator: np.random.Generator, count: int) -> dict[str, ndarray]:
        """As in `Given`."""
        scales, coefficients = self.law.draw(generator, count)
        found = {"scale": scales}
        found |= dict(zip(self.integrand.sd_names, scales * self.ratios[:, None], strict=True))
        found |= {name: np.broadcast_to(root, (count, *root.shape)) for name, root in self.choleskys.items()}
        first = 0
        for name, size in self.integrand.sizes.items():
            own = coefficients[:, first : first + size]
            found[name] = own.reshape(count, *self.integrand.prior[name].shape())
            first += size
        return found


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


def factor_of(grouped: Grouped, params: Params) -> Float[ndarray, "effects effects"]:
    """Λ, as `Grouped.factor`, in float64."""
    root = np.eye(grouped.size)
    for name, place in grouped.correlations.items():
        root[place, place] = params[name]
    return np.array([params[name] for name in grouped.sd_names])[:, None] * root


def _num_free(place: slice) -> int:
    size = place.stop - place.start
    return size * (size - 1) // 2


def _log_density(law: dist.Distribution, values: Any) -> Any:
    """The log density; -∞ outside the support, which NumPyro leaves to its users."""
    inside = law.support(values)  # pyright: ignore[reportOptionalCall]
    return jnp.where(inside, law.log_prob(values), -jnp.inf)


def _moments(law: dist.Distribution) -> tuple[Float[ndarray, " numbers"], Float[ndarray, " numbers"]]:
    """Mean and deviation of a normal law; wider ones than its quantiles for others."""
    scale, shift, base = 1.0, 0.0, law
    if isinstance(law, dist.TransformedDistribution) and len(law.transforms) == 1:
        transform = law.transforms[0]
        if isinstance(transform, dist.transforms.AffineTransform):
            scale, shift, base = np.asarray(transform.scale), np.asarray(transform.loc), law.base_dist
    plain = base
    while isinstance(plain, dist.Independent | dist.ExpandedDistribution):
        plain = plain.base_dist
    if isinstance(plain, dist.Normal):
        means, deviations = base.mean, jnp.sqrt(base.variance)
    else:
        draws = base.sample(jax.random.key(0), (1024,))
        low, means, high = jnp.quantile(draws, jnp.array([0.16, 0.5, 0.84]), axis=0)
        deviations = WIDER * (high - low) / 2
    found = (np.ravel(np.asarray(one, np.float64)) for one in (means, deviations))
    means, deviations = found
    return shift + scale * means, np.abs(scale) * deviations
