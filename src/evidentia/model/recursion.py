"""Recursions: log-likelihoods of sequences, whose rows depend on each other through a state.

With a state s_t that a recursion carries along, such as the filtered distribution of a hidden
Markov chain or of a Kalman filter,

    (s_{t+1}, log p(y_t | y_1, …, y_{t-1}, θ)) = step(θ, s_t, y_t),
    log p(y_1, …, y_T | θ) = Σ_t log p(y_t | y_1, …, y_{t-1}, θ).

The sum is one compiled loop (`jax.lax.scan`). Its gradient keeps the state of each step only, and
computes the rest of a step again, which is faster than to store it for all particles.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import DataError, ModelError, attempt
from evidentia.model.program import Params

State = Any  # a pytree of arrays
Init = Callable[[Params], State]
Step = Callable[[Params, State, Any], tuple[State, Any]]  # a real number

LENGTHS = "lengths"  # of many sequences: the array of the data with the number of rows of each


@dataclass(frozen=True)
class Recursion:
    """The log-likelihood of one sequence, or of each of many.

    Attributes:
        init: `init(params) -> state`, before the first row.
        step: `step(params, state, row) -> (state, log_predictive)`.
        is_one: whether all data are one sequence, with time on the leading axis; otherwise
            sequences are there, and time on the second axis.
        prepare: what `init` and `step` get in place of the parameters: a function of these that is
            called once for all rows.
        refined: the same with a finer approximation, if the log predictives are approximate.
        is_costly: whether methods that evaluate it seldom suit it best.
    """

    init: Init
    step: Step
    is_one: bool = True
    prepare: Callable[[Params], Any] | None = None
    refined: "Recursion | None" = None
    is_costly: bool = False

    def __call__(self, params: Params, data: Any) -> Array:
        """The log-likelihood of all data, (), or of each of many sequences, (sequences,)."""
        if self.is_one:
            return jnp.sum(self.log_predictives(params, data))
        rows, lengths = _split(data)
        if lengths is None:
            return jax.vmap(lambda one: jnp.sum(self.log_predictives(params, one)))(rows)

        def of_one(one, length):
            found = self.log_predictives(params, one)
            return jnp.sum(jnp.where(jnp.arange(len(found)) < length, found, 0.0))

        return jax.vmap(of_one)(rows, lengths)

    def log_predictives(self, params: Params, sequence: Any) -> Float[Array, " rows"]:
        """log p(y_t | y_1, …, y_{t-1}, θ) of each row of a sequence, in nats.

        Raises ModelError, when it is traced, if `init` or `step` cannot be used.
        """
        if self.prepare is not None:
            params = self.prepare(params)
        first = self._first_state(params, jax.tree.map(lambda array: array[0], sequence))

        @jax.checkpoint
        def step(state, row):
            return self.step(params, state, row)

        return jax.lax.scan(step, first, sequence)[1]

    def _first_state(self, params: Params, row: Any) -> State:
        """The first state, in the types of those that follow, after checks of both functions."""
        state = attempt("init", lambda: jax.tree.map(jnp.asarray, self.init(params)))
        after = self._shapes(params, state, row)
        if jax.tree.structure(after) == jax.tree.structure(state):
            state = jax.tree.map(lambda one, other: one.astype(other.dtype), state, after)
            after = self._shapes(params, state, row)
        if (given := _described(state)) != (found := _described(after)):
            raise ModelError(
                f"step must return a state of the same structure, shapes and types as it gets, in each row; it got {given}, and "
                f"returned {found}. A state cannot grow: keep a window of fixed length, or sums."
            )
        return state

    def _shapes(self, params: Params, state: State, row: Any) -> Any:
        """The shapes of the state that `step` returns."""
        found = attempt("step", lambda: jax.eval_shape(self.step, params, state, row))
        if not isinstance(found, tuple) or len(found) != 2:
            raise ModelError(
                f"step must return a tuple (state, log_predictive); it returned {_described(found)}."
            )
        after, value = found
        is_number = isinstance(value, jax.ShapeDtypeStruct) and value.shape == ()
        if not is_number or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ModelError(
                "step must return the log predictive of its row as one real number, a float array of shape (); it returned "
                f"{_described(value)}. Sum over the row's values."
            )
        return after


def check_sequences(is_one: bool, time: str | None, missing: tuple[str, ...], data: Any) -> None:
    """Check data (NumPy arrays) of one sequence, or of many.

    Raises:
        DataError: arrays of different lengths, sequences without rows, lengths out of range,
            times that do not increase, or no array of a name in `missing`.
    """
    if unknown := [name for name in missing if name not in _named(data)]:
        raise DataError(
            f"missing names {unknown[0]!r}, which is not in data ({', '.join(_named(data))}). Name arrays in which NaN is a missing "
            "value."
        )
    shapes = {name: array.shape for name, array in _named(data).items() if is_one or name != LENGTHS}
    axes = 1 if is_one else 2
    leading = {shape[:axes] for shape in shapes.values()}
    if len(leading) > 1 or any(len(each) < axes for each in leading):
        needed = (
            "time on the leading axis" if is_one else "sequences on the leading axis, and time on the second"
        )
        listed = ", ".join(f"{name} has shape {shape}" for name, shape in shapes.items())
        raise DataError(f"each array of data must have {needed}, of the same length; {listed}.")
    if not is_one:
        _check_lengths(data, *leading.pop())
    if time is not None:
        _check_times(data, time, is_one)


def _check_lengths(data: Any, count: int, longest: int) -> None:
    if not longest:
        raise DataError(f"each sequence must have at least one row; data has {count} sequences of length 0.")
    lengths = _split(data)[1]
    if lengths is None:
        return
    if lengths.shape != (count,) or lengths.dtype.kind != "i":
        raise DataError(
            f"data[{LENGTHS!r}] must be one integer for each of {count} sequences; got {lengths.dtype} of shape {lengths.shape}."
        )
    bad = (lengths < 1) | (lengths > longest)
    if bad.any():
        raise DataError(
            f"data[{LENGTHS!r}] must lie between 1 and {longest}, the length of the arrays; sequence {bad.argmax()} has "
            f"{lengths[bad.argmax()]}. Leave out sequences without rows."
        )


def _check_times(data: Any, time: str, is_one: bool) -> None:
    times = _named(data).get(time)
    if times is None or times.ndim != (1 if is_one else 2):
        raise DataError(
            f"data must have the column {time!r} of times, one for each row; got {', '.join(map(str, _named(data)))}."
        )
    rows = times[None] if is_one else times
    lengths = None if is_one else _split(data)[1]
    is_inside = (
        np.arange(1, rows.shape[1])
        < (np.full(len(rows), rows.shape[1]) if lengths is None else lengths)[:, None]
    )
    bad = ~(rows[:, 1:] > rows[:, :-1]) & is_inside
    if bad.any():
        sequence, row = np.argwhere(bad)[0]
        before, after = rows[sequence, row], rows[sequence, row + 1]
        where = f"row {row + 1}" if is_one else f"row {row + 1} of sequence {sequence}"
        what = "the same time as the row before" if before == after else f"the time {after}, after {before}"
        advice = "Keep one row for each time." if before == after else "Sort the rows by time."
        raise DataError(f"data[{time!r}] must increase from row to row; {where} has {what}. {advice}")


def undefined_step(recursion: Recursion, params: Params, data: Any) -> tuple[int, int, int] | None:
    """Where a sequence with a log predictive of NaN or +inf is first infinite or NaN.

    Where -inf comes first, the state that follows is the likely cause of the NaN. Parameters have
    draws on the leading axis.

    Returns:
        The numbers of the draw, the sequence and the row, or None.
    """
    rows, lengths = (data, None) if recursion.is_one else _split(data)
    if recursion.is_one:
        rows = jax.tree.map(lambda array: array[None], rows)
    at_draws = jax.vmap(jax.vmap(recursion.log_predictives, (None, 0)), (0, None))
    found = np.asarray(jax.jit(at_draws)(params, rows))
    bad = np.isnan(found) | (found == np.inf)
    if lengths is not None:
        bad &= np.arange(found.shape[2]) < np.asarray(lengths)[:, None]
    if not bad.any():
        return None
    first = np.where(bad.any(2), (~np.isfinite(found)).argmax(2), found.shape[2])
    draw, sequence = np.unravel_index(first.argmin(), first.shape)
    return int(draw), int(sequence), int(first[draw, sequence])


def _split(data: Any) -> tuple[Any, Any]:
    """The rows of many sequences, and their lengths, if they have any."""
    if isinstance(data, Mapping) and LENGTHS in data:
        return {name: array for name, array in data.items() if name != LENGTHS}, data[LENGTHS]
    return data, None


def _named(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return {str(name): array for name, array in data.items()}
    return {f"data[{i}]": one for i, one in enumerate(data)} if isinstance(data, tuple) else {"data": data}


def _described(tree: Any) -> str:
    """Structure, shapes and types of a state, for messages."""
    return str(jax.tree.map(lambda leaf: f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}", tree)).replace(
        "'", ""
    )
