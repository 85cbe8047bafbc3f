"""The interface of `Online` that change detection and averaging use; exact models have it too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from jaxtyping import Float
from numpy import ndarray


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


class OnlineLike(Protocol):
    """The part of `evidentia.Online` used here; any object that has it, such as an exact model.

    An object may also have `state` and `restore(state)`, as `Online` has. Then it is as before a
    batch that failed or was interrupted; without them it may have processed that batch.
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
    def posterior(self) -> dict[str, ndarray]:
        """Arrays (particles, ...) by parameter name."""
        ...

    @property
    def log_weights(self) -> Float[ndarray, " particles"]:
        """Normalised log weights of the particles."""
        ...


@contextmanager
def all_or_none(models: Iterable[OnlineLike]) -> Iterator[None]:
    """Restore all models if a batch fails or is interrupted in one of them.

    Models without `state` and `restore`, unlike `Online`, are left as they are.
    """
    before = [(model, model.state) for model in models if hasattr(model, "restore")]  # type: ignore[attr-defined]
    try:
        yield
    except BaseException:
        for model, state in before:
            model.restore(state)  # type: ignore[attr-defined]
        raise
