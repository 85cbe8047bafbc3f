"""Evaluations of a function at points: each point once, counted, and recorded if asked for."""

import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context, copy_context
from pathlib import Path

import numpy as np
from jaxtyping import Float

from evidentia.errors import CheckpointError, ConfigurationError
from evidentia.model.outside.function import Function, Points
from evidentia.model.outside.record import Record
from evidentia.model.outside.workers import Workers
from evidentia.system.interruption import check
from evidentia.system.sharing import OneAtATime

AGREEMENT = 1e-6  # of a recorded value with the same one computed again, relative
NUM_REPEATED = 16  # points that are evaluated again after a run
AT_ONCE = 16  # points between two looks at whether to stop, and two entries of the record
LARGEST_DIFFERENCE = 0.1  # nats, between two values at a point; rounding and threads make less


class Evaluations:
    """Values of a function at points, remembered during a run.

    Attributes:
        function: what is evaluated.
        names: of the coordinates of a point.
        num_evaluations: points evaluated since the run began, without those remembered.
        failure: the exception that ended the run, if one did.
        difference: largest between two values at a point, in nats (`check_repeats`); zero before.
    """

    def __init__(self, function: Function, names: tuple[str, ...], executor: Executor | None):
        self.function = function
        self.num_evaluations: int = 0
        self.failure: BaseException | None = None
        self.difference: float = 0.0
        self.names = names
        self._runs = OneAtATime()
        self._running_in: int | None = None  # the thread of the run
        self._values: dict[bytes, float] = {}
        self._record: Record | None = None
        self._context = Context()  # of the run's thread: JAX calls the function in others
        self._workers = None if executor is None else Workers(executor, function)

    @contextmanager
    def run(self, checkpoint: Path | None) -> Iterator[None]:
        """A run, which begins with what its folder of a checkpoint holds, if it has one.

        One run at a time: other threads wait.

        Raises:
            CheckpointError: the folder cannot be used, or holds values of another function.
            ConfigurationError: a run of this thread goes on.
        """
        if self._running_in == threading.get_ident():
            raise ConfigurationError(
                "model is being estimated in this thread already, and its log-likelihood serves one run at a time. Make "
                "another model."
            )
        with self._runs:
            self._running_in = threading.get_ident()
            try:
                with self._run(checkpoint):
                    yield
            finally:
                self._running_in = None

    @contextmanager
    def _run(self, checkpoint: Path | None) -> Iterator[None]:
        self._values, self.num_evaluations, self.failure, self.difference = {}, 0, None, 0.0
        self._context = copy_context()
        try:
            with self._recorded(checkpoint):
                yield
        finally:
            self._context = Context()

    @contextmanager
    def _recorded(self, checkpoint: Path | None) -> Iterator[None]:
        if checkpoint is None:
            yield
            return
        self._record = Record(checkpoint, self.names)
        try:
            points, values = self._record.read()
            if len(points):
                self._check(checkpoint, points[-1:], values[-1])
            self._values = {
                point.tobytes(): float(value) for point, value in zip(points, values, strict=True)
            }
            yield
        finally:
            self._record.close()
            self._record = None

    def at(self, points: Points) -> Float[np.ndarray, " points"]:
        """The values at points; new ones are evaluated, each once."""
        keys = [point.tobytes() for point in points]
        new = {key: index for index, key in reversed(list(enumerate(keys))) if key not in self._values}
        chosen = points[sorted(new.values())]
        is_together = self.function.vectorized or self._workers is not None
        size = len(chosen) if is_together else AT_ONCE
        for start in range(0, len(chosen), max(1, size)):
            self._context.run(check)
            self._evaluate(chosen[start : start + size])
        return np.array([self._values[key] for key in keys])

    def raise_stop(self) -> None:
        """Raise a KeyboardInterrupt that ended the evaluations; there can be more after it."""
        if isinstance(stop := self.failure, KeyboardInterrupt):
            self.failure = None
            raise stop

    def _evaluate(self, points: Points) -> None:
        found = (self._workers or self.function).values(points)
        if self._record is not None:
            self._record.append(points, found)
        self.num_evaluations += len(points)
        self._values.update(
            (point.tobytes(), float(value)) for point, value in zip(points, found, strict=True)
        )

    def check_repeats(self) -> None:
        """Evaluate some points again, the most likely one and others down to the least likely.

        Each point is remembered, so a run cannot show that a function is random.
        """
        possible = [point for point, value in self._values.items() if value > -np.inf]
        if not possible or not self.num_evaluations:  # a completed run, read from its checkpoint
            return
        possible.sort(key=lambda point: -self._values[point])
        ranks = np.unique(np.geomspace(1, len(possible), NUM_REPEATED).round().astype(int)) - 1
        points = np.stack([np.frombuffer(possible[rank]) for rank in ranks])
        known = np.array([self._values[possible[rank]] for rank in ranks])
        values = (self._workers or self.function).values(points)
        self.num_evaluations += len(points)
        self.difference = float(np.max(np.abs(values - known)))

    @property
    def signs(self) -> dict[str, str]:
        """Signs of trouble in the values: sentences with advice, by short name."""
        if not self.difference > LARGEST_DIFFERENCE:
            return {}
        sentence = (
            f"the log-likelihood is random: at the same point it returned values up to {self.difference:.2g} nats apart. The log "
            "evidence is that of a function with this noise, and too high where noise is mistaken for a better fit. Draw "
            "random numbers once, outside the function, or from a generator with a fixed seed that each call makes anew."
        )
        return {"random likelihood": sentence}

    def _check(self, checkpoint: Path, points: Points, recorded: float) -> None:
        value, again = self.function.values(np.concatenate([points, points]))
        if not np.isclose(value, again, rtol=AGREEMENT, atol=AGREEMENT):
            raise CheckpointError(
                f"checkpoint {checkpoint} cannot be continued: log_likelihood is random, {value:.6g} and then {again:.6g} at the "
                "same point, so its evaluations cannot be told from those of another. Make it depend on its argument alone."
            )
        if not np.isclose(value, recorded, rtol=AGREEMENT, atol=AGREEMENT):
            raise CheckpointError(
                f"checkpoint {checkpoint} holds evaluations of another log-likelihood: {recorded:.6g} where this one is {value:.6g}. "
                "Name another folder."
            )
