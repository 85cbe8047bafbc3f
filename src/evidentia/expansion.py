"""Second-order Taylor expansions of a sum of log-likelihoods: what stands in for rows that are no longer at hand."""

from typing import Any, NamedTuple

from jaxtyping import Float

Number = Any  # an array on the device, or of NumPy in float64 on the host


class Expansion(NamedTuple):
    """Value (nats), gradient and Hessian at a centre; a quadratic function of the position, wherever it is evaluated."""

    centre: Float[Number, " parameters"]
    value: Float[Number, ""]
    gradient: Float[Number, " parameters"]
    hessian: Float[Number, "parameters parameters"]

    def rise(self, position: Float[Number, "*particles parameters"]) -> Float[Number, " *particles"]:
        """The value at positions less that at the centre: without the part that is large and has few digits left."""
        step = position - self.centre
        return step @ self.gradient + 0.5 * ((step @ self.hessian) * step).sum(-1)

    def slope(
        self, position: Float[Number, "*particles parameters"]
    ) -> Float[Number, "*particles parameters"]:
        """The gradient at positions."""
        return self.gradient + (position - self.centre) @ self.hessian

    def about(self, centre: Float[Number, " parameters"]) -> "Expansion":
        """The same quadratic, about another centre."""
        return Expansion(centre, self.value + self.rise(centre), self.slope(centre), self.hessian)


def add_expansions(first: Expansion, second: Expansion, weight: Float[Number, ""] | float = 1.0) -> Expansion:
    """`first + weight * second`, two expansions about the same centre."""
    return Expansion(
        first.centre,
        first.value + weight * second.value,
        first.gradient + weight * second.gradient,
        first.hessian + weight * second.hessian,
    )
