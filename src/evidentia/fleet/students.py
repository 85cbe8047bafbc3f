"""The proposal of fleets: two Student t's about one point, the second three times as wide.

The wide component is there to see what a Gaussian about the point would miss.

Source: Hesterberg (1995), Technometrics 37, 185 (defensive mixtures).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.posterior.gaussian import degrees_of_freedom

SHARE_WIDE, WIDE = 0.1, 3.0  # share and factor of the wide component


class Students(NamedTuple):
    """0.9 t(centre, A⁻¹) + 0.1 t(centre, 9 A⁻¹), with the precision A = root rootᵀ.

    It may stand for those of many data sets, with their axis in front of every array's own.
    """

    centre: Float[ndarray, "*datasets parameters"]
    root: Float[ndarray, "*datasets parameters parameters"]

    def draw(self, generator: np.random.Generator, count: int) -> Float[ndarray, "draws parameters"]:
        """Independent draws, of a single data set."""
        size = self.centre.shape[-1]
        freedom = degrees_of_freedom(size)
        stretch = np.sqrt(generator.chisquare(freedom, count) / freedom)
        scale = np.where(generator.random(count) < SHARE_WIDE, WIDE, 1.0) / stretch
        normal = generator.standard_normal((count, size))
        return self.centre + scale[:, None] * np.linalg.solve(self.root.T, normal.T).T

    def log_density(
        self, positions: Float[ndarray, "*datasets draws parameters"]
    ) -> Float[ndarray, "*datasets draws"]:
        """Log density at positions."""
        size = self.centre.shape[-1]
        freedom = degrees_of_freedom(size)
        constant = math.lgamma((freedom + size) / 2) - math.lgamma(freedom / 2)
        constant -= 0.5 * size * math.log(freedom * math.pi)
        log_det = np.log(np.einsum("...ii->...i", self.root)).sum(-1)[..., None]
        distance = np.sum(((positions - self.centre[..., None, :]) @ self.root) ** 2, axis=-1)
        narrow, wide = (
            constant + log_det - size * math.log(k) - 0.5 * (freedom + size) * np.log1p(distance / k**2 / freedom)
            for k in (1.0, WIDE)
        )  # fmt: skip
        return np.logaddexp(narrow + math.log(1 - SHARE_WIDE), wide + math.log(SHARE_WIDE))
