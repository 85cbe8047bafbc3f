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
from typing import Protocol

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

FULL_SUM = 1024  # copies up to which all are summed
ROWS_OF_COPY = 5  # rows whose likelihood takes as long as a mixture at a copy, for each squared parameter

Density = Callable[[Float[np.ndarray, "draws parameters"]], Float[np.ndarray, " draws"]]


class Proposed(Protocol):
    """A density with draws, of one copy of a posterior; `domain` is where that is, if known."""

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
        return mean_of_nearest(model, proposed.log_density, positions, FULL_SUM)
    own = proposed.log_density(np.asarray(positions, np.float64)) - log_num_copies(model)
    if proposed.domain is not None:
        return np.where(is_folded(model, positions, proposed.domain), own, np.inf)
    return own - log_shares(model, proposed.parts(), positions)


def is_summed(model: BoundModel) -> bool:
    """Whether the copies of a position are so few that a density is summed over all of them."""
    return log_num_copies(model) <= math.log(FULL_SUM)


def mean_of_nearest(
    model: BoundModel, log_density: Density, positions: Positions, most: int
) -> Float[np.ndarray, " draws"]:
    """Log of the average of a density over all copies, of which only the nearest are added.

    Above `most` copies these are the ones at most one swap and one flip away: a lower bound, for
    fits, whose quality it changes, but not for weights.
    """
    if not model.symmetry:
        return log_density(np.asarray(positions, np.float64))
    sums = in_blocks(
        lambda block: np.logaddexp.reduce(_at_copies(model, log_density, block, most)[1], axis=0), positions
    )
    return sums - log_num_copies(model)


def rows_of_density(model: BoundModel, most: int = FULL_SUM) -> int:
    """The number of rows whose likelihood takes as long as a mixture's density at all copies.

    It is a rough count of operations, for copies up to `most`.
    """
    copies = math.exp(min(math.log(most), log_num_copies(model))) if model.symmetry else 1
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
    copies, terms = _at_copies(model, log_density, jnp.asarray(positions, jnp.float32), FULL_SUM)
    chosen = np.argmax(terms + generator.gumbel(size=terms.shape), axis=0)
    return copies[chosen, np.arange(len(positions))]


def _at_copies(
    model: BoundModel, log_density: Density, positions, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Every copy of each position, and there the log of a density times that of the Jacobian."""
    orders, signs = _elements(model, most)
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


@partial(jax.jit, static_argnames="model")
def _reordered(model, positions, orders):
    log_prior = jax.vmap(model.log_prior)

    def one(order):
        copies = reorder(model, positions, jnp.tile(order, (len(positions), 1)))
        return copies, log_prior(positions) - log_prior(copies)

    return jax.lax.map(one, orders)


def _elements(model: BoundModel, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Orders of the components, and signs of the coordinates after them."""
    flips, size = model.symmetry.all_flips, model.num_parameters
    is_full = log_num_copies(model) <= math.log(most)
    most_flips = len(flips) if is_full else 1
    chosen = [each for number in range(most_flips + 1) for each in itertools.combinations(flips, number)]
    signs = np.ones((len(chosen), size))
    for row, flipped in zip(signs, chosen, strict=True):
        row[list(itertools.chain(*flipped))] = -1.0
    return np.array(_orders(num_components(model), most)), signs


def _orders(count: int, most: int) -> list[tuple[int, ...]]:
    """All orders of components if there are at most `most`, else the identity and its swaps."""
    if math.factorial(count) <= most:
        return list(itertools.permutations(range(count)))
    identity = list(range(count))
    swaps = []
    for first, second in itertools.combinations(identity, 2):
        swap = identity.copy()
        swap[first], swap[second] = second, first
        swaps.append(tuple(swap))
    return [tuple(identity), *swaps]
