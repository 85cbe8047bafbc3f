"""The loop of `evidentia stream`: batches to models, checkpoints now and then, an end that loses
nothing.
"""

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from evidentia.checkpoint.folder import CheckpointFolder
from evidentia.checkpoint.journal import Journal
from evidentia.cli import output
from evidentia.cli.stream.files import FileSource, KnownFile, listed, with_additions
from evidentia.cli.stream.session import Session
from evidentia.cli.stream.view import View
from evidentia.data.arrivals import arriving
from evidentia.data.batches import Batch, recut
from evidentia.data.sources import Source
from evidentia.errors import CheckpointError, DataError, EvidentiaError


class Stop:
    """Whether to stop after the batch at work, and which signal said so. A second Ctrl-C does not
    wait for the batch.
    """

    signal: int | None = None
    is_over: bool = False

    def ends_reading(self) -> bool:
        """Whether what waits for rows is to give up."""
        return self.is_over or self()

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal is not None

    def handle(self, number: int, _frame: object) -> None:
        """Take a signal."""
        if number == signal.SIGINT and self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """SIGTERM and Ctrl-C ask for an end, instead of making one."""
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
    """When and how a session is saved: what was read and what was written belong to one moment.

    Attributes:
        folder: where to; None for nowhere.
        every: seconds between two; 0 for one after each batch.
        journal: the lines of updates; None if none are written.
        lengths: of the journals of the runs before, for the next run that writes one.
        settings: of the run, which `check_settings` compares when it goes on.
        source: of which `files` are the files, as `check_files` compares them.
    """

    folder: CheckpointFolder | None
    every: float
    session: Session
    journal: Journal | None
    lengths: Mapping[str, int]
    settings: Mapping[str, Any]
    source: FileSource
    files: list[KnownFile]
    _tried: float = field(default_factory=time.monotonic)
    _is_failing: bool = False

    def __post_init__(self):
        self._position = self.session.position

    def save_if_due(self) -> None:
        """Save if it is time to, and anything has changed. A disk that is full is a note: the run
        goes on without.
        """
        if self.folder is None or time.monotonic() - self._tried < self.every:
            return
        try:
            self.save()
            self._is_failing = False
        except CheckpointError as error:
            if not self._is_failing:
                output.show_note(f"{error} The run goes on, and tries again.")
            self._is_failing = True
        self._tried = time.monotonic()

    def save(self) -> None:
        """Save if anything has changed. Raises CheckpointError."""
        if self._position == self.session.position:
            return
        lengths = self.lengths if self.journal is None else self.journal.commit()
        if self.folder is not None:
            self.files = with_additions(self.files, self.source)
            content = {
                "session": self.session.packed(),
                "settings": dict(self.settings),
                "files": self.files,
                "journals": dict(lengths),
            }
            words = {"num_observations": self.session.num_observations, "models": list(self.session.onlines)}
            self.folder.write(content, words)
        self._position = self.session.position

    def save_at_end(self) -> CheckpointError | None:
        """The same, for one who has perhaps another error to tell of: the error is returned."""
        try:
            self.save()
        except CheckpointError as error:
            return error
        return None


def consume(
    session: Session, source: Source, batch_size: int, stop: Stop, checkpoints: Checkpoints, view: View
) -> tuple[bool, EvidentiaError | None]:
    """Take in the source from the session's position on.

    Returns:
        Whether it came to its end, and the error that ended it before, or the one of the last
        checkpoint.

    Raises:
        Exception: what is no `EvidentiaError`; what was taken in before is saved.
    """
    completed, problem = False, None
    try:
        completed = _consume_batches(session, source, batch_size, stop, checkpoints, view)
    except EvidentiaError as error:
        problem = error
    except Exception:
        # Not for a second Ctrl-C: what it came in the middle of may be half done, and nobody is to
        # wait.
        if (failure := checkpoints.save_at_end()) is not None:
            output.show_note(str(failure))
        raise
    failure = checkpoints.save_at_end()
    if failure is not None and problem is not None:
        output.show_note(str(failure))
    return completed, problem or failure


def _consume_batches(
    session: Session, source: Source, batch_size: int, stop: Stop, checkpoints: Checkpoints, view: View
) -> bool:
    """Take in what comes until there is no more, or until it is to stop; whether it came to the
    end of the source.
    """
    with closing(arriving(recut(source.batches(session.position), batch_size))) as batches:
        for batch in _until(stop, batches):
            if stop():
                return False
            if batch is None:
                view.wait()
                checkpoints.save_if_due()
                continue
            view.begin()
            if (update := session.update(batch)) is not None:
                if checkpoints.journal is not None:
                    checkpoints.journal.append(update.to_dict())
                view.show(update)
            checkpoints.save_if_due()
    return not stop()  # which ends a source that is followed


def _until(stop: Stop, batches: Iterator[Batch | None]) -> Iterator[Batch | None]:
    """The batches; after a signal, an error of reading is the end that stopping made, as within an
    Arrow message.
    """
    try:
        yield from batches
    except DataError:
        if not stop():
            raise


def check_settings(content: Any, settings: Mapping[str, Any], folder: CheckpointFolder) -> None:
    """Raise CheckpointError unless a checkpoint is one of this command with the same settings."""
    if not isinstance(content, dict) or not {"session", "settings", "files", "journals"} <= set(content):
        raise CheckpointError(
            f"{folder.path} holds a checkpoint that evidentia stream did not write. Give another folder."
        )
    differing = [
        f"{name} {_shown(content['settings'].get(name))} (now {_shown(value)})"
        for name, value in settings.items()
        if content["settings"].get(name) != value
    ]
    if differing:
        raise CheckpointError(
            f"the checkpoint in {folder.path} is of a run with {', '.join(differing)}. Give the same, or another folder for "
            "--checkpoint."
        )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return listed(value)
    return "not given" if value is None else str(value)
