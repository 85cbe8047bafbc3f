"""The proposal of importance sampling: a mixture of Student t's.

They are at the posterior's modes, or fitted to draws (`fit`). The prior may have a share, too.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian, draw_student_t, log_student_t
from evidentia.posterior.partition import OF_PART
from evidentia.posterior.rows import Rows
from evidentia.posterior.subsample import Estimated, log_likelihoods_near
from evidentia.posterior.symmetry import Centre


class Mixture(NamedTuple):
    """A mixture of Student t's, unless learnt one at each mode, the largest mode first.

    Attributes:
        components: Gaussians of the same shape as the Student t's.
        log_shares: logarithms of the shares of the draws if it was learnt from draws (`adapt`);
            its components are then not at modes.
        is_checked: whether it, or that from which it was learnt, covered particles of the path.
        prior_share: share of the draws for importance sampling that come from the prior, which is
            not one of the components.
        unseen: expected share of the posterior in modes that were not found (`check.unseen`).
        domain: the centre to which draws were folded before it was learnt, if copies are too many
            for a sum (`posterior.copies`).
    """

    components: tuple[LocalGaussian, ...]
    log_shares: Float[np.ndarray, " components"] | None = None
    is_checked: bool = True
    prior_share: float = 0.0
    unseen: float = 0.0
    domain: Centre | None = None

    @property
    def shares(self) -> Float[np.ndarray, " components"]:
        """Shares of the draws; at modes proportional to the root of the masses, which may err."""
        if self.log_shares is not None:
            return np.exp(self.log_shares)
        roots = 0.5 * np.array([mode.log_mass for mode in self.components])
        return np.exp(weights.normalise(roots))

    def as_known_as(self, previous: "Mixture") -> "Mixture":
        """The proposal with what particles have shown of one for fewer rows."""
        return self._replace(is_checked=previous.is_checked, unseen=previous.unseen)

    @property
    def is_learnt(self) -> bool:
        """Whether it was learnt from draws."""
        return self.log_shares is not None

    def draw(self, generator: np.random.Generator, count: int) -> Float[Array, "draws parameters"]:
        """Independent draws, float32, ordered by mode."""
        # Draw with NumPy: JAX's chi-square takes longer than the likelihood of a thousand rows.
        counts = generator.multinomial(count, self.shares).tolist()
        draws = [
            draw_student_t(generator, mode, size) for mode, size in zip(self.components, counts, strict=True)
        ]
        return jnp.asarray(np.concatenate(draws), jnp.float32)

    def draw_within(
        self, generator: np.random.Generator, count: int
    ) -> Float[np.ndarray, "draws parameters"]:
        """Draws moved towards the centres of their components, by factors uniform in (0, 1)."""
        counts = generator.multinomial(count, self.shares).tolist()
        moved = []
        for mode, size in zip(self.components, counts, strict=True):
            draws = draw_student_t(generator, mode, size)
            moved.append(mode.centre + generator.random((size, 1)) * (draws - mode.centre))
        return np.concatenate(moved)

    def log_density(self, positions: Float[np.ndarray, "draws parameters"]) -> Float[np.ndarray, " draws"]:
        """Log density at positions, in float64."""
        return np.logaddexp.reduce(self.log_terms(positions), axis=0)

    def parts(self) -> tuple[tuple[float, Float[np.ndarray, "draws parameters"]], ...]:
        """The log share and some draws of each mode, as modes may be at different copies."""
        generator = np.random.default_rng(0)  # the same draws whenever a share is computed
        return tuple(
            (float(np.log(share)), draw_student_t(generator, mode, OF_PART))
            for share, mode in zip(self.shares, self.components, strict=True)
        )

    def log_likelihoods(
        self, model: BoundModel, rows: Rows, positions: Float[Array, "draws parameters"]
    ) -> Estimated:
        """Log-likelihoods at draws, from a sample of many rows where that is enough."""
        expansions = [mode.expansion for mode in self.components]
        nearest = np.argmax(self.log_terms(np.asarray(positions, np.float64)), axis=0)
        found = log_likelihoods_near(model, rows, expansions, nearest, positions)
        return found or Estimated(*rows.log_likelihoods(model, positions), 0.0)

    def log_terms(
        self, positions: Float[np.ndarray, "draws parameters"]
    ) -> Float[np.ndarray, "components draws"]:
        """Log density at positions of each Student t, times its share, in float64."""
        terms = [
            np.log(share) + log_student_t(mode, positions)
            for share, mode in zip(self.shares, self.components, strict=True)
        ]
        return np.stack(terms)
