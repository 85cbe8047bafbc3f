"""Objects that threads share, and processes that were forked."""

import os
import sys
import threading
from typing import Any

from evidentia.errors import ConfigurationError

_forked_from: list[int] = []  # the process whose JAX this one has a copy of, without its threads


class OneAtATime:
    """Context manager of an object that one thread at a time may use; the others wait.

    A copy or a pickle of the object gets a new one.
    """

    def __init__(self):
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        check_not_forked()  # a thread of the other process may hold the lock for ever
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return OneAtATime, ()


def check_not_forked() -> None:
    """Raise ConfigurationError in a process forked from one that had used JAX.

    Its copy of JAX lacks the threads that compute, so every computation would wait for ever.
    """
    if _forked_from:
        raise ConfigurationError(
            f"this process was forked from process {_forked_from[0]}, which had used JAX: without the threads of JAX no computation "
            "would end. Start processes afresh: multiprocessing.get_context('spawn'), joblib's backend 'loky', or "
            "ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))."
        )


def _note_fork() -> None:
    """In the child of a fork: note whether JAX was in use.

    JAX has no public sign of it; asking it with a lock, as its own function does, could hang here.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "_backends", True) and not _forked_from:
        _forked_from.append(os.getppid())


if hasattr(os, "register_at_fork"):  # only the child can tell, and only at once
    os.register_at_fork(after_in_child=_note_fork)
