"""The loop of `evidentia stream`: batches, checkpoints, and a safe end."""

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from evidentia.checkpoint.folder import CheckpointFolder
from evidentia.checkpoint.journal import Ends, Journal
from evidentia.checkpoint.packing import as_damaged, check_fields
from evidentia.cli import output
from evidentia.cli.columns import listed
from evidentia.cli.stream.files import AnySource, KnownFile, acknowledge, with_additions, with_place
from evidentia.cli.stream.session import Session
from evidentia.cli.stream.view import View
from evidentia.data.arrivals import arriving
from evidentia.data.batches import Batch, recut
from evidentia.data.sources import Source
from evidentia.errors import CheckpointError, DataError, EvidentiaError, HalfLineError, UnfinishedError
from evidentia.system.interruption import Interrupted, listening

PATIENCE = 2.0  # seconds after which a stop does not wait for the end of the batch


class Stop:
    """Request to stop after the current batch, made by a signal; a second signal stops at once.

    A batch that takes longer than `PATIENCE` is broken off between two steps and not counted.
    """

    signal: int | None = None
    is_over: bool = False
    _since: float = math.inf

    def ends_reading(self) -> bool:
        """Whether to stop waiting for rows."""
        return self.is_over or self()

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal is not None

    def is_urgent(self) -> bool:
        """Whether to stop without waiting for the end of the batch."""
        return time.monotonic() - self._since > PATIENCE

    def handle(self, number: int, _frame: object) -> None:
        """Handle a signal."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal, self._since = number, time.monotonic()


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn SIGTERM and Ctrl-C into a request to stop."""
    stop = Stop()
    numbers = signal.SIGTERM, signal.SIGINT
    if threading.current_thread() is not threading.main_thread():  # other threads cannot set handlers
        numbers = ()
    before = {number: signal.signal(number, stop.handle) for number in numbers}
    try:
        yield stop
    finally:
        stop.is_over = True
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Checkpoints:
    """Saves a session and the length of its journal together, at intervals.

    The first batch is saved at once: a journal can be continued only if a checkpoint knows it. A
    line that has no line end yet may be half written: the row in it is never saved, so that the
    next run reads the line again.

    Attributes:
        folder: checkpoint folder, or None.
        every: seconds between checkpoints; 0 saves after each batch.
        session: the session.
        journal: the journal of updates, or None.
        ends: of the journals of earlier runs, for later runs with a journal.
        settings: settings of the run, which `check_settings` compares on resuming.
        source: the source of `files`; a broker is told what is saved, without a folder what is
            processed.
        files: records of the source's files, which `check_files` compares on resuming.
    """

    folder: CheckpointFolder | None
    every: float
    session: Session
    journal: Journal | None
    ends: Ends
    settings: Mapping[str, Any]
    source: AnySource
    files: list[KnownFile]
    _tried: float = -math.inf
    _is_failing: bool = False
    _has_ended: bool = False
    _failure: CheckpointError | None = None  # of the save that ended

    def __post_init__(self) -> None:
        self._saved = self._state()

    def save_if_due(self) -> None:
        """Save if a checkpoint is due and anything has changed; a failure is only a note."""
        is_new = self._state() != self._saved and not self._has_ended
        if self.folder is None and is_new:
            self._saved = self._state()
            acknowledge(self.files, self.source)
        if self.folder is None or not is_new or time.monotonic() - self._tried < self.every:
            return
        error = self.save()
        if error is not None and not self._is_failing:
            output.show_note(f"{error} The run continues and will retry.")
        self._is_failing = error is not None
        self._tried = time.monotonic()

    def save(self) -> CheckpointError | None:
        """Save if anything has changed; return the error instead of raising it."""
        if self._has_ended or self._state() == self._saved:
            return self._failure
        try:
            ends = self.ends if self.journal is None else self.journal.commit()
            if self.folder is not None:
                self.files = with_additions(self.files, self.source)
                content = {
                    "session": self.session.packed(),
                    "settings": dict(self.settings),
                    "files": self.files,
                    "journals": dict(ends),
                }
                rows = self.session.num_observations
                self.folder.write(content, {"num_observations": rows, "models": list(self.session.onlines)})
        except CheckpointError as error:
            return error
        self._saved = self._state()
        acknowledge(self.files, self.source)
        return None

    def _state(self) -> tuple[int, list[KnownFile]]:
        """What a checkpoint would be of; of a broker, messages without rows count too."""
        self.files = with_place(self.files, self.source, self.session.position)
        return self.session.position, self.files

    def end_before_half_line(self) -> None:
        """Save for the last time, before the row of a line that has no line end."""
        if self.folder is not None:
            self._failure = self.save()
            self._has_ended = True
            output.show_note(
                "The last line has no line end. Its row counts in this result, but is not in the checkpoint: the next "
                "run reads the line again."
            )


