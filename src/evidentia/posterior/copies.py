"""Densities over the copies of a position that the symmetries of a model give it.

A proposal q₁ about one mode must count all copies of it,

    q(θ) = 1/(K! 2ᶠ) Σ_g q₁(gθ) |∂gθ/∂θ|,        |∂gθ/∂θ| = p(θ)/p(gθ),

with K interchangeable components, f flips of signs, and the prior density p on the unconstrained
scale, on which a permutation is not linear and has a Jacobian.

Where the copies are too many for this sum, the posterior is divided among them instead, which is
exact, too. Any positive function f of positions divides a symmetric posterior π among the copies
gθ of θ,

    r(θ) = f(θ) / Σ_g f(gθ),        Σ_g r(gθ) = 1,        ∫ π = K! 2ᶠ ∫ r(θ) π(θ) dθ,

so draws θ of a density q have the weights K! 2ᶠ r(θ) π(θ) / q(θ), whatever f is. They are even if
f is like q. Here f has a factor for each component, a Gaussian φ_k of its coordinates x_k with the
mean and variance that it has in draws from q, and sums over orders are permanents,

    Σ_σ Π_k φ_k(x_σ(k)),

by a recursion over the components placed so far. It takes 2ᴷ K terms, and fewer if components
have one Gaussian in common: those that the draws do not tell apart. With all in common, r = 1/K!.

Source: Frühwirth-Schnatter (2004), Econometrics Journal 7, 143 (permutation importance sampling);
Bellman (1962), Journal of the ACM 9, 61 (the recursion over subsets); Ryser (1963), Combinatorial
Mathematics, chapter 2 (permanents); Stephens (2000), Journal of the Royal Statistical Society B
62, 795 (Gaussians of the components).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.model.blocks import BLOCK, filled, in_blocks
from evidentia.model.bound import BoundModel
from evidentia.posterior.symmetry import (
    Centre,
    Positions,
    all_components,
    is_folded,
    log_num_copies,
    num_components,
    reorder,
    unit_masks,
)
from evidentia.system.compilation import jitted

FULL_SUM = 1024  # copies up to which all are summed
FEW_ORDERS = 24  # of four components: up to there, a block of copies takes less time than another program
ALIKE = 0.1  # squared distance of two components, in their variances: below, one Gaussian is within 0.05 nats of each
APART = 1.0  # the same, above which draws of one order are too rare at the other, 2 deviations away
OF_PART = 1024  # draws that show how components differ: means to a thirtieth of a deviation

Draws = Float[np.ndarray, "draws parameters"]
Components = Float[np.ndarray, "draws components coordinates"]
Density = Callable[[Draws], Float[np.ndarray, " draws"]]


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

    def of_block(block):
        return np.logaddexp.reduce(at_copies(model, log_density, block)[1], axis=0)

    return in_blocks(of_block, positions) - log_num_copies(model)


def is_summed(model: BoundModel, most: int = FULL_SUM) -> bool:
    """Whether the copies of a position are so few that a density is summed over all of them."""
    return log_num_copies(model) <= math.log(most)


def rows_of_density(model: BoundModel, most: int = FULL_SUM) -> int:
    """The number of rows whose likelihood takes as long as a mixture's density at all copies.

    It is a rough count of operations, five rows for each squared parameter. If there are more than
    `most` copies, it is that at one.
    """
    copies = math.exp(log_num_copies(model)) if is_summed(model, most) else 1
    return int(5 * copies * model.num_parameters**2)


def at_copies(model: BoundModel, log_density: Density, positions) -> tuple[np.ndarray, np.ndarray]:
    """Every copy of each position, and there the log of a density times that of the Jacobian."""
    orders, signs = _elements(model)
    if len(orders) == 1:
        copies, log_jacobians = jnp.asarray(positions)[None], np.zeros((1, len(positions)))
    else:
        count = len(positions)
        if count < BLOCK and len(orders) <= FEW_ORDERS:
            positions = filled(positions, BLOCK)  # one program for any number
        found = _reordered(model, positions, jnp.asarray(orders))
        copies, log_jacobians = (np.asarray(each)[:, :count] for each in found)
    every = np.asarray(copies, np.float64)[:, None] * signs[:, None]
    every = every.reshape(-1, *every.shape[2:])
    terms = log_density(every.reshape(-1, every.shape[-1])).reshape(len(orders), len(signs), -1)
    terms = terms + np.asarray(log_jacobians, np.float64)[:, None]
    return every, terms.reshape(-1, terms.shape[-1])


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


class Gaussians(NamedTuple):
    """Independent Gaussians of the coordinates of each component, and of all parameters.

    `groups` has the number of the Gaussian of each component, `sizes` that of its components.
    """

    mean: Float[np.ndarray, "groups coordinates"]
    variance: Float[np.ndarray, "groups coordinates"]
    groups: tuple[int, ...]
    sizes: tuple[int, ...]
    of_parameters: tuple[Float[np.ndarray, " parameters"], Float[np.ndarray, " parameters"]]


def log_shares(
    model: BoundModel, parts: Sequence[tuple[float, Draws]], positions: Positions, most_states: int = 4096
) -> Float[np.ndarray, " particles"]:
    """log r at positions, for a density whose parts have these log shares and draws.

    NaN if there are more components apart from each other than the recursion can list with
    `most_states`, which are 2¹² for twelve that all differ: then Gaussians in common would share
    the posterior with copies that the density does not cover.
    """
    fits = [(log_share, _fitted(model, draws, most_states)) for log_share, draws in parts]
    components = all_components(model, positions)
    flat = np.asarray(positions, np.float64)
    if any(fit is None for _, fit in fits):
        return np.full(len(flat), np.nan)
    here, everywhere = [], []
    for log_share, fit in fits:
        assert fit is not None
        own, total = _of_copies(model, fit, components, flat)
        here.append(log_share + own)
        everywhere.append(log_share + total)
    own, total = (np.logaddexp.reduce(each, axis=0) for each in (here, everywhere))
    return own - np.maximum(total, own)  # rounding


def _fitted(model: BoundModel, draws: Draws, most_states: int) -> Gaussians | None:
    """The Gaussians of draws, in common for similar components; None if too many are apart."""
    components = all_components(model, draws.astype(np.float32))
    mean, variance = components.mean(0), _positive(components.var(0), np.mean(components**2, axis=0))
    between = np.sum((mean[:, None] - mean) ** 2 / (variance[:, None] + variance), axis=-1)
    groups = [[index] for index in range(len(mean))]
    while len(groups) > 1:
        distances = np.array([[between[np.ix_(one, other)].max() for other in groups] for one in groups])
        np.fill_diagonal(distances, np.inf)
        first, second = sorted(np.unravel_index(np.argmin(distances), distances.shape))
        is_listed = math.prod(len(group) + 1 for group in groups) <= most_states
        if is_listed and distances[first, second] > ALIKE:
            break
        if distances[first, second] > APART:
            return None
        groups[first] += groups.pop(second)
    numbers = np.zeros(len(mean), int)
    for number, group in enumerate(groups):
        numbers[group] = number
    of_parameters = draws.mean(0), _positive(draws.var(0), np.mean(draws**2, axis=0))
    sizes = tuple(len(group) for group in groups)
    return Gaussians(_means(groups, mean), _means(groups, variance), tuple(numbers), sizes, of_parameters)


def _positive(variance: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Variances that are not below the rounding of their mean squares."""
    return np.maximum(variance, 1e-12 * squares + np.finfo(float).tiny)


