"""The thread of one stream: messages in, checkpoints and alarms out."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evidentia.brokers.dead_letters import DeadLetters
from evidentia.brokers.message import Message, Position, Subscription
from evidentia.brokers.payloads import PayloadError, rows_of
from evidentia.brokers.place import place_of
from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.errors import CheckpointError, EvidentiaError, quietly
from evidentia.service import settings as schema
from evidentia.service.engine import Alarm, Engine
from evidentia.service.logs import log

GATHERED_SECONDS = 0.2  # after which whole batches do not wait for others
SHARE_OF_TIME = 0.1  # that checkpoints may take, where there are many keys
DEAD_LETTERS_LOGGED = 10  # for each stream; then every tenth, hundredth, ...


class Worker(threading.Thread):
    """Reads a stream, and keeps its engine and its checkpoint.

    Results do not depend on when messages come: batches are cut by numbers of rows, and it only
    decides how many keys are processed together, which changes nothing.

    Attributes:
        engine: the monitors and results.
        state: "starting", "running", "stopped" or "failed".
        problem: why it failed, or what it could not write to disk last; None otherwise.
        checkpoint_seconds: time that the last checkpoint took; NaN before the first.
        checkpoint_time: when it was written, in seconds since 1970; NaN before the first.

    Args:
        engine: without rows.
        settings: of the stream.
        subscription: its source.
        folder: of its checkpoints, or None.
        checkpoint_every: seconds.
        base: folder of relative paths.
        deliver: called with each alarm and the names of the webhooks that lack it.
        gathered_rows: after which whole batches are processed.
        room_every: seconds between attempts to write a dead letter on a full disk.
    """

    def __init__(
        self,
        engine: Engine,
        settings: schema.Stream,
        subscription: Subscription,
        folder: Path | None,
        checkpoint_every: float,
        base: Path,
        deliver: Callable[[Alarm, set[str]], None],
        gathered_rows: int = 10_000,
        room_every: float = 1.0,
    ):
        super().__init__(name=f"evidentia-{engine.name}", daemon=True)
        self.engine, self._settings, self._subscription = engine, settings, subscription
        self._path, self._every, self._base, self._deliver = folder, checkpoint_every, base, deliver
        self._gathered_rows, self._room_every = gathered_rows, room_every
        self.state: Literal["starting", "running", "stopped", "failed"] = "starting"
        self.problem: str | None = None
        self.checkpoint_seconds = self.checkpoint_time = math.nan
        self._is_ending = threading.Event()
        self._requests: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._letters: DeadLetters | None = None
        self._folder: CheckpointFolder | None = None
        self._saved_at = self._gathered_at = time.monotonic()
        self._is_changed, self._oldest, self._gathered = False, math.nan, 0

    def stop(self) -> None:
        """Ask it to end after the batches in progress, with a checkpoint."""
        self._is_ending.set()

    def ask(self, function: Callable[[], Any]) -> Future[Any]:
        """Run a function between two batches."""
        future: Future[Any] = Future()
        self._requests.put((function, future))
        return future

    def lag(self) -> float:
        """Seconds between a row and its result.

        With a time column, the age of the last row processed: NaN before there is one, and zero
        if it comes from the future of this machine's clock. Without, how long the oldest row of a
        whole batch has been waiting, whatever that clock says.
        """
        if self._settings.time is not None:
            return float(np.maximum(0.0, time.time() - self.engine.last_time))
        return 0.0 if math.isnan(oldest := self._oldest) else time.monotonic() - oldest

    def save(self) -> bool:
        """Write a checkpoint, in its own thread (see `ask`); return whether that went well."""
        started = time.monotonic()
        if self._folder is not None:
            try:
                counts = self.engine.counts
                summary = {"stream": self.engine.name, "messages": counts.messages, "rows": counts.rows}
                self._folder.write(self.engine.packed(), summary)
            except CheckpointError as error:
                self._saved_at = time.monotonic()  # try again later
                self._cannot_write("checkpoint failed", error)
                return False
        if self.engine.position is not None:
            self._subscription.acknowledge(self.engine.position)
        self.problem, self._is_changed = None, False
        self._saved_at = time.monotonic()
        self.checkpoint_seconds, self.checkpoint_time = self._saved_at - started, time.time()
        return True

    def forget(self, key: str) -> bool:
        """Remove a key, in its own thread (see `ask`); return whether it was there."""
        was_there = self.engine.forget(key)
        self.save()
        return was_there

    def run(self) -> None:
        """The thread. Errors end it, not the service."""
        try:
            with ExitStack() as stack, quietly() as unsaid:
                stack.enter_context(closing(self._subscription))
                self._start(stack)
                self.state = "running"
                log("running", stream=self.engine.name, source=self._subscription.name)
                self._read(unsaid)
                is_saved = self.save()  # also what webhooks have got since the last one
            self.state = "stopped" if is_saved else "failed"
            log("stopped", stream=self.engine.name, rows=self.engine.counts.rows)
        except EvidentiaError as error:
            self._fail(str(error), None)
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}", error)

    def _start(self, stack: ExitStack) -> None:
        if self._settings.dead_letters is not None:
            self._letters = DeadLetters(self._base / self._settings.dead_letters)
        if self._path is None:
            return
        self._folder = stack.enter_context(CheckpointFolder(self._path))
        if self._folder.has_checkpoint:
            content, _ = read(self._path)
            begun = self.engine.restore(content, self._path)
            counts = self.engine.counts
            log("resumed", stream=self.engine.name, rows=counts.rows, messages=counts.messages)
            for name in begun:
                log("monitor begins anew", stream=self.engine.name, monitor=name)
        for alarm, webhooks in list(self.engine.undelivered.values()):
            self._deliver(alarm, set(webhooks))

    def _read(self, unsaid: list[Any]) -> None:
        with closing(iter(self._subscription.messages(self.engine.position))) as messages:  # pyright: ignore
            for message in messages:
                if message is not None:
                    self._take(message)
                if self._is_ending.is_set():
                    return
                if self._is_due(is_idle=message is None):
                    self._process()
                self._between_batches()
                while unsaid:
                    log("warning", logging.WARNING, stream=self.engine.name, reason=unsaid.pop(0)[0])

    def _take(self, message: Message) -> None:
        before, engine = self.engine.position, self.engine
        self._is_changed = True
        try:
            rows = rows_of(message.payload, self._settings.payload)
        except PayloadError as error:
            engine.skip(1, message.position)
            reasons = [str(error)]
        else:
            self._gathered += len(rows)
            reasons = [one.reason for one in engine.take(rows, message.position)]
        if reasons:
            more = f" (and {len(reasons) - 3} more rows)" if len(reasons) > 3 else ""
            reason = "; ".join(reasons[:3]) + more
            rejected = engine.counts.rejected
            if rejected <= DEAD_LETTERS_LOGGED or rejected % 10 ** int(math.log10(rejected)) == 0:
                log("rejected", logging.WARNING, stream=engine.name, rejected=rejected, reason=reason)
            if self._letters is not None:
                self._write_letter(self._letters, message, place_of(message, before), reason)

    def _write_letter(self, letters: DeadLetters, message: Message, place: Position, reason: str) -> None:
        """Append a dead letter, once there is room on the disk; meanwhile nothing is read.

        The message is counted already, so no checkpoint may come before its letter. Raises
        CheckpointError if the worker is to end before.
        """
        while True:
            try:
                return letters.append(self._subscription.name, message, place, reason)
            except CheckpointError as error:
                self._cannot_write("dead letter failed", error)
                if self._is_ending.wait(self._room_every):
                    raise

    def _cannot_write(self, event: str, error: CheckpointError) -> None:
        """Tell of an error, unless it was the last one."""
        if self.problem != str(error):
            log(event, logging.ERROR, stream=self.engine.name, reason=str(error))
        self.problem = str(error)

    def _is_due(self, is_idle: bool) -> bool:
        """Whether whole batches should be processed now."""
        if not self.engine.rows.num_complete:
            self._gathered_at, self._oldest = time.monotonic(), math.nan
            return False
        if math.isnan(self._oldest):
            self._oldest = self.engine.rows.waiting_since or math.nan
        return (
            is_idle
            or self._gathered >= self._gathered_rows
            or time.monotonic() - self._gathered_at >= GATHERED_SECONDS
        )

    def _process(self) -> None:
        while self.engine.rows.num_complete and not self._is_ending.is_set():
            alarms, refused = self.engine.process()
            for alarm in alarms:
                log("alarm", logging.WARNING, **_flat(alarm))
                if alarm.id in self.engine.undelivered:
                    self._deliver(alarm, set(self.engine.undelivered[alarm.id][1]))
            for one in refused:
                log("refused", logging.WARNING, stream=self.engine.name, **one._asdict())
            self._oldest = self.engine.rows.waiting_since or math.nan
            self._between_batches()
        self._gathered_at, self._gathered = time.monotonic(), 0

    def _between_batches(self) -> None:
        """Write a checkpoint if one is due, and do what was asked for."""
        spent = 0.0 if math.isnan(self.checkpoint_seconds) else self.checkpoint_seconds
        pause = max(self._every, spent / SHARE_OF_TIME)
        if self._is_changed and time.monotonic() - self._saved_at >= pause:
            self.save()
        while not self._requests.empty():
            function, future = self._requests.get()
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    def _fail(self, reason: str, error: Exception | None) -> None:
        self.state, self.problem = "failed", reason
        log("failed", logging.ERROR, error=error, stream=self.engine.name, reason=reason)


def _flat(alarm: Alarm) -> Mapping[str, Any]:
    fields = alarm._asdict()
    return {"found": fields.pop("time"), **fields}