def consume(
    session: Session,
    source: Source,
    batch_size: int,
    stop: Stop,
    checkpoints: Checkpoints,
    view: View,
    *,
    is_endless: bool = False,
) -> tuple[bool, EvidentiaError | None]:
    """Process the source from the session's position.

    Returns:
        Whether the source ended, or one that never does was stopped with no row left, and the
        error that stopped it or the final checkpoint, or None.

    Raises:
        Exception: anything but an `EvidentiaError`, after saving the batches processed so far.
    """
    completed, problem = False, None
    try:
        completed = _consume_batches(session, source, batch_size, stop, checkpoints, view, is_endless)
    except (UnfinishedError, HalfLineError) as error:
        output.show_note(str(error))
    except EvidentiaError as error:
        problem = error
    except Exception:
        # Not after a second Ctrl-C: the journal may lack the batch, and the user should not wait.
        if (failure := checkpoints.save()) is not None:
            output.show_note(str(failure))
        raise
    failure = checkpoints.save()
    if failure is not None and problem is not None:
        output.show_note(str(failure))
    return completed, problem or failure


def _consume_batches(
    session: Session,
    source: Source,
    batch_size: int,
    stop: Stop,
    checkpoints: Checkpoints,
    view: View,
    is_endless: bool,
) -> bool:
    """Process batches until the source ends or a stop; return whether no row is left."""
    with closing(arriving(recut(source.batches(session.position), batch_size))) as batches:
        for batch in _until(stop, batches):
            if stop():
                if batch is None and is_endless:
                    continue  # a stop ends the source, after what it holds
                return False
            view.is_waiting = batch is None
            for part in [] if batch is None else batch.whole_lines_first():
                if part.may_grow:
                    checkpoints.end_before_half_line()
                try:
                    with listening(stop.is_urgent):
                        update = session.update(part)
                except Interrupted:
                    return False
                if update is not None:
                    if checkpoints.journal is not None:
                        checkpoints.journal.append(update.to_dict())
                    view.show(update)
            checkpoints.save_if_due()
    return is_endless or not stop()


def _until(stop: Stop, batches: Iterator[Batch | None]) -> Iterator[Batch | None]:
    """Yield batches; after a stop, a read error (as inside an Arrow message) is just the end."""
    try:
        yield from batches
    except DataError:
        if not stop():
            raise


class Content(NamedTuple):
    """The content of a checkpoint; `session` is a packed `Session`."""

    session: dict[str, Any]
    settings: dict[str, Any]
    files: list[Any]
    journals: dict[str, tuple[int, str]]


def check_settings(content: Any, settings: Mapping[str, Any], folder: CheckpointFolder) -> None:
    """Raise CheckpointError unless a checkpoint is from this command with the same settings."""
    if not isinstance(content, dict) or not {"session", "settings", "files", "journals"} <= set(content):
        raise CheckpointError(
            f"{folder.path} holds a checkpoint that evidentia stream did not write. Give another folder."
        )
    with as_damaged():
        checked = Content(**content)
        check_fields(checked)
        if not all(isinstance(file, KnownFile) for file in checked.files):
            raise TypeError("its files are not known")
        differing = [
            f"{name} {_shown(checked.settings.get(name))} (now {_shown(value)})"
            for name, value in settings.items()
            if checked.settings.get(name) != value
        ]
    if differing:
        raise CheckpointError(
            f"the checkpoint in {folder.path} is of a run with {', '.join(differing)}. Give the same settings, or another "
            "folder for --checkpoint."
        )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return listed(value, 5)
    return "not given" if value is None else str(value)
