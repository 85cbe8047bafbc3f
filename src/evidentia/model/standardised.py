"""Effects about parameters, in coordinates in which their spread hardly depends on these.

Effects x_j = μ + τ z_j, z_j ~ f, whose scale τ is a parameter, have a funnel for a posterior where
the data say little about each of them: its neck, at small τ, is as narrow as τ in all of them.
Neither moves nor proposals of one scale reach it. With I the information of the data about one
effect,

    x_j = μ + s u_j,    s = (1/τ² + I)^(-1/2),    log p(u_j) = log f(s u_j / τ) + log (s / τ):

s is the deviation of an effect given τ if its likelihood is Gaussian, so that the deviation of u_j
is about one wherever τ is. I = 0 is the non-centred parametrisation, I = ∞ the centred one. The
evidence is the same for any I, which needs to be known to an order of magnitude only.

Source: Papaspiliopoulos, Roberts and Sköld (2007), A general framework for the parametrization of
hierarchical models, Statistical Science 22, section 3.
"""

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.infer.reparam import Reparam

FAMILIES = dist.Normal, dist.StudentT, dist.Cauchy, dist.Laplace, dist.Logistic, dist.Gumbel


class Standardised(Reparam):
    """NumPyro's strategy that samples u in place of x, given the information about one effect."""

    def __init__(self, information: float):
        self._root = information**0.5

    def __call__(self, name: str, fn: Any, obs: Any) -> tuple[None, Array]:
        """The effects, as a function of the new site `base_name(name)`."""
        family: Any
        family, shape, event_dim = self._unwrap(fn)
        widening = self._widening(family)
        same = {each: getattr(family, each) for each in family.arg_constraints}
        base = type(family)(**{**same, "loc": jnp.zeros_like(family.loc), "scale": widening})
        value = numpyro.sample(base_name(name), self._wrap(base, shape, event_dim))
        return None, family.loc + family.scale / widening * value

    def inverse(self, fn: Any, value: Array) -> Array:
        """The coordinates of effects."""
        family = family_of(fn)
        return (value - family.loc) / family.scale * self._widening(family)

    def _widening(self, family: Any) -> Array:
        return jnp.hypot(1.0, self._root * family.scale)  # τ / s


def base_name(name: str) -> str:
    """The site of the coordinates of effects, as NumPyro's own strategies name it."""
    return f"{name}_decentered"


def family_of(fn: Any) -> Any:
    """The distribution of one value, of a site with many."""
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution):
        fn = fn.base_dist
    return fn
