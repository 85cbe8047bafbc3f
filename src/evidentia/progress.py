"""Live progress of an estimation: on a terminal a bar, elsewhere a plain line now and then."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

MAX_SECONDS = 1e6  # of time left that are shown


@dataclass(frozen=True)
class Update:
    """What an estimation knows after taking in a chunk, or after a step of an estimator that takes all rows at once.

    Attributes:
        num_observations: rows that the estimate is for; none as long as there is no estimate.
        total_observations: rows there are; None where only their end will tell.
        log_evidence: estimate for the rows so far, in nats.
        standard_error: of `log_evidence`, in nats.
        num_annealing_steps: annealing steps (a nested sampler's iterations) since the start.
        seconds: time since the start.
        share_done: of the work, between 0 and 1, for an estimator that takes all rows at once; else None.
    """

    num_observations: int
    total_observations: int | None
    log_evidence: float
    standard_error: float
    num_annealing_steps: int
    seconds: float
    share_done: float | None = None

    @property
    def share(self) -> float:
        """Of the work that is done, between 0 and 1; 0 where nobody knows."""
        if self.share_done is not None:
            return self.share_done
        return self.num_observations / self.total_observations if self.total_observations else 0.0


Listener = Callable[[Update], None]


@contextmanager
def progress_bar(description: str, console: Console | None = None) -> Iterator[Listener]:
    """A live line on stderr with rows, log evidence per row, annealing steps, rows per second and time left.

    Silent where the console is no terminal: see `plain_lines` for that.

    Args:
        description: what is being estimated, shown on the left.
        console: where to write; a rich console on stderr by default.

    Yields:
        A callable that takes an `Update`, to be given to `estimate(..., progress=...)`.

    Example:
        >>> with progress_bar("linear") as show:
        ...     show(Update(500, 1000, -710.2, 0.1, 12, 0.3))
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda update: None
        return
    column = Column(no_wrap=True, overflow="ellipsis")
    columns = (
        TextColumn("{task.description}", markup=False, table_column=column),
        BarColumn(bar_width=8),
        _Numbers(),
    )
    pace = _Pace()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(description, total=None, update=None)

        def show(update: Update) -> None:
            pace.add(update)
            progress.update(
                task,
                completed=update.share,
                total=1.0,
                update=update,
                share_per_second=pace.share_per_second(),
            )

        yield show


def reporter(progress: bool | Listener, name: str) -> AbstractContextManager[Listener]:
    """What `progress` asks for: True a bar, False silence, a function that function."""
    if callable(progress):
        return nullcontext(progress)
    return progress_bar(name) if progress else nullcontext(lambda update: None)


@contextmanager
def plain_lines(description: str, console: Console | None = None, every: float = 5.0) -> Iterator[Listener]:
    """The same numbers as `progress_bar` as plain lines, one each `every` seconds at most and one for the last row."""
    console = console or Console(stderr=True)
    last = time.monotonic()
    pace = _Pace()

    def show(update: Update) -> None:
        nonlocal last
        pace.add(update)
        now = time.monotonic()
        if now - last >= every or update.share >= 1.0:
            last = now
            console.print(
                f"{description}: {describe(update, pace.share_per_second())}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )

    yield show


def describe(update: Update, share_per_second: float) -> str:
    """One update in words, for a line of text."""
    end = _time_left(update, share_per_second)
    if update.share_done is not None:
        value = f"{update.log_evidence:,.2f} nats, " if update.num_observations else ""
        return f"{100 * update.share:.0f}%, {value}{update.num_annealing_steps:,} steps, {end}"
    return (
        f"{update.num_observations:,} rows, {update.log_evidence / update.num_observations:.4f} nats/row, "
        f"{update.num_annealing_steps:,} steps, {_rows_per_second(update, share_per_second)} rows/s, {end}"
    )


class _Numbers(ProgressColumn):
    """The numbers right of the bar; short enough for a terminal of 80 columns."""

    def render(self, task: Task) -> Text:
        update: Update | None = task.fields.get("update")
        if update is None:
            return Text("compiling ...", style="dim")
        pace = task.fields["share_per_second"]
        end = (_time_left(update, pace), "green")
        if update.share_done is not None:
            value = f"{update.log_evidence:,.2f} nats" if update.num_observations else ""
            steps = f" {short_count(update.num_annealing_steps):>5} steps "
            return Text.assemble(f"{100 * update.share:3.0f}% ", (f"{value:>18}", "magenta"), steps, end)
        return Text.assemble(
            (f"{short_count(update.num_observations):>5}", "cyan"),
            " rows ",
            (f"{update.log_evidence / update.num_observations:8.4f}", "magenta"),
            "/row ",
            f"{update.num_annealing_steps:>4} steps {_rows_per_second(update, pace):>5}/s ",
            end,
        )

    def get_table_column(self) -> Column:
        return Column(no_wrap=True)


class _Pace:
    """Share done per second over its newer half: the first rows cost compilation and annealing from the prior."""

    def __init__(self):
        self.points = deque([(0.0, 0.0)])

    def add(self, update: Update) -> None:
        self.points.append((update.share, update.seconds))
        while len(self.points) > 2 and self.points[1][0] <= update.share / 2:
            self.points.popleft()

    def share_per_second(self) -> float:
        (first_share, first_seconds), (last_share, last_seconds) = self.points[0], self.points[-1]
        return (last_share - first_share) / max(last_seconds - first_seconds, 1e-9)


def _rows_per_second(update: Update, share_per_second: float) -> str:
    if update.total_observations is None:
        return short_count(update.num_observations / max(update.seconds, 1e-9))
    return short_count(share_per_second * update.total_observations)


def _time_left(update: Update, share_per_second: float) -> str:
    remaining = 1.0 - update.share
    if remaining <= 0 or update.total_observations is None:
        return f"{update.seconds:.1f} s"
    if remaining > MAX_SECONDS * share_per_second:
        return ""
    seconds = round(remaining / share_per_second)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    return f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"


def short_count(number: float) -> str:
    """A count in five characters: 999, 12.3k, 1.20M."""
    units = ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (float("inf"), 1e9, "G"))
    divisor, unit = next((divisor, unit) for limit, divisor, unit in units if number < limit)
    value = number / divisor
    digits = 0 if not unit else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}{unit}"
