"""The fingerprint of a model in a checkpoint, used to reject a different model.

Functions are not written to files. Instead, the log prior density and the log-likelihood of a few
rows at a few particles are computed again and compared. The same model written in another way
passes, also on another machine or version of JAX; one with another prior, another constant or
other columns does not.
"""

import dataclasses
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia import kernels
from evidentia.checkpoint.packing import as_damaged, check_fields
from evidentia.errors import CheckpointError, DataError, ModelError, check_seed
from evidentia.evidence.chunks import PathState
from evidentia.evidence.path.moves import StepInfo
from evidentia.evidence.path.population import Population
from evidentia.evidence.sgais import SGAIS
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.online.past import StreamPast, Sums
from evidentia.online.reservoir import STAGE, Reservoir
from evidentia.online.state import Mark, OnlineState
from evidentia.posterior import gradients
from evidentia.posterior.expansion import Expansion
from evidentia.posterior.gradients import ControlVariateMemory

NUM_PARTICLES, NUM_ROWS = 8, 16
NUM_BINDING_ROWS = 64  # rows of the reservoir from which a model is bound again
TOLERANCE = 1e-3  # relative; machines and versions round differently


class Fingerprint(NamedTuple):
    """A model's name, parameter shapes and log densities (nats) at the checkpoint's particles."""

    name: str
    parameter_shapes: dict[str, tuple[int, ...]]
    log_prior: Float[np.ndarray, " particles"]
    log_likelihood: Float[np.ndarray, "particles rows"]


class Packed(NamedTuple):
    """The content of a checkpoint of `Online`; before the first batch without the last two."""

    method: SGAIS
    seed: int
    reservoir_size: int
    state: OnlineState | None
    fingerprint: Fingerprint | None


# The classes that a checkpoint of `Online` may contain.
RECORDS: dict[str, type] = {
    record.__name__: record
    for record in (
        *(Fingerprint, Mark, OnlineState, StreamPast, Reservoir, Sums),
        *(SGAIS, PathState, StepInfo, Population, Expansion, ControlVariateMemory),
        *(gradients.ControlVariate, gradients.MiniBatch, gradients.FullBatch),
        *(kernels.BAOAB, kernels.HMC, kernels.MALA, kernels.RandomWalk),
        *(kernels.SGHMC, kernels.SGLD, kernels.SGNHT, kernels.ULA),
    )
}


def check_storable(method: SGAIS) -> None:
    """Raise CheckpointError if the method has parts that could not be read back."""
    for field in dataclasses.fields(method):
        part = getattr(method, field.name)
        is_plain = isinstance(part, bool | int | float | np.generic | None)
        if not is_plain and RECORDS.get(type(part).__name__) is not type(part):
            raise CheckpointError(
                f"{field.name} must be a class of evidentia to be kept in a checkpoint; got {part!r}."
            )


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
            if state.past.reservoir.capacity != packed.reservoir_size:
                raise ValueError("the size of the reservoir differs from reservoir_size")
            if len(state.path.population.log_weights) != packed.method.num_particles:
                raise ValueError("the number of particles differs from num_particles")
    return packed


class Known(NamedTuple):
    """What a fingerprint is taken of: positions, and some rows to which the model is bound."""

    positions: Float[Any, "particles parameters"]
    rows: Any


def known_of(state: OnlineState) -> Known:
    """The particles of a state, and the first rows of its reservoir."""
    return Known(state.path.population.positions, _example_rows(state))


def fingerprint(model: BoundModel, known: Known) -> Fingerprint:
    """The fingerprint of a model at the first positions and rows."""
    positions = jnp.asarray(known.positions[:NUM_PARTICLES], jnp.float32)
    rows = jax.tree.map(lambda leaf: leaf[:NUM_ROWS], known.rows)
    log_likelihood = _log_likelihoods(model, positions, rows)
    return Fingerprint(
        model.name, model.parameter_shapes, model.log_priors(positions), np.asarray(log_likelihood)
    )


def bind_as_saved(saved: Fingerprint, model: Model, known: Known) -> BoundModel:
    """Bind the model to known rows. Raises CheckpointError unless it is the saved model."""
    needed = f"model must be the one that the checkpoint was made with, {saved.name}"
    try:
        bound = model.bind(known.rows)
        if bound.parameter_shapes != saved.parameter_shapes:
            raise CheckpointError(
                f"{needed}, with parameters {_described(saved.parameter_shapes)}; got {bound.name}, with "
                f"{_described(bound.parameter_shapes)}."
            )
        if (size := known.positions.shape[1]) != bound.num_parameters:
            raise CheckpointError(
                f"the checkpoint is damaged: its particles have {size} coordinates, not {bound.num_parameters}."
            )
        found = fingerprint(bound, known)
    except (ModelError, DataError) as error:
        raise CheckpointError(f"{needed}; got {model.name}, which does not fit its rows: {error}") from error
    for what in ("log_prior", "log_likelihood"):
        before, now = getattr(saved, what), getattr(found, what)
        if before.shape != now.shape or not np.allclose(now, before, TOLERANCE, TOLERANCE, equal_nan=True):
            raise CheckpointError(
                f"{needed}; got {bound.name}, whose {what.replace('_', ' ')} differs at the checkpoint's particles."
            )
    return bound


def _check_sizes(state: OnlineState) -> None:
    """Raise ValueError unless the parts of a state fit together, as one of another file would not.

    The fields have their types and the axes of each record their sizes (`check_fields`).
    """
    population, (reservoir, sums) = state.path.population, state.past
    positions, log_weights, ancestors = population.positions, population.log_weights, population.ancestors
    leaves, rows = jax.tree.leaves(reservoir.arrays), reservoir.num_observations
    memory = population.memory
    expansions = [memory.past] if isinstance(memory, ControlVariateMemory) else []
    expansions += [] if sums is None else [sums.whole, sums.kept]
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
        "rows": bool(leaves) and all(_is_column(leaf, reservoir.capacity + 2 * STAGE) for leaf in leaves),
        "sums": (sums is not None) == (rows > reservoir.capacity),
        "expansions": all(one.centre.shape == positions.shape[1:] for one in expansions),
        "marks": all(first < second for first, second in pairwise(seen)),
    }
    if wrong := [name for name, does_fit in fits.items() if not does_fit]:
        raise ValueError(f"{', '.join(wrong)} of its state do not fit the rest")


def _is_column(leaf: Any, rows: int) -> bool:
    is_number = isinstance(leaf, jax.Array) and leaf.dtype in (np.float32, np.int32)
    return is_number and leaf.ndim > 0 and leaf.shape[0] == rows


@partial(jax.jit, static_argnames="model")
def _log_likelihoods(model, positions, rows):
    return jax.vmap(model.log_likelihood, (0, None))(positions, rows)


def _example_rows(state: OnlineState) -> Any:
    kept = min(NUM_BINDING_ROWS, state.past.reservoir.num_kept)
    return jax.tree.map(lambda leaf: np.asarray(leaf[:kept]), state.past.reservoir.arrays)


def _described(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
