"""The display of `evidentia stream`: a live table on a terminal, elsewhere plain lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from evidentia.cli.stream.session import Alarm, SessionUpdate
from evidentia.display import text
from evidentia.display.progress import short_count

PACE_SECONDS = 10.0  # averaging time of the rows per second
ALARMS_SHOWN = 5


class View:
    """The state of the display; this base class shows nothing.

    Attributes:
        last: the result of the last batch.
        is_waiting: whether the run is waiting for rows; the loop sets it.
        alarms: all alarms of this run.
    """

    def __init__(self):
        self.last: SessionUpdate | None = None
        self.is_waiting = True
        self.alarms: list[Alarm] = []
        self._started = time.monotonic()
        # Never started, so it draws nothing; it only measures the speed.
        self._pace = Progress(speed_estimate_period=PACE_SECONDS)
        self._pace.add_task("rows", total=None)
        (self._task,) = self._pace.tasks

    def show(self, update: SessionUpdate) -> None:
        """Show the result of a batch."""
        self._pace.update(self._task.id, completed=update.num_observations)
        self.last = update
        self.alarms += update.alarms

    def rows_per_second(self) -> str:
        """Recent speed; empty after the first batch, which takes longer."""
        return "" if self._task.speed is None else f"{short_count(self._task.speed)} rows/s"

    def render(self) -> RenderableType:
        """Build the live table, for a terminal of 80 columns or more."""
        clock = text.duration(time.monotonic() - self._started)
        if self.last is None:
            state = "waiting for rows" if self.is_waiting else "compiling"
            return Text(f"{state}, {clock}", style="dim")
        state = "waiting for rows" if self.is_waiting else self.rows_per_second()
        words = ", ".join(filter(None, [" rows", state, clock]))
        head = Text.assemble((f"{self.last.num_observations:,}", "cyan"), words)
        if self.last.num_dropped:
            head.append(f", {self.last.num_dropped:,} with missing values dropped")
        shown = [Text(f"Alarm: {describe(alarm)}", style="bold red") for alarm in self.alarms[-ALARMS_SHOWN:]]
        return Group(head, _table(self.last), *shown)


class _Lines(View):
    """Plain lines on a console, at least `lines_every` seconds apart."""

    def __init__(self, console: Console, lines_every: float):
        super().__init__()
        self._console, self._lines_every = console, lines_every
        self._said = time.monotonic()

    def show(self, update: SessionUpdate) -> None:
        super().show(update)
        for alarm in update.alarms:
            self._say(f"alarm: {describe(alarm)}")
        if time.monotonic() - self._said >= self._lines_every:
            self._said = time.monotonic()
            models = "; ".join(_in_words(update, name) for name in update.updates)
            rows = ", ".join(filter(None, [f"{update.num_observations:,} rows", self.rows_per_second()]))
            self._say(f"{rows}; {models}")

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def viewing(quiet: bool, console: Console | None = None, lines_every: float = 5.0) -> Iterator[View]:
    """Choose the view for a console, by default stderr.

    Without a terminal, plain lines come at least `lines_every` seconds apart; alarms at once.
    """
    console = console or Console(stderr=True)
    if quiet:
        yield View()
    elif not console.is_terminal:
        yield _Lines(console, lines_every)
    else:
        view = View()
        with Live(console=console, get_renderable=view.render, refresh_per_second=4, transient=True):
            yield view


def describe(alarm: Alarm) -> str:
    """Describe a change in words.

    Example:
        >>> describe(Alarm("linear", Change(1200, (1100, 1299), 41.2, 0.3, 1400, 7.1)))
        'linear changed at row 1,200 (1,100 to 1,299), 41.20 ± 0.30 nats; seen at row 1,400'
    """
    change = alarm.change
    first, last = change.interval
    return (
        f"{alarm.model} changed at row {change.row:,} ({first:,} to {last:,}), "
        f"{text.with_error(change.log_bayes_factor, change.standard_error)} nats; seen at row {change.num_observations:,}"
    )


def _table(last: SessionUpdate) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("model", overflow="ellipsis", no_wrap=True)
    for name in ("log evidence (nats)", "per row", "last batch", "share", "steps"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, update in last.updates.items():
        table.add_row(
            Text(name),
            Text(text.with_error(update.log_evidence, update.standard_error), style="magenta"),
            f"{update.log_evidence / update.num_observations:.4f}",
            f"{update.log_predictive / update.batch_size:.4f}",
            text.probability(last.probabilities[name]),
            str(update.num_annealing_steps),
        )
    return table


def _in_words(last: SessionUpdate, name: str) -> str:
    update, probability = last.updates[name], text.probability(last.probabilities[name])
    return (
        f"{name} {update.log_evidence / update.num_observations:.4f} nats/row "
        f"(last batch {update.log_predictive / update.batch_size:.4f}), probability {probability}, "
        f"{update.num_annealing_steps} steps"
    )
