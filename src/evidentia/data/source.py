"""What a source of observations is."""

from collections.abc import Iterator
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from evidentia.data.batches import Batch
from evidentia.errors import ConfigurationError, DataError

Missing = Literal["error", "drop"]


@runtime_checkable
class Source(Protocol):
    """Observations in an order that is the same at every reading; holds none of them (but
    in-memory arrays).
    """

    @property
    def num_rows(self) -> int | None:
        """The rows to read, those with missing values included; None where only reading them all
        would tell.
        """
        ...

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """The observations after the first `skip` rows, in batches of any size.

        Args:
            skip: rows to pass over, counted as they are read: with those that have missing values.

        Raises:
            DataError: what is wrong with which rows, or there are fewer than `skip`. The batches
                before stand.
        """
        ...


def check_missing(missing: Any) -> None:
    """Raise ConfigurationError unless `missing` is a word that says what to do with missing
    values.
    """
    if missing not in get_args(Missing):
        raise ConfigurationError(f"missing must be 'error' or 'drop'; got {missing!r}.")


def too_short(skip: int, num_rows: int) -> DataError:
    """The error of a source that has fewer rows than are to be passed over."""
    return DataError(
        f"the data end after {num_rows:,} rows, but the first {skip:,} were to be passed over. Are these the data of "
        "the run that goes on?"
    )