def _means(groups: list[list[int]], values: np.ndarray) -> np.ndarray:
    return np.array([values[group].mean(0) for group in groups])


def _of_copies(
    model: BoundModel, fit: Gaussians, components: Components, positions: Draws
) -> tuple[np.ndarray, np.ndarray]:
    """log f at each position, and log Σ_g f(gθ) over its copies."""
    masks = unit_masks(model)
    as_is = _log_normal(components[:, None], fit.mean[:, None], fit.variance[:, None])
    flipped = _log_normal(components[:, None], -fit.mean[:, None], fit.variance[:, None])
    fixed = as_is @ ~masks.any(0) if len(masks) else as_is.sum(-1)
    kept = as_is.sum(-1)
    either = fixed + np.sum(np.logaddexp(as_is @ masks.T, flipped @ masks.T), axis=-1) if len(masks) else kept
    places = np.arange(kept.shape[2])
    own = kept[:, list(fit.groups), places].sum(-1)
    total = _log_permanent(either, fit.sizes)
    for flip in map(list, model.symmetry.flips):
        mean, variance = (each[flip] for each in fit.of_parameters)
        here, there = (_log_normal(positions[:, flip], sign * mean, variance).sum(-1) for sign in (1.0, -1.0))
        own, total = own + here, total + np.logaddexp(here, there)
    return own, total


def _log_normal(values: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * ((values - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def _log_permanent(
    log_terms: Float[np.ndarray, "draws groups components"], sizes: tuple[int, ...]
) -> Float[np.ndarray, " draws"]:
    """log Σ_σ Π_k exp(log_terms[group of k, σ(k)]), over all orders σ of the components."""
    states = tuple(size + 1 for size in sizes)
    block = max(1, 4_000_000 // math.prod(states))  # positions at a time, to save memory
    found = [_placed(log_terms[start : start + block], states) for start in range(0, len(log_terms), block)]
    return np.concatenate(found) + sum(math.lgamma(states_of_group) for states_of_group in states)


def _placed(log_terms: np.ndarray, states: tuple[int, ...]) -> np.ndarray:
    """log of the sum over the ways to place the components in groups of these sizes."""
    largest = log_terms.max(axis=1)
    terms, log_scale = np.exp(log_terms - largest[:, None]), largest.sum(axis=1)
    totals = np.zeros((len(log_terms), *states))
    totals[(slice(None), *(0 for _ in states))] = 1.0
    for component in range(log_terms.shape[2]):
        grown = np.zeros_like(totals)
        for group in range(len(states)):
            fuller, emptier = ([slice(None)] * totals.ndim for _ in range(2))
            fuller[group + 1], emptier[group + 1] = slice(1, None), slice(None, -1)
            term = terms[:, group, component].reshape(-1, *(1 for _ in states))
            grown[tuple(fuller)] += totals[tuple(emptier)] * term
        scale = np.maximum(grown.reshape(len(grown), -1).max(axis=1), np.finfo(float).tiny)
        totals, log_scale = grown / scale.reshape(-1, *(1 for _ in states)), log_scale + np.log(scale)
    with np.errstate(divide="ignore"):
        return log_scale + np.log(totals[(slice(None), *(-1 for _ in states))])
