"""Live progress of a fleet: data sets done, errors, and the time left."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@dataclass(frozen=True)
class FleetUpdate:
    """What `estimate_many` reports after each data set.

    Attributes:
        num_datasets: data sets done.
        total_datasets: all data sets; None if unknown.
        num_errors: tasks that ended in an error.
        num_estimated: tasks that `estimate` took instead of a batch.
        num_resumed: data sets whose record was in the folder.
        seconds: time since the start.
    """

    num_datasets: int
    total_datasets: int | None
    num_errors: int
    num_estimated: int
    num_resumed: int
    seconds: float


Listener = Callable[[FleetUpdate], None]


def reporter(progress: bool | Listener) -> AbstractContextManager[Listener]:
    """The listener for a `progress` argument: True for a bar, False for silence, or a function."""
    if callable(progress):
        return nullcontext(progress)
    return _bar() if progress else nullcontext(lambda update: None)


@contextmanager
def _bar() -> Generator[Listener, None, None]:
    """A bar on standard error; nothing if that is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda update: None
        return
    columns = BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.fields[words]}")
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("data sets", total=None, words="compiling ...")

        def show(update: FleetUpdate) -> None:
            words = f"{update.num_datasets / max(update.seconds, 1e-9):,.0f}/s, {update.num_errors:,} errors"
            progress.update(
                task, completed=update.num_datasets, total=update.total_datasets, words=words
            )  # fmt: skip

        yield show
