"""Posterior draws that a user has, and the check that they belong to a model.

Draws are constrained parameters by name, in ArviZ's InferenceData or DataTree, an xarray Dataset,
or a mapping of arrays: (draws, ...), or (chains, draws, ...). Which of the two is told by the
number of axes of the model's parameter.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from evidentia import arviz_bridge
from evidentia.errors import ConfigurationError
from evidentia.model.bound import BoundModel

Arrays = dict[str, np.ndarray]


class GivenDraws:
    """Posterior draws by name, of which one sees only what they are.

    Two are equal if their names and arrays are.

    Attributes:
        arrays: by name.
    """

    def __init__(self, arrays: Arrays):
        self.arrays = arrays

    @cached_property
    def digest(self) -> str:
        """A hash of names, shapes and values."""
        found = hashlib.sha256()
        for name, array in sorted(self.arrays.items()):
            found.update(
                f"{name} {array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()
            )
        return found.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenDraws) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        names = ", ".join(self.arrays)
        return f"<{shown(names)}>"


def shown(words: str, most: int = 60) -> str:
    """Text of at most some sixty characters."""
    return words if len(words) <= most else f"{words[:most]}…"


def given_draws(draws: Any) -> GivenDraws:
    """The draws of any of the forms.

    Raises:
        ConfigurationError: another form, or arrays that are not numbers.
    """
    if isinstance(draws, GivenDraws):
        return draws
    found = arviz_bridge.posterior_arrays(draws)
    if found is None and isinstance(draws, Mapping) and not hasattr(draws, "groups"):
        found = dict(draws)
    if not found or not all(isinstance(name, str) for name in found):
        raise ConfigurationError(
            "draws must be ArviZ InferenceData or a DataTree with the group posterior, or a mapping of names to arrays "
            f"(draws, ...) or (chains, draws, ...); got {_kind(draws)}."
        )
    return GivenDraws({name: _numbers(name, array) for name, array in found.items()})


def _kind(draws: Any) -> str:
    if isinstance(draws, Mapping):
        return f"a {type(draws).__name__} of {shown(', '.join(map(repr, draws))) or 'nothing'}"
    return repr(type(draws).__name__)


def _numbers(name: str, array: Any) -> np.ndarray:
    try:
        found = np.asarray(array)
    except Exception as error:  # of any kind, as arrays of others convert as they like
        raise ConfigurationError(f"draws[{name!r}] must be an array of numbers: {error}") from error
    return found


# --- The draws of a model ------------------------------------------------------------------------


def unconstrained(draws: GivenDraws, model: BoundModel) -> Float[np.ndarray, "chains draws parameters"]:
    """The draws on the unconstrained scale of a model, in float64.

    Raises:
        ConfigurationError: they do not belong to the model; the message names each difference.
    """
    chains = {
        name: array.astype(np.float64)
        for name, array in with_chains(draws, model.name, model.parameter_shapes).items()
    }
    leading = next(iter(chains.values())).shape[:2]
    flat = {name: merged(array) for name, array in chains.items()}
    with model.in_float64():
        positions = jax.vmap(model.unconstrain)({name: jnp.asarray(array) for name, array in flat.items()})
        again = model.constrain(positions)
    for name, array in flat.items():
        is_outside = _is_changed(array, np.asarray(again[name]))
        if is_outside.any():
            draw = int(np.argmax(is_outside))
            raise ConfigurationError(
                f"draws[{name!r}] must lie in the support of {name} in the model {model.name!r}; {int(is_outside.sum()):,} of "
                f"{len(array):,} draws do not, such as {_first(array[draw])} (chain {draw // leading[1]}, draw "
                f"{draw % leading[1]}). Give the draws on the scale of the model's prior, not transformed."
            )
    return np.asarray(positions).reshape(*leading, -1)


def with_chains(draws: GivenDraws, owner: str, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """The arrays of some parameters, each (chains, draws, ...).

    Raises:
        ConfigurationError: some are missing or have other shapes; the message names all.
    """
    problems, found = [], {}
    missing = [name for name in shapes if name not in draws.arrays]
    if missing:
        problems.append(f"{', '.join(missing)} missing (given: {shown(', '.join(draws.arrays), 200)})")
    for name, shape in shapes.items():
        if name in missing:
            continue
        array, axes = draws.arrays[name], "".join(f", {size}" for size in shape)
        is_numeric = array.dtype.kind in "fiub"
        if (
            not is_numeric
            or array.ndim - len(shape) not in (1, 2)
            or array.shape[array.ndim - len(shape) :] != shape
        ):
            kind = "" if is_numeric else f" of {array.dtype}"
            problems.append(
                f"{name} has shape {array.shape}{kind} instead of (draws{axes}) or (chains, draws{axes})"
            )
        else:
            found[name] = array if array.ndim == len(shape) + 2 else array[None]
    if not problems and len({array.shape[:2] for array in found.values()}) > 1:
        counts = (f"{array.shape[0]} of {array.shape[1]:,} for {name}" for name, array in found.items())
        problems.append(f"the chains differ: {', '.join(counts)}")
    if problems:
        raise ConfigurationError(f"draws do not belong to the model {owner!r}: {'; '.join(problems)}.")
    return found


def merged(array: np.ndarray) -> np.ndarray:
    """Chains and draws on one axis."""
    return array.reshape(-1, *array.shape[2:])


def _is_changed(array: np.ndarray, again: np.ndarray) -> Bool[np.ndarray, " draws"]:
    """Whether a value has no place on the real line, or comes back from it as another."""
    is_close = np.isclose(array, again, rtol=1e-3, atol=1e-5)
    return np.any(~is_close.reshape(len(array), -1), axis=1, keepdims=True)[:, 0]


def _first(value: np.ndarray) -> str:
    return np.array2string(np.ravel(value)[:4], precision=4, separator=", ") if value.ndim else f"{value:.4g}"
