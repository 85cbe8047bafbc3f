"""Effects about parameters, in coordinates whose spread hardly depends on these.

Effects x_j = μ + τ z_j, z_j ~ f, whose scale τ is a parameter, have a funnel for a posterior where
the data say little about each of them: its neck, at small τ, is as narrow as τ in all of them.
Neither moves nor proposals of one scale reach it. If the likelihood of x_j is about N(c_j, 1/I_j),

    s_j = (1/τ² + I_j)^(-1/2),    m_j = μ + (c_j - μ) I_j s_j²,    x_j = m_j + s_j u_j

with the mean and the deviation of x_j given μ and τ, if f is normal. So u_j is about N(0, 1)
wherever μ and τ are, and its prior density is f with location (μ - c_j) I_j s_j and scale τ/s_j.
I = 0 is the non-centred parametrisation, I = ∞ the centred one. The evidence is the same for any I
and c, which say only how well the coordinates fit.

Source: Papaspiliopoulos, Roberts and Sköld (2007), A general framework for the parametrization of
hierarchical models, Statistical Science 22, section 3.
"""

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpy import ndarray
from numpyro.infer.reparam import Reparam

FAMILIES = dist.Normal, dist.StudentT, dist.Cauchy, dist.Laplace, dist.Logistic, dist.Gumbel


class Recentred(Reparam):
    """NumPyro's strategy that samples u in place of x.

    Attributes:
        information: I, of the shape of the effects.
        centre: c, of the same shape.
    """

    def __init__(self, information: Float[ndarray, "*effects"], centre: Float[ndarray, "*effects"]):
        self.information, self.centre = information, centre

    def __call__(self, name: str, fn: Any, obs: Any) -> tuple[None, Array]:
        """The effects, as a function of the new site `base_name(name)`."""
        family: Any
        family, shape, event_dim = self._unwrap(fn)
        mean, scale = self._given(family)
        location = (family.loc - self.centre) * self.information * scale
        widening = jnp.hypot(1.0, self.information**0.5 * family.scale)  # τ / s
        same = {each: getattr(family, each) for each in family.arg_constraints}
        base = type(family)(**{**same, "loc": location, "scale": widening})
        return None, mean + scale * numpyro.sample(base_name(name), self._wrap(base, shape, event_dim))

    def inverse(self, fn: Any, value: Array) -> Array:
        """The coordinates of effects."""
        mean, scale = self._given(family_of(fn))
        return (value - mean) / scale

    def _given(self, family: Any) -> tuple[Array, Array]:
        """m and s."""
        scale = 1 / jnp.hypot(1 / family.scale, self.information**0.5)
        return family.loc + (self.centre - family.loc) * self.information * scale**2, scale


def base_name(name: str) -> str:
    """The site of the coordinates of effects, as NumPyro's own strategies name it."""
    return f"{name}_decentered"


def family_of(fn: Any) -> Any:
    """The distribution of one value, of a site with many."""
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution):
        fn = fn.base_dist
    return fn
