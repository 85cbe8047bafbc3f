"""Densities over the copies of a position that the symmetries of a model give it.

A proposal q₁ about one mode must count all copies of it,

    q(θ) = 1/(K! 2ᶠ) Σ_g q₁(gθ) |∂gθ/∂θ|,        |∂gθ/∂θ| = p(θ)/p(gθ),

with K interchangeable components, f flips of signs, and the prior density p on the unconstrained
scale, on which a permutation is not linear and has a Jacobian. Where the copies are too many for
this sum, the posterior is divided among them instead (`partition`), which is exact, too.

Source: Frühwirth-Schnatter (2004), Econometrics Journal 7, 143 (permutation importance sampling).
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.errors import EstimationError
from evidentia.model.bound import BoundModel
from evidentia.posterior.partition import Draws, log_shares
from evidentia.posterior.symmetry import (
    Centre,
    Positions,
    in_blocks,
    is_folded,
    log_num_copies,
    num_components,
    reorder,
)
from evidentia.system.compilation import jitted

FULL_SUM = 1024  # copies up to which all are summed
ROWS_OF_COPY = 5  # rows whose likelihood takes as long as a mixture at a copy, for each squared parameter

Density = Callable[[Float[np.ndarray, "draws parameters"]], Float[np.ndarray, " draws"]]


@runtime_checkable
class Proposed(Protocol):
    """A density with draws, of one copy of a posterior."""

    @property
    def domain(self) -> Centre | None:
        """The centre to which the copies of the posterior were folded before the fit, if any."""
        ...

    def log_density(self, positions: Draws) -> Float[np.ndarray, " draws"]:
        """Log density at positions."""
        ...

    def parts(self) -> tuple[tuple[float, Draws], ...]:
        """Parts with the log of their shares and some draws of each, the same at each call."""
        ...


def symmetrised(model: BoundModel, proposed: Proposed, positions: Positions) -> Float[np.ndarray, " draws"]:
    """Log density q̄ with which p(θ) p(D | θ) / q̄(θ) is the weight of a draw θ from `proposed`.

    It is the mean of the density over all copies of θ. If these are more than `FULL_SUM`, it is
    q(θ) / (K! 2ᶠ r(θ)), with the share r of the posterior at θ that this copy stands for: one or
    zero if the density has a `domain`, to which each position has one copy. Either way the mean
    weight is the evidence, if q covers the part of the posterior that falls to its draws.
    """
    if not model.symmetry:
        return proposed.log_density(np.asarray(positions, np.float64))
    if is_summed(model):
        return mean_over_copies(model, proposed.log_density, positions)
    own = proposed.log_density(np.asarray(positions, np.float64)) - log_num_copies(model)
    if proposed.domain is not None:
        return np.where(is_folded(model, positions, proposed.domain), own, np.inf)
    return own - log_shares(model, proposed.parts(), positions)


def mean_over_copies(
    model: BoundModel, log_density: Density, positions: Positions
) -> Float[np.ndarray, " draws"]:
    """Log of the average of a density over all copies of each position."""
    return in_blocks(partial(_log_sum, model, log_density), positions) - log_num_copies(model)


def is_summed(model: BoundModel, most: int = FULL_SUM) -> bool:
    """Whether the copies of a position are so few that a density is summed over all of them."""
    return log_num_copies(model) <= math.log(most)


def rows_of_density(model: BoundModel, most: int = FULL_SUM) -> int:
    """The number of rows whose likelihood takes as long as a mixture's density at all copies.

    It is a rough count of operations. If there are more than `most` copies, it is that at one.
    """
    copies = math.exp(log_num_copies(model)) if is_summed(model, most) else 1
    return int(ROWS_OF_COPY * copies * model.num_parameters**2)


def copy_in_proportion(
    model: BoundModel,
    log_density: Density,
    positions: Float[np.ndarray, "draws parameters"],
    generator: np.random.Generator,
) -> Float[np.ndarray, "draws parameters"]:
    """One copy of each position, drawn with a probability in proportion to a density there.

    Raises EstimationError if the copies are too many to be listed.
    """
    if not model.symmetry:
        return positions
    if not is_summed(model):
        raise EstimationError(
            f"bridge sampling lists all copies of a draw, at most {FULL_SUM:,}; the model's symmetries give each posterior "
            f"mode {math.exp(log_num_copies(model)):,.0f}. Use SGAIS(), which needs no list."
        )
    copies, terms = _at_copies(model, log_density, jnp.asarray(positions, jnp.float32))
    chosen = np.argmax(terms + generator.gumbel(size=terms.shape), axis=0)
    return copies[chosen, np.arange(len(positions))]


def _log_sum(model: BoundModel, log_density: Density, positions) -> np.ndarray:
    return np.logaddexp.reduce(_at_copies(model, log_density, positions)[1], axis=0)


def _at_copies(model: BoundModel, log_density: Density, positions) -> tuple[np.ndarray, np.ndarray]:
    """Every copy of each position, and there the log of a density times that of the Jacobian."""
    orders, signs = _elements(model)
    copies, log_jacobians = _copies(model, positions, orders)
    every = np.asarray(copies, np.float64)[:, None] * signs[:, None]
    every = every.reshape(-1, *every.shape[2:])
    terms = log_density(every.reshape(-1, every.shape[-1])).reshape(len(orders), len(signs), -1)
    terms = terms + np.asarray(log_jacobians, np.float64)[:, None]
    return every, terms.reshape(-1, terms.shape[-1])


def _copies(model: BoundModel, positions, orders):
    """Every position in every order, and the log Jacobian of each reordering."""
    if len(orders) == 1:
        return jnp.asarray(positions)[None], np.zeros((1, len(positions)))
    return _reordered(model, positions, jnp.asarray(orders))


@jitted(static_argnames="model")
def _reordered(model, positions, orders):
    log_prior = jax.vmap(model.log_prior)

    def one(order):
        copies = reorder(model, positions, jnp.tile(order, (len(positions), 1)))
        return copies, log_prior(positions) - log_prior(copies)

    return jax.lax.map(one, orders)


def _elements(model: BoundModel) -> tuple[np.ndarray, np.ndarray]:
    """All orders of the components, and all signs of the coordinates after them."""
    flips = model.symmetry.all_flips
    chosen = [each for number in range(len(flips) + 1) for each in itertools.combinations(flips, number)]
    signs = np.ones((len(chosen), model.num_parameters))
    for row, flipped in zip(signs, chosen, strict=True):
        row[list(itertools.chain(*flipped))] = -1.0
    return np.array(list(itertools.permutations(range(num_components(model))))), signs
