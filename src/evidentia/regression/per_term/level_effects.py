"""The posterior of the effects of a model with a g for each term, and draws from it.

Given the g's, effects are Student t with N - 1 degrees of freedom; over the g's they are a mixture
of these at the integral's points, of which the first ones are enough in a Sobol sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import gammaln, stdtr, stdtrit

from evidentia.regression.per_term.evidence import Weighed

MOST_STEPS, CLOSE = 60, 1e-8  # to a quantile; and of the interval that holds it
NEGLIGIBLE = 1e-6  # of the largest weight


class Mixture(NamedTuple):
    """Student t laws of some numbers, mixed.

    Attributes:
        shares: of the components.
        centre, scale: of each number in each component.
        freedom: degrees of freedom of all.
    """

    shares: Float[ndarray, " components"]
    centre: Float[ndarray, "components numbers"]
    scale: Float[ndarray, "components numbers"]
    freedom: float

    @property
    def mean(self) -> Float[ndarray, " numbers"]:
        """Of each number."""
        return self.shares @ self.centre

    @property
    def deviation(self) -> Float[ndarray, " numbers"]:
        """The standard deviation of each number; infinite up to two degrees of freedom."""
        if self.freedom <= 2:
            return np.full(self.centre.shape[1], np.inf)
        within = self.freedom / (self.freedom - 2) * self.scale**2
        return np.sqrt(self.shares @ (within + (self.centre - self.mean) ** 2))

    def quantile(self, share: float) -> Float[ndarray, " numbers"]:
        """Of each number, by Newton's method within bounds."""
        each = self.centre + self.scale * stdtrit(self.freedom, share)
        low, high = each.min(0), each.max(0)
        place, room = self.shares @ each, CLOSE * (high - low)
        for _ in range(MOST_STEPS):
            standard = (place - self.centre) / self.scale
            excess = self.shares @ stdtr(self.freedom, standard) - share
            low, high = np.where(excess < 0, place, low), np.where(excess < 0, high, place)
            step = excess / (self.shares @ (self._density(standard) / self.scale))
            before, place = place, place - step
            place = np.where((place > low) & (place < high), place, (low + high) / 2)
            if np.all(np.abs(place - before) <= room):
                break
        return place

    def _density(self, standard: ndarray) -> ndarray:
        half = self.freedom / 2
        constant = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(np.pi * self.freedom)
        return np.exp(constant - (half + 0.5) * np.log1p(standard**2 / self.freedom))


def mixed(parts: Sequence[tuple[float, Mixture]]) -> Mixture:
    """A mixture of mixtures of the same numbers, with the share of each."""
    shares, mixtures = zip(*parts, strict=True)
    return Mixture(
        np.concatenate([share * one.shares for share, one in parts]) / sum(shares),
        np.concatenate([one.centre for one in mixtures]),
        np.concatenate([one.scale for one in mixtures]),
        mixtures[0].freedom,
    )


def effects_of(model: Weighed, terms: Sequence[str], num_points: int) -> dict[str, Mixture]:
    """The effects of the levels of each term, in units of the table.

    Args:
        model: with its posterior of the g's.
        terms: of the model, but for the block that its sums eliminate.
        num_points: components of each mixture where the points are a sequence.
    """
    chosen, shares = _components(model, num_points)
    freedom = model.likelihood.num_rows - 1
    found: dict[str, list[tuple[ndarray, ndarray]]] = {term: [] for term in terms}
    for effects in model.likelihood.effects(model.log_g[chosen]):
        variance = effects.left / freedom
        for term in terms:
            loadings, lost, place = _loadings(model, term)
            root = loadings @ effects.scale_root
            squares = (root**2).sum(2) + effects.g[:, place, None] * lost
            scale = model.sums.unit * np.sqrt(variance[:, None] * squares)
            found[term].append((model.sums.unit * effects.mean @ loadings.T, scale))
    mixtures = {}
    for term, laws in found.items():
        centre, scale = (np.concatenate(each) for each in zip(*laws, strict=True))
        mixtures[term] = Mixture(shares, centre, scale, freedom)
    return mixtures


class Draws(NamedTuple):
    """Independent posterior draws.

    Attributes:
        effects: of the columns of the model's blocks, in units of the response.
        variance: σ², in units of the response.
        g: of the blocks.
    """

    effects: Float[ndarray, "draws columns"]
    variance: Float[ndarray, " draws"]
    g: Float[ndarray, "draws blocks"]


def draws_of(model: Weighed, num_draws: int, generator: np.random.Generator) -> Draws:
    """Draws of the g's, then of σ² and the effects from their conjugate laws."""
    chosen = generator.permutation(_resampled(model, num_draws, generator.random()))
    freedom, unit = model.likelihood.num_rows - 1, model.sums.unit
    effects, variances = [], []
    for part in model.likelihood.effects(model.log_g[chosen]):
        variance = part.left / 2 / generator.gamma(freedom / 2, size=len(part.left))
        normal = generator.standard_normal(part.mean.shape)
        spread = np.einsum("sij,sj->si", part.scale_root, normal)
        effects.append(unit * (part.mean + np.sqrt(variance)[:, None] * spread))
        variances.append(unit**2 * variance)
    return Draws(np.concatenate(effects), np.concatenate(variances), np.exp(model.log_g[chosen]))


def _resampled(model: Weighed, number: int, start: float = 0.5) -> ndarray:
    """Equally weighted points of the g's: a systematic resample in order of the first g."""
    order = np.argsort(model.log_g[:, 0], kind="stable") if model.log_g.shape[1] else np.zeros(1, int)
    upper = np.cumsum(np.exp(model.log_weights[order]))
    places = np.searchsorted(upper / upper[-1], (np.arange(number) + start) / number)
    return order[np.minimum(places, len(order) - 1)]


def mean_effects(model: Weighed, num_points: int) -> Float[ndarray, " columns"]:
    """The posterior means of the effects of the model's columns, in units of the response."""
    chosen, shares = _components(model, num_points)
    means = [part.mean for part in model.likelihood.effects(model.log_g[chosen])]
    return model.sums.unit * (shares @ np.concatenate(means))


def _components(model: Weighed, num_points: int) -> tuple[ndarray, Float[ndarray, " points"]]:
    """Points of the g's, and their shares."""
    chosen = np.arange(num_points if model.is_sequence else len(model.log_g))
    weights = np.exp(model.log_weights[chosen] - model.log_weights[chosen].max())
    kept = weights > NEGLIGIBLE
    return chosen[kept], weights[kept] / weights[kept].sum()


def _loadings(model: Weighed, term: str) -> tuple[ndarray, ndarray, int]:
    """A term's effects by columns of the model, the squares of other directions, and whose g."""
    own = model.sums.terms[term]
    assert own.loadings is not None
    rotation, places = model.sums.rotations[term], model.sums.places[term]
    free = [block for block in model.blocks if block.name != model.sums.eliminated]
    start = 0
    for block in free:
        rows = np.flatnonzero(np.isin(block.places, places))
        width = block.turn.shape[1]
        if len(rows):
            loadings = np.zeros((len(own.loadings), len(model.likelihood.place)))
            loadings[:, start : start + width] = own.loadings @ rotation.kept @ block.turn[rows]
            lost = ((own.loadings @ rotation.dropped) ** 2).sum(1) * (not own.is_covariate)
            return loadings, lost, model.blocks.index(block)
        start += width
    raise AssertionError(f"{term} is a term of the model")
