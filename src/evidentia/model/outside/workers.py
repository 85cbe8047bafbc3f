"""A function at the workers of an executor, which get it once and keep it."""

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from importlib import import_module
from uuid import uuid4

import numpy as np
from jaxtyping import Float

from evidentia.errors import ConfigurationError, EstimationError, EvidentiaError
from evidentia.model.outside.function import Function, Points

MOST_TASKS = 64  # in which points are sent
_known: dict[str, Function] = {}  # at a worker, by token


def evaluate_here(token: str, pickled: bytes | None, points: Points) -> Float[np.ndarray, " points"] | None:
    """At a worker: values at points; None if the function is neither known nor sent along."""
    if pickled is not None:
        _known[token] = pickle.loads(pickled)
    return _known[token].values(points) if token in _known else None


class Workers:
    """Evaluates a function at the workers of an executor.

    The function, with all the data that it holds, is sent only to a worker that lacks it.

    Raises:
        ConfigurationError: `executor` is none, or its workers cannot be given the function.
    """

    def __init__(self, executor: Executor, function: Function):
        if not callable(getattr(executor, "submit", None)):
            raise ConfigurationError(
                f"executor must have the method submit of concurrent.futures.Executor; got {executor!r}."
            )
        self._executor, self._token = executor, uuid4().hex
        self._is_here = isinstance(executor, ThreadPoolExecutor)
        if self._is_here:
            _known[self._token] = function
        self._pickled = b"" if self._is_here else _pickled(function)

    def values(self, points: Points) -> Float[np.ndarray, " points"]:
        """The values of the function at points. Raises as `Function.values`."""
        parts = np.array_split(points, min(MOST_TASKS, len(points)))
        first = self._gathered([self._submit(None, part) for part in parts])
        missing = [index for index, values in enumerate(first) if values is None]
        again = self._gathered([self._submit(self._pickled, parts[index]) for index in missing])
        for index, values in zip(missing, again, strict=True):
            first[index] = values
        return np.concatenate([values for values in first if values is not None])

    def _submit(self, pickled: bytes | None, part: Points) -> Future:
        return self._executor.submit(evaluate_here, self._token, pickled, part)

    def _gathered(self, futures: list[Future]) -> list[Float[np.ndarray, " points"] | None]:
        try:
            return [future.result() for future in futures]
        except EvidentiaError:
            raise
        except Exception as error:
            raise EstimationError(
                f"a worker of the executor failed: {type(error).__name__}: {error}. With a checkpoint folder, the "
                "evaluations so far are kept."
            ) from error
        finally:
            for future in futures:
                future.cancel()


def _pickled(function: Function) -> bytes:
    problem: Exception | None = None
    for name in ("pickle", "cloudpickle"):
        try:
            dumps: Callable[[Function], bytes] = import_module(name).dumps
            return dumps(function)
        except Exception as error:  # of any kind, as objects pickle themselves
            problem = problem or error
    named = ", ".join(
        repr(each) for each in (function.log_likelihood, function.prior_transform) if each is not None
    )
    raise ConfigurationError(
        f"executor's workers cannot be given {named}: {problem}. Define it at the top of a module, install cloudpickle, or "
        "use a ThreadPoolExecutor."
    ) from problem
