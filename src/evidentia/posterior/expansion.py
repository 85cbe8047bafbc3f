"""Second-order Taylor expansions of log-likelihood sums, in place of rows not visited again."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

Number = Any  # a float64 NumPy array on the host, or a JAX array inside a compiled program


class Expansion(NamedTuple):
    """Value (nats), gradient and Hessian at a centre: a quadratic function of the position."""

    centre: Float[Number, " parameters"]
    value: Float[Number, ""]
    gradient: Float[Number, " parameters"]
    hessian: Float[Number, "parameters parameters"]

    def rise(self, position: Float[Number, "*particles parameters"]) -> Float[Number, " *particles"]:
        """The value minus that at the centre, which is large and would cost digits in float32."""
        step = position - self.centre
        return step @ self.gradient + 0.5 * ((step @ self.hessian) * step).sum(-1)

    def slope(
        self, position: Float[Number, "*particles parameters"]
    ) -> Float[Number, "*particles parameters"]:
        """The gradient at positions."""
        return self.gradient + (position - self.centre) @ self.hessian

    def about(self, centre: Float[Number, " parameters"]) -> "Expansion":
        """The same quadratic about another centre."""
        return Expansion(centre, self.value + self.rise(centre), self.slope(centre), self.hessian)

    def plus(self, other: "Expansion", weight: Float[Number, ""] | float = 1.0) -> "Expansion":
        """`self + weight * other`, for two expansions about the same centre."""
        sums = (a + weight * b for a, b in zip(self[1:], other[1:], strict=True))
        return Expansion(self.centre, *sums)

    def narrowed(self) -> "Expansion":
        """The same expansion in float32, for the device."""
        return Expansion(*(np.asarray(part, np.float32) for part in self))
