"""What a run needs of a log-likelihood outside JAX: evaluations kept, exceptions raised."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

from evidentia.errors import ConfigurationError, DataError
from evidentia.model.outside.likelihood import OutsideLikelihood
from evidentia.system.storage import local_path


def check_arguments(log_likelihood: Any, name: str, data: Any, *for_rows: Any) -> None:
    """Raise an error if a log-likelihood outside JAX, which holds its data, is given any.

    `for_rows` are arguments that say where rows are.
    """
    if not isinstance(log_likelihood, OutsideLikelihood):
        return
    if data is not None:
        raise DataError(f"data must be left out: the log-likelihood of {name!r} holds its own.")
    if any(one is not None for one in for_rows):
        raise ConfigurationError(
            f"executor and sharding are for rows; the log-likelihood of {name!r} holds its own data. Give the executor to "
            "Model.from_callable."
        )


@contextmanager
def remembering(log_likelihood: OutsideLikelihood, checkpoint: str | PathLike[str] | None) -> Iterator[None]:
    """Remember evaluations outside JAX, and raise what the function raised.

    Raises:
        ConfigurationError: `checkpoint` is not a local folder.
        CheckpointError: the folder cannot be used.
    """
    evaluations = log_likelihood.evaluations
    folder = None if checkpoint is None else local_path("checkpoint", checkpoint)
    with evaluations.run(folder):
        try:
            yield
        finally:
            if evaluations.failure is not None:
                raise evaluations.failure from None
