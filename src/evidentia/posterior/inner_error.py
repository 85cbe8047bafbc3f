"""The error of the inner integrals, over local variables, in the log evidence.

With l(θ) the log-likelihood as it was used and l'(θ) that with more nodes, the evidence changes by
the factor E[exp(l'(θ) - l(θ))] over the posterior. A sample of draws and rows estimates its
logarithm. Half of it is taken as its error: with twice the nodes, the error of skewed integrals
(few binary rows, widely differing groups) was a quarter.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.compilation import compiled
from evidentia.model.bound import BoundModel
from evidentia.model.local import Integrated
from evidentia.posterior.rows import Rows

NUM_DRAWS = 8
MOST_ROWS = 2048
LARGE = 0.1  # nats


class InnerError(NamedTuple):
    """What finer inner integrals add to the log evidence, in nats, and its variance."""

    shift: float
    variance: float

    @property
    def signs(self) -> dict[str, str]:
        """Signs of trouble: a shift that cannot be trusted itself."""
        error = self.variance**0.5
        if error < LARGE:
            return {}
        return {
            "coarse inner integrals": f"the integrals over the latents of rows or groups are uncertain by {error:.2g} nats in "
            "all, as these are far from Gaussian. Trust differences between models that are much larger; or make latents "
            "parameters like others (pointwise=False of Model.from_numpyro)."
        }


def inner_error(
    model: BoundModel,
    rows: Rows,
    positions: Float[Array, "particles parameters"],
    log_weights: Float[np.ndarray, " particles"],
) -> InnerError | None:
    """The inner error of a log evidence; None if no local variables were integrated out."""
    if not isinstance(model.densities.pointwise, Integrated):
        return None
    shares = np.exp(log_weights - np.max(log_weights))
    chosen = np.random.default_rng(0).choice(len(shares), NUM_DRAWS, p=shares / shares.sum())
    some = rows.sample(min(MOST_ROWS, rows.size))
    batch = jax.tree.map(lambda leaf: leaf[some.start : some.stop], some.arrays)
    by_draw = np.asarray(_differences(model, jnp.asarray(positions)[chosen], batch), np.float64)
    count, total = some.stop - some.start, rows.num_observations
    sums = by_draw.mean(axis=1) * total
    unseen = 0.0 if count == total else float(np.mean(by_draw.var(axis=1))) * total**2 / count
    shift = float(sums.mean())
    return InnerError(shift, float(sums.var()) / NUM_DRAWS + unseen + (shift / 2) ** 2)


@compiled(static_argnames=("model",))
def _differences(model, positions, batch):
    """l' - l of each row at each draw."""
    used = model.densities.pointwise

    def at(position):
        params = model.densities.place(position)[0]
        return used.finer(params, batch) - used(params, batch)

    return jax.lax.map(at, positions)
