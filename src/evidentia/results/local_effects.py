"""Posterior means and deviations of local variables: those of each row or group.

They were integrated out. At some posterior draws of the parameters their conditional means and
variances are found again by the same quadrature; over the draws, with m_s and v_s of each,

    E[z] = mean of m_s,        Var[z] = mean of v_s + variance of m_s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from numpy import ndarray

from evidentia.data.fingerprint import fingerprints, sums_by_name
from evidentia.errors import ConfigurationError
from evidentia.model.local import Integrated
from evidentia.model.local.packs import SIGNS
from evidentia.model.model import Model
from evidentia.posterior.units import bound_to
from evidentia.results.result import Evidence

NUM_DRAWS = 32  # of the parameters
AT_ONCE = 4096  # rows, or packs of groups

Effects = dict[str, tuple[ndarray, ndarray]]  # mean and deviation by name


class Block(NamedTuple):
    """Effects of some groups, by their numbers."""

    levels: Int[ndarray, " groups"]
    effects: Effects


class Groups(NamedTuple):
    """The groups of a factor: their names, and their effects, some at a time."""

    name: str
    levels: Sequence[Any]
    blocks: Iterable[Block]


def groups_of_model(model: Model, evidence: Evidence, data: Any) -> Groups:
    """The rows or groups of a NumPyro or PyMC model with local variables.

    Raises:
        ConfigurationError: a model without local variables, or evidence of another.
        DataError, ModelError: data or a model that cannot be used.
    """
    found = bound_to(model, model.data if data is None else data)
    function = found.model.densities.pointwise
    if not isinstance(function, Integrated):
        raise ConfigurationError(
            f"model must have latents with a value in each row, or in each group (groups= of Model.from_numpyro); got {model!r}, "
            "whose latents are all parameters: evidence.posterior has them."
        )
    if set(evidence.weighted) != set(found.model.parameter_shapes):
        raise ConfigurationError(f"evidence must be of {model!r}; got that of {evidence.model_name!r}.")
    check_data_of(evidence, fingerprints(sums_by_name(found.data)))
    function = by_its_rule(function, evidence)
    draws = chosen_draws(evidence.weighted, evidence)
    if found.levels is None:
        place = np.arange(found.num_rows)
        return Groups("row", range(found.num_rows), blocks_of(function, found.arrays, draws, place))
    assert model.groups is not None
    return Groups(
        model.groups, found.levels.names, blocks_of(function, found.arrays, draws, found.levels.places)
    )


def check_data_of(evidence: Evidence, own: Mapping[str, str]) -> None:
    """Raise ConfigurationError if a result is known to be of other data."""
    if odd := [name for name, known in evidence.fingerprints.items() if own.get(name, known) != known]:
        raise ConfigurationError(
            f"data must be those of the evidence; {odd[0]!r} has other values than when it was estimated."
        )


def by_its_rule(function: Integrated, evidence: Evidence) -> Integrated:
    """The likelihood with the rule of quadrature that the run needed."""
    return function.at(int(evidence.diagnostics.get("inner_rule", 0)))


def chosen_draws(posterior: Mapping[str, ndarray], evidence: Evidence) -> dict[str, jax.Array]:
    """Some posterior draws of the parameters, with equal weights."""
    shares = np.exp(evidence.weighted.log_weights)
    chosen = np.random.default_rng(evidence.seed).choice(len(shares), NUM_DRAWS, p=shares / shares.sum())
    return {name: jnp.asarray(values[chosen], jnp.float32) for name, values in posterior.items()}


def blocks_of(
    function: Integrated, arrays: Any, draws: dict[str, jax.Array], places: Int[ndarray, " groups"]
) -> Iterator[Block]:
    """Effects of groups whose places among those of all units are known."""
    at_draws = jax.jit(lambda batch: jax.lax.map(lambda params: function.moments(params, batch), draws))
    count = jax.tree.leaves(arrays)[0].shape[0]
    groups = 1 if function.groups is None else arrays[SIGNS].shape[1]
    level_of = np.full(count * groups, -1)
    level_of[places] = np.arange(len(places))
    for units in (slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE)):
        effects = mean_and_deviation(at_draws({name: array[units] for name, array in arrays.items()}))
        levels = level_of[units.start * groups : units.stop * groups]
        is_group = levels >= 0
        found = {name: (mean[is_group], deviation[is_group]) for name, (mean, deviation) in effects.items()}
        yield Block(levels[is_group], found)


def mean_and_deviation(by_draw: Mapping[str, tuple[jax.Array, jax.Array]]) -> Effects:
    """E[z] and the deviation of each number of z from conditional means and variances at draws."""
    found: Effects = {}
    for name, moments in by_draw.items():
        means, variances = (np.asarray(part, np.float64) for part in moments)
        mean, deviation = means.mean(axis=0), np.sqrt(variances.mean(axis=0) + means.var(axis=0))
        for index in np.ndindex(mean.shape[1:]):
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            found[label] = mean[:, *index], deviation[:, *index]
    return found
