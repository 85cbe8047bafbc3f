"""A broker's stream as a source of observations, with places to go on from and dead letters."""

import copy
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from evidentia.brokers.addresses import subscribe
from evidentia.brokers.dead_letters import DeadLetters
from evidentia.brokers.message import Message, Position, Subscription
from evidentia.brokers.payloads import PayloadError, Row, check_form, rows_of
from evidentia.brokers.place import START, Mark, Marks, Place, key_of, place_of
from evidentia.brokers.reconnecting import described
from evidentia.data.batches import Batch
from evidentia.data.digits import Digits
from evidentia.data.source import Missing, check_missing
from evidentia.data.sources.columns import Piece, Selection
from evidentia.data.sources.memory import check_unread
from evidentia.data.sources.named import Columns, Types, arrays_named, called, check_types
from evidentia.errors import ConfigurationError, DataError, check_count

BLOCK = 1_000  # rows that are converted together
PATIENCE = 0.1  # seconds that a row waits for others


class Letter(NamedTuple):
    """A message, what is new in its position, and its rows not yet counted; or what is wrong."""

    message: Message
    place: Position
    rows: list[Row]
    reason: str = ""


class BrokerSource:
    """The source that `read` returns: rows of a subscription, without end.

    Attributes:
        name: the address of the stream, without credentials.
        selection: the columns of each array.
        dead_letters: the file of messages that hold no rows, or None.

    Args:
        subscription: the stream; it is closed when the reading ends. The others are as for `read`.

    Raises:
        ConfigurationError: an invalid argument.
    """

    def __init__(
        self,
        subscription: Subscription,
        columns: Columns,
        *,
        form: str = "json",
        missing: Missing = "error",
        types: Types = None,
        dead_letters: DeadLetters | None = None,
        stop: Callable[[], bool] | None = None,
    ):
        check_missing(missing)
        check_form(form)
        self.name: str = subscription.name
        self.selection: Selection = _selected(columns, types)
        self.dead_letters: DeadLetters | None = dead_letters
        self._subscription, self._form = subscription, form
        self._missing: Missing = missing
        self._stop = stop or (lambda: False)
        self._place, self._marks = START, None
        self._begun = threading.Event()
        self._digits = Digits()

    @property
    def num_rows(self) -> None:
        """Not known: a broker's stream has no end."""
        return None

    def resume(self, place: Place) -> None:
        """Begin after a place, and keep track of places; `START` for the first message.

        Without this call, a batch counts as processed when the next one is asked for.
        """
        self._place, self._marks = place, Marks(place)

    def place_at(self, rows: int) -> Place:
        """The place after `rows` rows of the stream, for a checkpoint.

        Rows include dropped ones, and those before `resume`. Places must be asked for in order.

        Raises:
            ConfigurationError: `resume` was not called.
        """
        if self._marks is None:
            raise ConfigurationError(
                "places are only known after resume(place); call it before batches(), with START."
            )
        return self._marks.place_at(rows)

    def acknowledge(self, place: Place) -> None:
        """Tell the broker that all messages before a place are in a checkpoint on disk."""
        if place.position is not None:
            self._subscription.acknowledge(place.position)

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the rows after the place given to `resume`, once, until `stop` returns true.

        Args:
            skip: the number of rows before that place.

        Raises:
            DataError: a message without valid rows, if there is no file for dead letters; messages
                that were removed before they were read; `skip` is another place.
            CheckpointError: a dead letter cannot be written.
        """
        check_count("skip", skip, 0)
        if skip != self._place.rows:
            raise DataError(
                f"{self.name} goes on after {self._place.rows:,} rows, where resume() was told to; it cannot skip {skip:,}."
            )
        check_unread(self._begun, self.name)
        return self._batches()

    def _batches(self) -> Iterator[Batch]:
        letters: list[Letter] = []
        before, counted, rows = self._place.position, dict(self._place.counted), self._place.rows
        since, waiting = time.monotonic(), 0
        with closing(self._subscription):
            for message in self._subscription.messages(self._place.position):
                if message is not None:
                    place = place_of(message, before)
                    num_counted = counted.pop(key_of(place), 0) if counted else 0
                    letters.append(self._opened(message, place, num_counted))
                    before, waiting = message.position, waiting + len(letters[-1].rows)
                    since = since if len(letters) > 1 else time.monotonic()
                is_due = message is None or waiting >= BLOCK or time.monotonic() - since > PATIENCE
                if letters and is_due:
                    for batch in self._delivered(letters, rows):
                        rows += batch.num_read
                        yield batch
                    if self._marks is None:
                        self._subscription.acknowledge(letters[-1].message.position)
                    letters, waiting = [], 0
                if self._stop():
                    return

    def _opened(self, message: Message, place: Position, num_counted: int) -> Letter:
        try:
            rows = rows_of(message.payload, self._form)
            return Letter(message, place, rows[num_counted:])
        except PayloadError as error:
            return Letter(message, place, [], str(error))

    def _delivered(self, letters: list[Letter], first_row: int) -> Iterator[Batch]:
        """The rows of letters as one batch; those without valid rows go to the dead letters."""
        if any(letter.reason for letter in letters) or (batch := self._tried(letters, first_row)) is None:
            letters = [self._checked(letter, first_row) for letter in letters]
            if self.dead_letters is None:
                valid = list(takewhile(lambda letter: not letter.reason, letters))
                if len(valid) < len(letters):
                    yield from self._marked(valid, first_row, self._batch(valid, first_row, self._digits))
                    raise self._invalid(letters[len(valid)])
            else:
                for letter in letters:
                    if letter.reason:
                        self.dead_letters.append(self.name, letter.message, letter.place, letter.reason)
            batch = self._batch(letters, first_row, self._digits)
        yield from self._marked(letters, first_row, batch)

    def _tried(self, letters: list[Letter], first_row: int) -> Batch | None:
        """All rows as a batch, or None if some are invalid; quick, as most are valid."""
        digits = copy.deepcopy(self._digits)
        try:
            batch = self._batch(letters, first_row, digits)
        except DataError:
            return None
        self._digits = digits
        return batch

    def _checked(self, letter: Letter, first_row: int) -> Letter:
        if not letter.reason:
            try:
                self._batch([letter], first_row, Digits())
            except DataError as error:
                return letter._replace(rows=[], reason=str(error))
        return letter

    def _batch(self, letters: list[Letter], first_row: int, digits: Digits) -> Batch | None:
        """The rows of letters; None if there are none. Raises DataError if any is invalid."""
        rows = [row for letter in letters for row in letter.rows]
        if not rows:
            return None
        columns = [_column(name, rows) for name in self.selection.names]
        table = pa.RecordBatch.from_arrays(columns, names=self.selection.names)
        return self.selection.to_batch(Piece(table, self.name, first_row), self._missing, digits)

    def _marked(self, letters: list[Letter], first_row: int, batch: Batch | None) -> Iterator[Batch]:
        """Remember where the messages of a batch end, before it is given away."""
        if self._marks is not None:
            for letter in letters:
                first_row += len(letter.rows)
                self._marks.add(Mark(first_row, letter.message.position, letter.place))
        if batch is not None:
            yield batch

    def _invalid(self, letter: Letter) -> DataError:
        return DataError(
            f"{self.name}: the message at {key_of(letter.place)} cannot be used: {letter.reason.rstrip('.')}. To write such "
            "messages to a file and go on, pass dead_letters= (--dead-letters FILE)."
        )


def read(
    url: str,
    columns: Columns,
    *,
    payload: str = "json",
    missing: Missing = "error",
    types: Types = None,
    dead_letters: str | Path | None = None,
    stop: Callable[[], bool] | None = None,
    **options: Any,
) -> BrokerSource:
    """Read a broker's stream as a source of observations: Kafka, MQTT, Redis, NATS or HTTP.

    Args:
        url: the stream, as for `subscribe`, such as `kafka://host:9092/topic`.
        columns: the columns of each array, as `{"x": ["f0", "f1"], "y": "label"}`, or their names.
            A message has no header: all must be named.
        payload: "json" for an object or a list of them, "arrow" for an IPC stream, "avro" for an
            object container.
        missing: "error", or "drop" to drop and count rows with null. A row that lacks a column is
            always an error.
        types: `int` or `float` by name; columns are real numbers unless this says otherwise.
        dead_letters: a file for the messages without valid rows, with the reason. Without it, such
            a message ends the reading with an error.
        stop: ends the reading when it returns true.
        options: of the client; see docs/brokers.md.

    Raises:
        ConfigurationError: an invalid argument, or a package that is not installed.
        CheckpointError: the file for dead letters cannot be written.

    Example:
        >>> source = ev.brokers.read("kafka://host/readings", ["flow"])  # doctest: +SKIP
        >>> for batch in recut(source.batches(), 500):  # doctest: +SKIP
        ...     online.update(batch.arrays)
    """
    letters = None if dead_letters is None else DeadLetters(dead_letters)
    settings: Any = {"form": payload, "missing": missing, "types": types, "stop": stop}
    return BrokerSource(subscribe(url, **options), columns, dead_letters=letters, **settings)


def _selected(columns: Columns, types: Types) -> Selection:
    if columns is None or callable(columns):
        raise ConfigurationError(
            "columns must name the columns of a broker's stream: its messages have no header."
        )
    selection = Selection(arrays_named(columns, []), frozenset())
    declared: Any = {} if types is None else called("types", types, selection.names)
    check_types(declared, selection.names)
    integers = frozenset(name for name in selection.names if declared.get(name) is int)
    return Selection(selection.arrays, integers)


def _column(name: str, rows: list[Row]) -> pa.Array:
    """The values of a column as float64, with null for missing values.

    Raises PayloadError for a row without this column, and for values that are no numbers.
    """
    try:
        values = [row[name] for row in rows]
    except KeyError:
        known = next(list(row) for row in rows if name not in row)
        raise PayloadError(
            f"a row has no column {name!r}; it has {', '.join(map(str, known[:10]))}"
        ) from None
    try:
        return pa.array(values, pa.float64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        odd = next((value for value in values if not isinstance(value, int | float | None)), None)
        shown = described(error) if odd is None else f"it holds {odd!r:.40}"
        raise PayloadError(f"column {name!r} must have numbers; {shown}") from None
