"""The fingerprint of a model in a checkpoint, used to reject a different model.

Functions are not written to files. Instead, the log prior density and the log-likelihood of a few
rows at a few particles are computed again and compared. The same model written in another way
passes, also on another machine or version of JAX; one with another prior, another constant or
other columns does not.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.errors import CheckpointError, DataError, ModelError
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.online.state import OnlineState
from evidentia.system.compilation import jitted

NUM_PARTICLES, NUM_ROWS = 8, 16
TOLERANCE = 1e-3  # relative; machines and versions round differently


class Fingerprint(NamedTuple):
    """A model's name, parameter shapes and log densities (nats) at the checkpoint's particles."""

    name: str
    parameter_shapes: dict[str, tuple[int, ...]]
    log_prior: Float[np.ndarray, " particles"]
    log_likelihood: Float[np.ndarray, "particles rows"]


class Known(NamedTuple):
    """What a fingerprint is taken of: positions, and some rows to which the model is bound."""

    positions: Float[Any, "particles parameters"]
    rows: Any


def known_of(state: OnlineState) -> Known:
    """The particles of a state, and some rows of its past."""
    return Known(state.path.population.positions, state.past.binding_rows)


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


@jitted(static_argnames="model")
def _log_likelihoods(model, positions, rows):
    return jax.vmap(model.log_likelihood, (0, None))(positions, rows)


def _described(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
