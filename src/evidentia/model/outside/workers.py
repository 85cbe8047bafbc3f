"""A function at the workers of an executor, which get it once and keep it."""

import itertools
import os
import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any
from uuid import uuid4

import numpy as np
from jaxtyping import Float

from evidentia.errors import ConfigurationError, EstimationError, EvidentiaError
from evidentia.model.outside.function import Function, Points

MOST_TASKS = 64  # in which points are sent
PATIENCE = 10  # rounds of sending the function before it goes with every part
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
        self._here = function if isinstance(executor, ThreadPoolExecutor) else None
        self._pickled = b"" if self._here else _pickled(function)

    def values(self, points: Points) -> Float[np.ndarray, " points"]:
        """The values of the function at points. Raises as `Function.values`.

        What workers that lack the function leave open is sent again, with the function for as many
        parts as there may be workers: it may be large, and one part is enough for each.
        """
        parts = dict(enumerate(np.array_split(points, min(MOST_TASKS, len(points)))))
        found: dict[int, Float[np.ndarray, " points"]] = {}
        for to_send in itertools.chain((0, *[self._most_workers] * PATIENCE), itertools.repeat(MOST_TASKS)):
            waiting = [index for index in parts if index not in found]
            if not waiting:
                break
            carried = [self._pickled if place < to_send else None for place in range(len(waiting))]
            new = self._gathered(
                [self._submit(*each) for each in zip(carried, map(parts.get, waiting), strict=True)]
            )
            found |= {index: each for index, each in zip(waiting, new, strict=True) if each is not None}
        return np.concatenate([found[index] for index in parts])

    @property
    def _most_workers(self) -> int:
        return getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1

    def _submit(self, pickled: bytes | None, part: Any) -> Future:
        if self._here is not None:
            return self._executor.submit(self._here.values, part)
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
    """A function as bytes; cloudpickle, if there is one, needs no main module at the worker."""
    problem: Exception | None = None
    for name in ("cloudpickle", "pickle"):
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
