"""A look for modes that a search from the prior has lost.

A search fits one Student t at a time, so of several narrow modes it may keep one. Newton's method
from likely prior draws, as for fleets of data sets, finds modes without a chance of this kind. One
of them, with a share of the evidence, where the draws do not reach means that they miss some.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia import weights
from evidentia.data.arrays import num_rows, with_rows
from evidentia.fleet.batched import starts_of
from evidentia.fleet.climbing import Lanes, climb, expander
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import is_definite
from evidentia.streams.draws import MISSED, NUM_DRAWS, Found, OfDraws, Prior

TOGETHER = 64  # data sets of a program
SHOWN = 10  # effective prior draws that show every mode themselves
OVERHANG = 1.0  # nats of a mode's weight above the largest weight of the draws


def misses_modes(
    model: BoundModel,
    prior: Prior,
    found: Sequence[Found],
    datasets: Sequence[Any],
    log_likelihoods: Sequence[OfDraws],
    seeds: Sequence[int],
) -> list[bool]:
    """Whether a mode of each posterior lies where its draws do not reach.

    Args:
        model: of all.
        prior: draws from it.
        found: by searches from the prior.
        datasets: the rows of each.
        log_likelihoods: of all its rows at the first draws from the prior.
        seeds: for the choice of starts.
    """
    missed = [False] * len(found)
    by_length: dict[int, list[int]] = {}
    for index, values in enumerate(log_likelihoods):
        if weights.ess(values) < SHOWN:
            length = max(16, 1 << (num_rows(datasets[index]) - 1).bit_length())
            by_length.setdefault(length, []).append(index)
    for length, group in by_length.items():
        for first in range(0, len(group), TOGETHER):
            chosen = group[first : first + TOGETHER]
            sums = np.stack([log_likelihoods[index] for index in chosen])
            draws = np.broadcast_to(prior.draws[:NUM_DRAWS], (len(chosen), NUM_DRAWS, model.num_parameters))
            starts, whose = starts_of(draws, sums, [seeds[index] for index in chosen])
            lanes = climb(_expander(model, [datasets[index] for index in chosen], length), starts, whose)
            for place, index in enumerate(chosen):
                missed[index] = _misses(model, found[index], lanes, np.flatnonzero(whose == place))
    return missed


def _expander(model: BoundModel, datasets: list[Any], length: int):
    filled = [*datasets, *[datasets[-1]] * (TOGETHER - len(datasets))]
    padded = [jax.tree.map(lambda leaf: with_rows(leaf, length), rows) for rows in filled]
    rows = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
    return expander(model, rows, np.arange(length) < np.array([[num_rows(each)] for each in filled]))


def _misses(model: BoundModel, found: Found, lanes: Lanes, own: Any) -> bool:
    evidence, largest = weights.log_mean(found.draws.log_weights), found.draws.log_weights.max()
    tops = [lane for lane in own if lanes.is_top[lane] and is_definite(lanes.precision[lane])]
    for lane in tops:
        position, precision, height = lanes.position[lane], lanes.precision[lane], lanes.height[lane]
        size = len(position)
        log_mass = height + 0.5 * (size * math.log(2 * math.pi) - np.linalg.slogdet(precision)[1])
        log_prior = model.log_priors(jnp.asarray(position[None], jnp.float32))
        log_ratio = height - found.proposal.log_density(position[None], log_prior)[0]
        if log_mass > evidence + math.log(MISSED) and log_ratio > largest + OVERHANG:
            return True
    return False
