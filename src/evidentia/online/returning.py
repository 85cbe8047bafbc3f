"""The past of a stream in which rows of old groups keep arriving.

With y_g the rows of a group so far and y'_g new ones, the latents of groups integrated out,

    log p(y' | y, θ) = Σ_g [log p(y_g, y'_g | θ) - log p(y_g | θ)],

where the sum is over the groups that have come back, or are new. So a chunk is made of the changes
of these groups, and the past of all groups: units of the likelihood like any others, which add up
to the groups as they are after the chunk. Of each group are kept the rows that tell the same as
all of its rows (`condensed`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from evidentia.data.arrays import num_rows
from evidentia.errors import ConfigurationError, DataError
from evidentia.evidence.population.particles import Population
from evidentia.model.bound import BoundModel
from evidentia.model.local import Integrated
from evidentia.model.local.moments import of_moments
from evidentia.model.model import Model
from evidentia.online.changes import Signed, changes, groups, packs, windows
from evidentia.online.condensed import Condensed, condensed
from evidentia.online.mixture import log_mixture
from evidentia.online.reservoir import NUM_BINDING_ROWS
from evidentia.posterior.rows import Window
from evidentia.posterior.units import check_labels

AT_ONCE = 1 << 14  # rows of groups in a prediction


class ReturningGroups(NamedTuple):
    """What the rows of each group tell.

    Attributes:
        rows: of all groups, in order of these; at most `most`.
        num_observations: the number of rows seen.
        most: how many rows can be kept.
        group: the column of groups.
        moments: the columns of which moments are enough.
        reasons: why they are not of other columns of real numbers.
        num_groups: how many groups the model can have.
    """

    rows: Condensed
    num_observations: int
    most: int
    group: str
    moments: tuple[str, ...]
    reasons: dict[str, str]
    num_groups: int

    standard_error = 0.0  # of the log-likelihood: nothing is left out

    @property
    def capacity(self) -> int:
        """The number of rows that can be kept."""
        return self.most

    @property
    def example(self) -> Any:
        """Rows like those of a batch."""
        return self.rows.arrays

    @property
    def binding_rows(self) -> Any:
        """Packs of groups to which a model can be bound again."""
        return {name: array[:NUM_BINDING_ROWS] for name, array in packs(self.groups).items()}

    @property
    def window(self) -> Window:
        """All groups."""
        return windows(self.groups)[0]

    @property
    def groups(self) -> Signed:
        """All groups, as units."""
        return groups(self.rows, self.rows.arrays[self.group])

    @property
    def is_consistent(self) -> bool:
        """Whether its parts fit together, as those of a checkpoint that is not damaged."""
        arrays, copies = self.rows
        labels = arrays.get(self.group, np.zeros(0))
        return (
            all(
                len(array) == len(copies) and array.dtype in (np.float32, np.int32)
                for array in arrays.values()
            )
            and 0 < len(copies) <= self.most
            and copies.dtype == np.float64
            and round(float(copies.sum())) == self.num_observations
            and labels.ndim == 1
            and 0 <= labels[0] <= labels[-1] < self.num_groups
            and bool(np.all(np.diff(labels) >= 0))
            and set(self.moments) < set(arrays)
        )

    def arriving(self, batch: Any) -> "ArrivingGroups":
        """This past with a batch that follows."""
        return ArrivingGroups(self, batch)

    def check(self, check: Callable[[Any], None] | None, batch: Any) -> None:
        """Check the rows of a batch. Raises DataError."""
        labels = check_labels(batch, self.group, "batch")
        if labels.max() >= self.num_groups:
            raise DataError(
                f"batch[{self.group!r}] has the group {labels.max()}, but the model has {self.num_groups:,}, with numbers from 0: give "
                "its latents as many values as there will ever be groups. Those without rows cost nothing."
            )
        if check is not None:
            check(batch)

    def with_rows(self, chunk: Condensed) -> tuple["ReturningGroups", Signed]:
        """This past with a chunk, and the changes of its groups.

        Raises ConfigurationError if more rows would have to be kept than can be.
        """
        labels = self.rows.arrays[self.group]
        is_back = np.isin(labels, chunk.arrays[self.group])
        old = self.rows.at(is_back)
        new = condensed(old.beside(chunk), self.group, self.moments)
        kept = self.rows.at(~is_back).beside(new)
        if len(kept.copies) > self.most:
            raise ConfigurationError(self._too_many(len(kept.copies), new))
        kept = kept.at(np.argsort(kept.arrays[self.group], kind="stable"))
        seen = self.num_observations + len(chunk.copies)
        parts = (groups(one, one.arrays[self.group]) for one in (new, old))
        return self._replace(rows=kept, num_observations=seen), changes(*parts)

    def log_predictives(
        self, model: BoundModel, positions: Any, log_weights: np.ndarray, batch: Any
    ) -> Float[np.ndarray, " rows"]:
        """log p(row | rows seen) of each row of a batch, under weighted particles."""
        labels, known = batch[self.group], self.rows.arrays[self.group]
        first, stop = np.searchsorted(known, labels), np.searchsorted(known, labels, side="right")
        found, start = [], 0
        while start < len(labels):
            ends = np.cumsum(2 * (stop - first)[start:] + 1)
            part = slice(start, start + max(1, int(np.searchsorted(ends, AT_ONCE))))
            sizes = (stop - first)[part]
            unit = np.repeat(np.arange(len(sizes)), sizes)
            old = self.rows.at(
                np.repeat(first[part], sizes) + np.arange(len(unit)) - np.searchsorted(unit, unit)
            )
            rows = _single({name: array[part] for name, array in batch.items()})
            after = groups(old.beside(rows), np.concatenate([unit, np.arange(len(sizes))]))
            units = packs(changes(after, groups(old, unit)), is_alone=True)
            found.append(log_mixture(model, positions, log_weights, units))
            start = part.stop
        return np.concatenate(found)

    def _too_many(self, count: int, new: Condensed) -> str:
        labels, sizes = np.unique(new.arrays[self.group], return_counts=True)
        largest = int(np.argmax(sizes))
        why = "; ".join(f"{name!r}: {reason}" for name, reason in self.reasons.items())
        because = f" The moments of some columns do not tell all ({why})." if why else ""
        return (
            "rows of a group are needed again when it comes back, so Online keeps what they tell, at most "
            f"reservoir_size={self.most:,} different rows of all groups; got {count:,}, {sizes[largest]:,} of them of group "
            f"{labels[largest]}.{because} Give a larger reservoir_size."
        )


class ArrivingGroups(NamedTuple):
    """The past of groups, and a partly processed batch (`chunks.Past`)."""

    past: ReturningGroups
    batch: Any
    num_taken: int = 0
    staged: tuple[Window, ReturningGroups] | None = None  # the rows processed, and those after the chunk

    standard_error = 0.0

    @property
    def window(self) -> Window:
        """All rows processed."""
        return self.past.window if self.staged is None else self.staged[0]

    def stage(self, stop: int) -> tuple["ArrivingGroups", Window]:
        """Stage the next rows of the batch, up to `stop`, as changes of groups."""
        first = self.num_taken
        size = min(stop - self.past.num_observations, num_rows(self.batch) - first)
        chunk = _single({name: array[first : first + size] for name, array in self.batch.items()})
        after, changed = self.past.with_rows(chunk)
        before, staged = windows(self.past.groups, changed)
        staged = replace(staged, first_row=self.past.num_observations)
        return self._replace(staged=(before, after)), staged

    def absorb(self, model: BoundModel, chunk: Window, population: Population) -> "ArrivingGroups":
        """The past including the staged chunk."""
        assert self.staged is not None
        return ArrivingGroups(self.staged[1], self.batch, self.num_taken + chunk.num_observations)

    def recentred(self, model: BoundModel, population: Population) -> "ArrivingGroups":
        """The past itself."""
        return self


def begun(model: Model, batch: Any, most: int) -> tuple[BoundModel, ReturningGroups]:
    """A model of groups bound to the first batch, and the past before it.

    Raises:
        DataError, ModelError: a batch or a model that cannot be used.
    """
    assert model.groups is not None
    check_labels(batch, model.groups, "batch")
    units = packs(groups(_single(batch), batch[model.groups]))
    bound = model.bind(units)
    function = bound.densities.pointwise
    assert isinstance(function, Integrated) and function.groups is not None
    moments = of_moments(bound.densities, {name: array[:1] for name, array in units.items()})
    rows = _single({name: array[:0] for name, array in batch.items()})
    past = ReturningGroups(rows, 0, most, model.groups, *moments, function.groups)
    return bound, past


def _single(arrays: dict[str, np.ndarray]) -> Condensed:
    """Rows that count once."""
    return Condensed(arrays, np.ones(num_rows(arrays)))
