"""The interface of `Online` that change detection and averaging use; exact models have it too."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from numpy import ndarray

from evidentia.results.weighted import Weighted


@runtime_checkable
class UpdateLike(Protocol):
    """The fields of the result of `Online.update` that are used here; log evidences in nats."""

    @property
    def num_observations(self) -> int:
        """Rows seen so far, including the batch."""
        ...

    @property
    def batch_size(self) -> int:
        """Rows of the batch."""
        ...

    @property
    def log_predictive(self) -> float:
        """log p(batch | rows before)."""
        ...

    @property
    def log_predictive_standard_error(self) -> float:
        """Standard error of `log_predictive`; NaN if unknown."""
        ...

    @property
    def log_evidence(self) -> float:
        """Log evidence of all rows seen."""
        ...

    @property
    def standard_error(self) -> float:
        """Standard error of `log_evidence`."""
        ...

    @property
    def num_annealing_steps(self) -> int:
        """Annealing steps of the batch."""
        ...


@runtime_checkable
class OnlineLike(Protocol):
    """The part of `evidentia.Online` used here; any object that has it, such as an exact model.

    An object may also have `state` and `restore(state)`, as `Online` has. Then it is as before a
    batch that failed or was interrupted; without them it may have processed that batch. If it has
    `alone`, as `Online` has, no other thread changes it during a batch.
    """

    @property
    def num_observations(self) -> int:
        """Rows seen."""
        ...

    @property
    def log_evidence(self) -> float:
        """Log evidence of all rows seen, in nats."""
        ...

    @property
    def standard_error(self) -> float:
        """Standard error of `log_evidence`, in nats."""
        ...

    def update(self, batch: Any) -> UpdateLike:
        """Update with a batch."""
        ...

    def restarted(self, seed: int) -> OnlineLike:
        """The same model and method, without rows."""
        ...

    def log_predictive(self, batch: Any) -> Float[ndarray, " rows"]:
        """log p(row | rows seen) of each row, in nats; changes nothing."""
        ...

    @property
    def weighted(self) -> Weighted:
        """The particles by parameter name, with their log weights."""
        ...


def is_online(value: Any) -> bool:
    """Whether a value is an `OnlineLike`, as far as its batches are concerned, and not a class."""
    takes_batches = callable(getattr(value, "update", None)) and hasattr(value, "num_observations")
    return takes_batches and not isinstance(value, type)


@contextmanager
def all_or_none(models: Iterable[OnlineLike]) -> Generator[None, None, None]:
    """Restore all models if a batch fails or is interrupted in one of them.

    Models without `state` and `restore`, unlike `Online`, are left as they are.
    """
    given: list[Any] = list(models)
    guards: dict[int, Any] = {id(model.alone): model.alone for model in given if hasattr(model, "alone")}
    with ExitStack() as stack:
        for _, guard in sorted(guards.items(), key=lambda item: item[0]):  # in one order for all threads
            stack.enter_context(guard)
        before = [(model, model.state) for model in given if hasattr(model, "restore")]
        try:
            yield
        except BaseException:
            for model, state in before:
                model.restore(state)
            raise
