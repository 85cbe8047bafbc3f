"""A search for the probable among too many sub-models: weighted tempered Gibbs sampling.

A chain of models γ never stays: it changes the term i with a probability proportional to

    pᵢ(γ) = (P(γᵢ=1 | γ₋ᵢ, y) + κ/terms) / P(γᵢ | γ₋ᵢ, y),

so it leaves a mode as easily as it enters one, and 1/Σᵢ pᵢ(γ) is its importance weight (Zanella
and Roberts 2019, Scalable importance tempering and Bayesian variable selection, JRSS B 81,
sections 2.2 and 4.2: κ = 5). The probability of a term is the weighted mean of P(γᵢ=1 | γ₋ᵢ, y),
which each visit gives for all terms. Standard errors are those of a mean over independent chains,
so they grow if chains disagree. How much of the probability the visited models have together is
estimated by capture and recapture: the weight of a chain in the models that others have visited
(George and McCulloch 1997, Approaches for Bayesian variable selection, Statistica Sinica 7,
section 4.5).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.special import expit

from evidentia.regression.neighbours import Neighbours
from evidentia.weights import log_sum_exp

NUM_CHAINS = 16
FOCUS = 5.0  # κ
TARGET = 0.005  # standard error of a probability of inclusion, at which the search ends
START_SIZE = 20  # terms of a first model, at most on average
CACHED = 2**27  # bytes of kept neighbourhoods


class Jumps(NamedTuple):
    """How a chain leaves a model.

    Attributes:
        log_joint: log posterior of the model up to a constant.
        inclusion: P(term | the other terms, data).
        cumulated: Σ pᵢ over the terms up to each; the last is the inverse of the weight.
    """

    log_joint: float
    inclusion: Float[ndarray, " terms"]
    cumulated: Float[ndarray, " terms"]


class Chain(NamedTuple):
    """A chain's place, and sums over its visits.

    Attributes:
        model: where it is.
        weight: the sum of the weights.
        inclusion: the weighted sum of the probabilities of the terms.
        visited: the weight of each model, by its bytes.
    """

    model: Bool[ndarray, " terms"]
    weight: float
    inclusion: Float[ndarray, " terms"]
    visited: dict[bytes, float]


class Search(NamedTuple):
    """What the chains found.

    Attributes:
        models: those that were visited.
        weights: the share of the chains' weight in each.
        log_normaliser: of the posterior: probabilities are exp(log_joint - log_normaliser).
        inclusion, inclusion_error: the probability of each term and its standard error.
        visited_probability: of all visited models together; NaN if no model was visited by two
            chains, and the normaliser is then that of the visited models.
    """

    models: Bool[ndarray, "models terms"]
    weights: Float[ndarray, " models"]
    log_normaliser: float
    inclusion: Float[ndarray, " terms"]
    inclusion_error: Float[ndarray, " terms"]
    visited_probability: float


def search(
    neighbours: Neighbours,
    needs: Bool[ndarray, "terms terms"],
    seed: int,
    first_steps: int = 500,
    most_steps: int = 16_000,
) -> Search:
    """Run chains until every term's standard error is at most `TARGET`, or for `most_steps`."""
    generators = np.random.default_rng(seed).spawn(NUM_CHAINS)
    leave = _Leave(neighbours)
    steps = first_steps + 5 * len(needs)
    chains = []
    for generator in generators:
        burnt = advance(_start(needs, generator), leave, steps // 2, generator)
        chains.append(_start(needs, generator)._replace(model=burnt.model))
    total = 0
    while True:
        chains = [
            advance(chain, leave, steps, generator)
            for chain, generator in zip(chains, generators, strict=True)
        ]
        total += steps
        inclusion, error = inclusion_of(chains)
        if error.max(initial=0) <= TARGET or total >= most_steps:
            break
        steps = min(total, most_steps - total)
    return _found(chains, leave.log_joints, inclusion, error)


def advance(chain: Chain, leave: _Leave, steps: int, generator: np.random.Generator) -> Chain:
    """Take some steps of a chain."""
    model, weight, inclusion = chain.model.copy(), chain.weight, chain.inclusion.copy()
    visited = dict(chain.visited)
    for uniform in generator.random(steps):
        key, jumps = leave(model)
        share = 1 / jumps.cumulated[-1]
        weight += share
        inclusion += share * jumps.inclusion
        visited[key] = visited.get(key, 0.0) + share
        changed = min(int(np.searchsorted(jumps.cumulated, uniform / share, "right")), len(model) - 1)
        model[changed] = ~model[changed]
    return Chain(model, weight, inclusion, visited)


def inclusion_of(chains: list[Chain]) -> tuple[Float[ndarray, " terms"], Float[ndarray, " terms"]]:
    """The ratio of the chains' sums, and its standard error by the delta method."""
    tops, bottoms = np.array([chain.inclusion for chain in chains]), np.array([c.weight for c in chains])
    ratio = tops.sum(axis=0) / bottoms.sum()
    rest = tops - bottoms[:, None] * ratio
    count = len(chains)
    return ratio, np.sqrt(count / (count - 1) * (rest**2).sum(axis=0)) / bottoms.sum()


class _Leave:
    """The jumps out of models, of which some are kept; the log posterior of all that were met."""

    def __init__(self, neighbours: Neighbours):
        self._neighbours = neighbours
        self._kept: dict[bytes, Jumps] = {}
        self.log_joints: dict[bytes, float] = {}

    def __call__(self, model: Bool[ndarray, " terms"]) -> tuple[bytes, Jumps]:
        key = model.tobytes()
        found = self._kept.get(key)
        if found is None:
            found = jumps_of(self._neighbours, model)
            self.log_joints[key] = found.log_joint
            if len(self._kept) * 16 * len(model) < CACHED:
                self._kept[key] = found
        return key, found


def jumps_of(neighbours: Neighbours, model: Bool[ndarray, " terms"]) -> Jumps:
    """The rates pᵢ(γ) of a model; zero for changes that leave the well-formed models."""
    around = neighbours.of(model)
    log_odds = np.minimum(np.maximum(around.log_odds, -600), 600)
    inclusion = np.where(around.allowed, expit(np.where(model, -log_odds, log_odds)), model)
    rates = np.where(around.allowed, (inclusion + FOCUS / len(model)) * (1 + np.exp(log_odds)), 0)
    return Jumps(around.log_joint, inclusion, np.cumsum(rates))


def _start(needs: Bool[ndarray, "terms terms"], generator: np.random.Generator) -> Chain:
    """At a random well-formed model, of a random size."""
    count = len(needs)
    model = generator.random(count) < generator.random() * min(1.0, 2 * START_SIZE / count)
    while (lacking := model & (needs & ~model).any(axis=1)).any():
        model &= ~lacking
    return Chain(model, 0.0, np.zeros(count), {})


def _found(chains: list[Chain], log_joints: dict[bytes, float], inclusion: ndarray, error: ndarray) -> Search:
    weights: dict[bytes, float] = {}
    num_chains: dict[bytes, int] = {}
    for chain in chains:
        for key, weight in chain.visited.items():
            weights[key] = weights.get(key, 0.0) + weight
            num_chains[key] = num_chains.get(key, 0) + 1
    keys = list(weights)
    log_joint = np.array([log_joints[key] for key in keys])
    log_mass, shares = [], []
    for chain in chains:
        others = np.array([num_chains[key] > (key in chain.visited) for key in keys])
        log_mass.append(log_sum_exp(log_joint[others]) if others.any() else -np.inf)
        again = sum(weight for key, weight in chain.visited.items() if num_chains[key] > 1)
        shares.append(again / chain.weight)
    visited = log_sum_exp(log_joint)
    log_normaliser, probability = visited, float("nan")
    if sum(shares) > 0:
        log_normaliser = max(visited, log_sum_exp(np.array(log_mass)) - float(np.log(sum(shares))))
        probability = float(np.exp(visited - log_normaliser))
    models = np.frombuffer(b"".join(keys), bool).reshape(len(keys), -1)
    total = np.array(list(weights.values()))
    return Search(models, total / total.sum(), log_normaliser, inclusion, error, probability)
