"""The protocol of a source of observations."""

from collections.abc import Iterator
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from evidentia.data.batches import Batch
from evidentia.errors import ConfigurationError, DataError

Missing = Literal["error", "drop"]


@runtime_checkable
class Source(Protocol):
    """Observations in a fixed order, read in batches; not held in memory, except for arrays."""

    @property
    def num_rows(self) -> int | None:
        """Number of rows, including those with missing values; None if unknown before reading."""
        ...

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the observations after the first `skip` rows, in batches of any size.

        Args:
            skip: number of rows to skip, including rows with missing values.

        Raises:
            DataError: invalid rows, or fewer rows than `skip`. Earlier batches remain valid.
        """
        ...


def check_missing(missing: Any) -> None:
    """Raise ConfigurationError unless `missing` is "error" or "drop"."""
    if not isinstance(missing, str) or missing not in get_args(Missing):
        raise ConfigurationError(f"missing must be 'error' or 'drop'; got {missing!r}.")


def too_short(skip: int, num_rows: int) -> DataError:
    """Return the error for a source with fewer rows than `skip`."""
    return DataError(
        f"the data end after {num_rows:,} rows, but the first {skip:,} were to be skipped. Are these the data of the "
        "resumed run?"
    )
