"""Structured logs: a JSON object on one line of standard error for each event."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

LOGGER = "evidentia.service"
OTHERS = ("evidentia.brokers", "uvicorn.error", "py.warnings")  # whose records take the same form


class JsonLines(logging.Formatter):
    """A record as a line of JSON: "time", "level", "event", and the fields of `log`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = getattr(record, "fields", {})
        entry = {"time": when, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
        if record.exc_info and record.exc_info[1] is not None:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log(event: str, level: int = logging.INFO, *, error: BaseException | None = None, **fields: Any) -> None:
    """Log an event with its fields; with the traceback of an `error`, if there is one."""
    logging.getLogger(LOGGER).log(level, event, extra={"fields": fields}, exc_info=error)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Within it, the events of the service and of its HTTP server go to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    loggers = [logging.getLogger(name) for name in (LOGGER, *OTHERS)]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO if logger.name == LOGGER else logging.WARNING)
        logger.propagate = False
        logger.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
