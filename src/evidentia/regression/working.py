"""A normal law of the coefficients: their prior if it is normal, else one for draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.coordinates import log_density_of
from evidentia.regression.grouped import Grouped
from evidentia.system.compilation import in_float64

WIDER = 3.0  # than the prior, where it is not normal
HALF_LOG_2PI = 0.9189385332046727


class Working(NamedTuple):
    """Independent normal coefficients.

    Attributes:
        sizes: the number of coefficients of each parameter.
        mean, deviations: of all.
    """

    sizes: Mapping[str, int]
    mean: Float[ndarray, " coefficients"]
    deviations: Float[ndarray, " coefficients"]

    def log_density(self, flat: Float[ndarray, "draws coefficients"]) -> Float[ndarray, " draws"]:
        """Of draws."""
        steps = (flat - self.mean) / self.deviations
        return -np.sum(0.5 * steps**2 + np.log(self.deviations) + HALF_LOG_2PI, axis=1)

    def flat(self, params: Mapping[str, Any]) -> Float[ndarray, "draws coefficients"]:
        """The coefficients of draws as rows of a matrix."""
        parts = [np.asarray(params[name], float).reshape(-1, size) for name, size in self.sizes.items()]
        return np.concatenate(parts, axis=1) if parts else np.zeros((1, 0))

    def by_name(
        self, flat: Float[ndarray, "draws coefficients"], prior: Mapping[str, dist.Distribution]
    ) -> dict[str, ndarray]:
        """The reverse of `flat`."""
        ends = np.cumsum(list(self.sizes.values())).tolist()
        return {
            name: flat[:, end - size : end].reshape(-1, *prior[name].shape())
            for (name, size), end in zip(self.sizes.items(), ends, strict=True)
        }


def working_of(prior: Mapping[str, dist.Distribution], factors: Sequence[Grouped]) -> Working:
    """The law for the coefficients among the parameters of a regression."""
    others = {"scale", *(name for one in factors for name in (*one.sd_names, *one.correlations))}
    others |= {f"effects({one.name})" for one in factors}
    names = [name for name in prior if name not in others]
    parts = [_moments(prior[name]) for name in names]
    means, deviations = (np.concatenate([np.zeros(0), *part]) for part in zip(*parts, strict=True))
    return Working({name: int(np.prod(prior[name].shape())) for name in names}, means, deviations)


def log_prior_ratios(
    prior: Mapping[str, dist.Distribution], working: Working, params: Mapping[str, ndarray]
) -> Float[ndarray, " draws"]:
    """log of the prior of coefficients over their working law, at draws."""
    total = -working.log_density(working.flat(params))
    with in_float64():
        for name in working.sizes:
            total += np.asarray(log_density_of(prior[name], jnp.asarray(params[name])), np.float64)
    return total


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
