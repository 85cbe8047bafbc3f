"""What detection of changes and averaging use of `Online`: anything that has it will do, such as
an exact model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from jaxtyping import Float
from numpy import ndarray


class UpdateLike(Protocol):
    """What `Online.update` returns, as far as it is used here; log evidences in nats."""

    @property
    def num_observations(self) -> int:
        """Rows seen so far, with the batch."""
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
        """Of `log_predictive`; NaN if not known."""
        ...

    @property
    def log_evidence(self) -> float:
        """Of everything seen."""
        ...

    @property
    def standard_error(self) -> float:
        """Of `log_evidence`."""
        ...

    @property
    def num_annealing_steps(self) -> int:
        """That the batch took."""
        ...


class OnlineLike(Protocol):
    """What detection and averaging use of `evidentia.Online`: anything that has it will do, such
    as an exact model.
    """

    @property
    def num_observations(self) -> int:
        """Rows seen."""
        ...

    @property
    def log_evidence(self) -> float:
        """Of everything seen, in nats."""
        ...

    @property
    def standard_error(self) -> float:
        """Of `log_evidence`, in nats."""
        ...

    def update(self, batch: Any) -> UpdateLike:
        """Take in a batch."""
        ...

    def restarted(self, seed: int) -> OnlineLike:
        """The same model and method, with no rows."""
        ...

    def log_predictive(self, batch: Any) -> Float[ndarray, " rows"]:
        """log p(row | rows seen) of each row, in nats; takes nothing in."""
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
    """Where a batch fails on the way, or is interrupted, the models that took it in have it not.

    Of models that have no `state` to `restore`, as `Online` has, nothing is put back.
    """
    before = [(model, getattr(model, "state", None)) for model in models if hasattr(model, "restore")]
    try:
        yield
    except BaseException:
        for model, state in before:
            model.restore(state)  # type: ignore[attr-defined]
        raise
