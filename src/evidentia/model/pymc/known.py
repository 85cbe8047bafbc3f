"""PyMC's variables as NumPyro distributions, where both packages have the same.

They draw, transform and change their widths (`prior_sensitivity`) as in a NumPyro model. The
others are in `variables.py`.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import ComposeTransform, OrderedTransform

# Keys are the operations of PyMC 5, arguments the parameters that these take.
DISTRIBUTIONS: dict[str, Callable[..., dist.Distribution]] = {
    "NormalRV": dist.Normal,
    "HalfNormalRV": lambda _, scale: dist.HalfNormal(scale),
    "UniformRV": dist.Uniform,
    "GammaRV": lambda shape, scale: dist.Gamma(shape, 1 / scale),
    "InvGammaRV": dist.InverseGamma,
    "ExponentialRV": lambda scale: dist.Exponential(1 / scale),
    "BetaRV": dist.Beta,
    "StudentTRV": dist.StudentT,
    "CauchyRV": dist.Cauchy,
    "HalfCauchyRV": dist.HalfCauchy,
    "LogNormalRV": dist.LogNormal,
    "WeibullBetaRV": lambda shape, scale: dist.Weibull(scale, shape),
    "GumbelRV": dist.Gumbel,
    "LaplaceRV": dist.Laplace,
    "LogisticRV": dist.Logistic,
    "ParetoRV": lambda shape, scale: dist.Pareto(scale, shape),
    "DirichletRV": dist.Dirichlet,
    "VonMisesRV": dist.VonMises,
    "MvNormalRV": lambda mean, covariance: dist.MultivariateNormal(mean, covariance_matrix=covariance),
}


def known(kind: str, parameters: list[Any], shape: tuple[int, ...]) -> dist.Distribution:
    """A NumPyro distribution of a variable of PyMC with this shape, all of it one event."""
    distribution = DISTRIBUTIONS[kind](*map(_floating, parameters))
    batch = shape[: len(shape) - distribution.event_dim]
    return distribution.expand(batch).to_event(len(batch)) if batch else distribution


def _floating(parameter: Any) -> Any:
    if isinstance(parameter, int | float):
        return float(parameter)
    is_floating = jnp.issubdtype(parameter.dtype, jnp.floating)
    return parameter if is_floating else parameter.astype(jnp.float32)


class Ordered(dist.Distribution):
    """Independent elements with the same distribution, in ascending order along the last axis.

    All k! orders of k elements are equally likely, so the density of the ordered ones is k! times
    that of the elements.
    """

    def __init__(self, elements: dist.Distribution):
        self._elements = elements
        self._count = elements.event_shape[-1]
        super().__init__((), elements.event_shape)

    @property
    def support(self) -> Any:
        """Ascending vectors in the support of the elements."""
        return OrderedSupport(self._elements.support)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of the elements, sorted."""
        return jnp.sort(jnp.asarray(self._elements.sample(key, sample_shape)), axis=-1)

    def log_prob(self, value: Array) -> Float[Array, ""]:
        """Log density, -inf unless values ascend: they cannot change places (`symmetry`)."""
        vectors = int(np.prod(self.event_shape[:-1]))
        orders = vectors * float(np.sum(np.log(np.arange(1, self._count + 1))))
        is_ascending = jnp.all(jnp.diff(value, axis=-1) >= 0)
        return jnp.where(is_ascending, self._elements.log_prob(value) + orders, -jnp.inf)


class OrderedSupport(constraints.Constraint):
    """Ascending vectors of elements in a support whose bijector ascends."""

    def __init__(self, elements: Any):
        self.elements = elements
        super().__init__()


@biject_to.register(OrderedSupport)
def _ordered(support: OrderedSupport) -> Any:
    return ComposeTransform([OrderedTransform(), biject_to(support.elements)])
