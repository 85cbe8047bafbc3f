"""How long a call may run, and how it goes on after it was stopped or killed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import count
from os import PathLike
from typing import Any

from evidentia.checkpoint.steps import Steps
from evidentia.errors import ConfigurationError, EstimationError, check_positive
from evidentia.model.outside import OutsideLikelihood
from evidentia.model.outside.run import remembering
from evidentia.system.interruption import TimeOver, limited_to
from evidentia.system.storage import local_path

Folder = str | PathLike[str] | None


@contextmanager
def limited(max_seconds: float | None, checkpoint: Folder = None) -> Iterator[None]:
    """A call that may run for so long, and that a folder keeps, or not.

    Raises:
        ConfigurationError: the seconds are not a positive number.
        EstimationError: they were over before there was a result.
    """
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    try:
        with limited_to(max_seconds):
            yield
    except TimeOver as stop:
        if max_seconds is None:  # a run within a call that is limited
            raise
        text = str(stop) if " before " in str(stop) else f"{stop} before the run began."
        more = "A call with checkpoint=folder can be continued later."
        if checkpoint is not None:
            more = "The same call goes on from here: checkpoint keeps what was computed."
        raise EstimationError(f"{text} {more}") from None


@contextmanager
def going_on(log_likelihood: Any, checkpoint: Folder, call: Mapping[str, Any]) -> Iterator[Callable[[], Any]]:
    """What a run keeps in a folder, and a context for each of its steps.

    Raises:
        ConfigurationError: `checkpoint` is not a local folder.
        CheckpointError: the folder cannot be used, or is that of another call.
    """
    if isinstance(log_likelihood, OutsideLikelihood):
        with remembering(log_likelihood, checkpoint):
            yield nullcontext
    elif checkpoint is None:
        yield nullcontext
    else:
        with Steps(local_path("checkpoint", checkpoint), call) as steps:
            yield steps.recorded


def in_folders(run: Callable[..., Any], checkpoint: Folder) -> Callable[..., Any]:
    """A function for runs of one call, which keep what they compute in folders of their own."""
    if checkpoint is None:
        return run
    folder, numbers = local_path("checkpoint", checkpoint), count(1)

    def in_next(*args: Any, **kwargs: Any) -> Any:
        return run(*args, checkpoint=folder / f"run-{next(numbers)}", **kwargs)

    return in_next


def check_no_checkpoint(checkpoint: Folder) -> None:
    """Raise ConfigurationError for a checkpoint of rows that are elsewhere."""
    if checkpoint is not None:
        raise ConfigurationError(
            "checkpoint is for rows in the memory of this process, and for sources; for rows on many devices or on a cluster "
            "there is none. Leave checkpoint out."
        )
