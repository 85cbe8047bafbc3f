"""What a checkpoint of `Online` holds, and whether one that was read fits together."""

import dataclasses
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from evidentia import evidence, kernels
from evidentia.checkpoint.packing import as_damaged, check_fields
from evidentia.errors import CheckpointError, check_seed
from evidentia.evidence.nested.run import Iteration
from evidentia.evidence.population.chunks import PathState, Redraw
from evidentia.evidence.population.moves import StepInfo
from evidentia.evidence.population.particles import Population
from evidentia.online.cells import Cells, Moments
from evidentia.online.condensed import Condensed
from evidentia.online.fingerprint import Fingerprint
from evidentia.online.past import StreamPast, Sums
from evidentia.online.prefix import Prefix
from evidentia.online.reservoir import Reservoir
from evidentia.online.returning import ReturningGroups
from evidentia.online.squashed import Squashed
from evidentia.online.state import Mark, OnlineState, StreamMethod
from evidentia.posterior import gradients
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.gradients import ControlVariateMemory


class Packed(NamedTuple):
    """The content of a checkpoint of `Online`; before the first batch without the last two."""

    method: StreamMethod
    seed: int
    reservoir_size: int
    state: OnlineState | None
    fingerprint: Fingerprint | None


# The classes that a checkpoint of `Online` may contain.
RECORDS: dict[str, type] = {
    record.__name__: record
    for record in (
        *(Fingerprint, Mark, OnlineState, StreamPast, Reservoir, Sums, Prefix),
        *(ReturningGroups, Condensed, Squashed, Cells, Moments),
        *(PathState, Redraw, StepInfo, Iteration, Population, Expansion, ControlVariateMemory),
        *(evidence.SGAIS, evidence.Sequential, evidence.OnlineNestedSampling),
        *(evidence.AIS, evidence.AMIS, evidence.SMC, evidence.NestedSampling),  # for the first rows
        *(evidence.PriorSampling, evidence.Laplace),
        *(gradients.ControlVariate, gradients.MiniBatch, gradients.FullBatch),
        *(kernels.BAOAB, kernels.HMC, kernels.MALA, kernels.RandomWalk, kernels.Slice),
        *(kernels.DifferentialEvolution, kernels.SGHMC, kernels.SGLD, kernels.SGNHT),
        *(kernels.ULA, kernels.Unscaled, kernels.ReflectingSGHMC, kernels.ConstrainedWalk),
        *(kernels.ConstrainedSlice, kernels.ConstrainedDifferentialEvolution, kernels.Rejection),
    )
}


def check_storable(configuration: Any) -> None:
    """Raise CheckpointError if a method has parts that could not be read back."""
    for field in dataclasses.fields(configuration):
        part = getattr(configuration, field.name)
        if isinstance(part, bool | int | float | str | np.generic | None):
            continue
        if RECORDS.get(type(part).__name__) is not type(part):
            raise CheckpointError(
                f"{field.name} must be a class of evidentia to be kept in a checkpoint; got {part!r}."
            )
        check_storable(part)


def checked(content: Any) -> Packed:
    """The content of a checkpoint. Raises CheckpointError unless types, shapes and sizes fit."""
    with as_damaged():
        packed = Packed(**content)
        check_fields(packed)
        check_seed(packed.seed)
        state = packed.state
        if (state is None) != (packed.fingerprint is None):
            raise ValueError("a state needs a fingerprint")
        if state is not None:
            _check_sizes(state)
            if state.past.capacity != packed.reservoir_size:
                raise ValueError("the size of the reservoir differs from reservoir_size")
            if len(state.path.population.log_weights) != packed.method.num_particles:
                raise ValueError("the number of particles differs from num_particles")
    return packed


def _check_sizes(state: OnlineState) -> None:
    """Raise ValueError unless the sizes of the parts of a state agree.

    The fields have their types and the axes of each record their sizes (`check_fields`).
    """
    population, past = state.path.population, state.past
    positions, log_weights, ancestors = population.positions, population.log_weights, population.ancestors
    rows, memory = past.num_observations, population.memory
    expansions = [memory.past] if isinstance(memory, ControlVariateMemory) else []
    if isinstance(past, StreamPast) and past.sums is not None:
        expansions += [past.sums.whole, past.sums.kept]
    chains = ancestors.shape[1] if isinstance(ancestors, np.ndarray) else 1
    seen = [0, *(mark.num_observations for mark in state.marks), rows + 1]
    fits = {
        "key": population.key.shape == () and jnp.issubdtype(population.key.dtype, jax.dtypes.prng_key),
        "positions": len(positions) > 1,
        "log_weights": log_weights.dtype == np.float64
        and bool(np.all(log_weights < np.inf))
        and log_weights.max() > -np.inf,
        "ancestors": chains > 0
        and len(log_weights) % chains == 0
        and bool(np.all((np.asarray(ancestors) >= 0) & (np.asarray(ancestors) < chains))),
        "memory": memory is None or isinstance(memory, ControlVariateMemory),
        "num_observations": 1 <= rows == state.path.num_observations,
        "past": past.is_consistent,
        "expansions": all(one.centre.shape == positions.shape[1:] for one in expansions),
        "marks": all(first < second for first, second in pairwise(seen)),
    }
    if wrong := [name for name, does_fit in fits.items() if not does_fit]:
        raise ValueError(f"{', '.join(wrong)} of its state do not fit the rest")
