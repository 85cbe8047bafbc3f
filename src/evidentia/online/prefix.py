"""The past of a sequence: all of its rows, filtered anew wherever particles move.

The log-likelihood of a sequence is a sum over segments, each given the rows before it,

    log p(y_1, …, y_m | θ) = log p(y_1, …, y_n | θ) + log p(y_{n+1}, …, y_m | y_1, …, y_n, θ),

so the rows so far and a chunk of new ones are two units, independent given the parameters like
any others. The states of the recursion are not kept from one chunk to the next: at parameters that
have moved they would be wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.data.arrays import are_columns, check_alike, num_rows, with_rows
from evidentia.errors import ConfigurationError
from evidentia.evidence.population.particles import Population
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.model.program import Params
from evidentia.model.recursion import Recursion
from evidentia.posterior.rows import Window
from evidentia.system.compilation import jitted

SMALLEST, GROWTH = 256, 4  # rows of the arrays, which grow by this factor: each size is compiled


@dataclass(frozen=True)
class Segments:
    """The log-likelihood of segments of a sequence, each given the rows before it.

    A segment is the whole sequence, and the numbers of the rows where it starts and stops.
    """

    recursion: Recursion

    def __call__(self, params: Params, segments: Any) -> Float[Array, " segments"]:
        """The log-likelihood of each segment, in nats."""
        rows, start, stop = segments
        return jax.vmap(lambda *one: self._of_one(params, *one))(rows, start, stop)

    def _of_one(self, params, rows, start, stop):
        found = self.recursion.log_predictives(params, rows)
        number = jnp.arange(len(found))
        return jnp.sum(jnp.where((number >= start) & (number < stop), found, 0.0))


def of_segments(model: Model) -> Model:
    """The model of segments of a sequence; the model itself if its rows are independent."""
    recursion = model.log_likelihood
    if not isinstance(recursion, Recursion) or not recursion.is_one:
        return model
    return replace(model, log_likelihood=Segments(recursion), pointwise=True, check_data=None)


class Prefix(NamedTuple):
    """The rows of a sequence so far, at the beginning of `arrays`; at most `most`."""

    arrays: Any
    num_observations: int
    most: int

    standard_error = 0.0  # of the log-likelihood: no row is left out

    @property
    def capacity(self) -> int:
        """The number of rows that can be kept."""
        return self.most

    @property
    def example(self) -> Any:
        """Rows like those of a batch."""
        return self.arrays

    @property
    def binding_rows(self) -> Any:
        """Segments to which a model can be bound again."""
        return _segments(self.arrays, self.num_observations, self.num_observations)

    @property
    def is_consistent(self) -> bool:
        """Whether its parts fit together, as those of a checkpoint that is not damaged."""
        leaves = jax.tree.leaves(self.arrays)
        length = len(leaves[0]) if leaves and isinstance(leaves[0], np.ndarray) and leaves[0].ndim else 0
        is_held = self.num_observations <= min(length, self.most)
        return is_held and are_columns(leaves, np.ndarray, length)

    @property
    def window(self) -> Window:
        """All rows as one segment."""
        return self.windows(self.num_observations)[0]

    def arriving(self, batch: Any) -> "ArrivingRows":
        """This past with a batch that follows."""
        return ArrivingRows(self, batch)

    def check(self, check: Callable[[Any], None] | None, batch: Any) -> None:
        """Check a batch together with the rows before it. Raises DataError."""
        check_alike(batch, self.arrays, "batch")
        if check is not None:
            check(jax.tree.map(lambda old, new: np.concatenate([old, new]), self._rows(), batch))

    def with_rows(self, chunk: Any) -> "Prefix":
        """The prefix with a chunk written behind it, which is not yet a part of it.

        Raises ConfigurationError if it is too long.
        """
        first, count = self.num_observations, self.num_observations + num_rows(chunk)
        if count > self.most:
            raise ConfigurationError(
                f"the rows of a sequence depend on all before, so Online keeps all of them, at most reservoir_size={self.most:,}; "
                f"got {count:,}. Give a larger reservoir_size, or cut the sequence and use many_sequences=True."
            )
        size = SMALLEST
        while size < count:
            size *= GROWTH

        def written(old, new):
            grown = np.array(with_rows(old[: max(1, first)], size))
            grown[first:count] = new
            grown[count:] = new[-1:]  # padding is valid for the model
            return grown

        return self._replace(arrays=jax.tree.map(written, self.arrays, chunk))

    def log_predictives(
        self, model: BoundModel, positions: Any, log_weights: np.ndarray, batch: Any
    ) -> Float[np.ndarray, " rows"]:
        """log p(y_t | all rows before) of each row of a batch, under weighted particles."""
        staged, first = self.with_rows(batch), self.num_observations
        found = np.asarray(_log_predictives(model, positions, staged.arrays), np.float64)
        found = found[:, first : first + num_rows(batch)]
        log_shares = weights.normalise(log_weights)
        joint = np.logaddexp.reduce(np.cumsum(found, axis=1) + log_shares[:, None], axis=0)
        return np.diff(joint, prepend=0.0)

    def windows(self, stop: int) -> tuple[Window, Window]:
        """The prefix, and the rows behind it up to `stop`, in the same arrays, one unit each."""
        count = self.num_observations
        arrays = jax.tree.map(jnp.asarray, _segments(self.arrays, count, stop))
        counts = (count, stop - count)
        chunk = Window(arrays, 1, 2, first_row=count, counts=counts)
        return Window(arrays, int(count == 0), 1, counts=counts), chunk

    def _rows(self) -> Any:
        return jax.tree.map(lambda array: array[: self.num_observations], self.arrays)


class ArrivingRows(NamedTuple):
    """The past of a sequence, and a partly processed batch (`chunks.Past`)."""

    past: Prefix
    batch: Any
    num_taken: int = 0
    staged: Window | None = None  # all rows processed, in the arrays of the staged chunk

    standard_error = 0.0

    @property
    def window(self) -> Window:
        """All rows processed."""
        return self.past.window if self.staged is None else self.staged

    def stage(self, stop: int) -> tuple["ArrivingRows", Window]:
        """Stage the next rows of the batch, up to `stop`."""
        size = stop - self.past.num_observations
        chunk = jax.tree.map(lambda leaf: leaf[self.num_taken : self.num_taken + size], self.batch)
        past = self.past.with_rows(chunk)
        before, staged = past.windows(stop)
        return self._replace(past=past, staged=before), staged

    def absorb(self, model: BoundModel, chunk: Window, population: Population) -> "ArrivingRows":
        """The past including the staged chunk."""
        size = chunk.num_observations
        past = self.past._replace(num_observations=self.past.num_observations + size)
        return ArrivingRows(past, self.batch, self.num_taken + size)

    def recentred(self, model: BoundModel, population: Population) -> "ArrivingRows":
        """The past itself."""
        return self


def begun(model: Model, batch: Any, most: int) -> tuple[BoundModel, Prefix]:
    """A model bound to segments of the first batch, and the prefix before it.

    Raises ModelError, ConfigurationError: a model, or a batch that is too long, cannot be used.
    """
    past = Prefix(jax.tree.map(lambda array: with_rows(array[:1], SMALLEST), batch), 0, most)
    return model.bind(_segments(past.with_rows(batch).arrays, 0, num_rows(batch))), past


def _segments(arrays: Any, count: int, stop: int) -> Any:
    """Two segments of a sequence: up to `count`, and from there up to `stop`."""
    twice = jax.tree.map(lambda array: np.stack([array, array]), arrays)
    return twice, np.array([0, count], np.int32), np.array([count, stop], np.int32)


@jitted(static_argnames="model")
def _log_predictives(model, positions, rows):
    recursion = model.densities.pointwise.recursion
    return jax.vmap(lambda one: recursion.log_predictives(model.place(one)[0], rows))(positions)
