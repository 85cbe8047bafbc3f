"""Live progress of an estimation: a bar on a terminal, occasional plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from evidentia.errors import ConfigurationError, kind_of

LEAST_SHARE = 0.02  # share of the work done before the time left is estimated
BACK = 0.35  # share of the rows now at which the rise of the time with them is measured
AGREEMENT = 2.0  # factor between the times left, now and at half time, that is taken for agreement
MOST_SECONDS = 1e6  # averaging window of the speed; longer times left are not shown


@dataclass(frozen=True)
class Update:
    """Progress after a chunk, or after a step of a method that uses all rows at once.

    Attributes:
        num_observations: rows that the estimate is for; zero until there is an estimate.
        total_observations: total number of rows; None if unknown.
        log_evidence: estimate for the rows so far, in nats.
        standard_error: of `log_evidence`, in nats.
        num_annealing_steps: annealing steps (a nested sampler's iterations) since the start.
        seconds: time since the start.
        share_done: share of the work done, between 0 and 1, for a method that uses all rows at
            once; otherwise None.
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
        """Share of the work done, between 0 and 1; 0 if unknown."""
        if self.share_done is not None:
            return self.share_done
        return self.num_observations / self.total_observations if self.total_observations else 0.0


Listener = Callable[[Update], None]


class TimeLeft:
    """The time left, from the updates of a run so far; none until it has proved right.

    The first update sets the start, as what comes before it is mostly compilation. From then on
    the time rises with the share of the work that a method reports. With rows it rises as a power
    of their number, of at most one: chunks grow, and a leap over many rows takes one step.

    An estimate is given if that after half the time since the first update agrees with it, which
    shows whether the share measures the work; and if it is longer than the time to the first
    update, since programs for the end of a run may take as long to compile as those for its start.
    """

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []  # shares, and seconds since the start
        self._estimates: list[tuple[float, float]] = []  # seconds since the first update, and those left

    def after(self, update: Update) -> float | None:
        """Seconds left after the next update; None while they are unknown."""
        left = self._extrapolated(update)
        if left is None:
            return None
        start = self._points[0][1]
        passed = update.seconds - start
        earlier = [(at, found) for at, found in self._estimates if at <= 0.5 * passed]
        self._estimates.append((passed, left))
        if not earlier or left < start:
            return None
        at, found = earlier[-1]
        return left if 1 / AGREEMENT <= found / (passed - at + left) <= AGREEMENT else None

    def _extrapolated(self, update: Update) -> float | None:
        share, points = update.share, self._points
        points.append((share, update.seconds))
        first, start = points[0]
        seconds = update.seconds - start
        if not (first < share and seconds > 0.0):
            return None
        before = [(one, at - start) for one, at in points[1:-1] if 0.0 < one < share and at > start]
        in_proportion = seconds * (1.0 - share) / (share - first)
        if update.share_done is not None or not before:
            return in_proportion if share >= LEAST_SHARE else None
        earlier, taken = next((point for point in reversed(before) if point[0] <= BACK * share), before[0])
        power = math.log(seconds / taken) / math.log(share / earlier)
        return seconds * (share**-power - 1.0) if power < 1.0 else in_proportion


@contextmanager
def progress_bar(description: str, console: Console | None = None) -> Iterator[Listener]:
    """Show rows, log evidence per row, annealing steps, rows per second and time left live.

    Nothing is shown if the console is not a terminal; see `plain_lines`.

    Args:
        description: what is being estimated, shown on the left.
        console: a rich console; on stderr if not given.

    Yields:
        A callable that takes an `Update`, for `estimate(..., progress=...)`.

    Example:
        >>> with progress_bar("linear") as show:
        ...     show(Update(500, 1000, -710.2, 0.1, 12, 0.3))
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda update: None
        return
    column = Column(no_wrap=True, overflow="ellipsis")
    name, time_left = TextColumn("{task.description}", markup=False, table_column=column), TimeLeft()
    columns = name, BarColumn(bar_width=8), _Numbers(Column(no_wrap=True))
    with Progress(*columns, console=console, speed_estimate_period=MOST_SECONDS) as progress:
        task = progress.add_task(description, total=None, update=None)

        def show(update: Update) -> None:
            left = time_left.after(update)
            progress.update(task, completed=update.share, total=1.0, update=update, left=left)

        yield show


def reporter(progress: bool | Listener, name: str) -> AbstractContextManager[Listener]:
    """The listener for a `progress` argument: True for a bar, False for silence, or a function."""
    if isinstance(progress, type):
        raise ConfigurationError(f"progress must be True, False, or a function; got {kind_of(progress)}.")
    if callable(progress):
        return nullcontext(progress)
    return progress_bar(name) if progress else nullcontext(lambda update: None)


@contextmanager
def plain_lines(description: str, console: Console | None = None, every: float = 5.0) -> Iterator[Listener]:
    """Print the numbers of `progress_bar` as plain lines, at most one every `every` seconds.

    The last row always gets a line.
    """
    console = console or Console(stderr=True)
    # Never started, so it draws nothing but measures the speed.
    progress = Progress(console=console, speed_estimate_period=MOST_SECONDS)
    progress.add_task(description, total=1.0)
    (task,) = progress.tasks
    last, time_left = time.monotonic(), TimeLeft()

    def show(update: Update) -> None:
        nonlocal last
        progress.update(task.id, completed=update.share, left=time_left.after(update))
        now = time.monotonic()
        if now - last >= every or update.share >= 1.0:
            last = now
            line = f"{description}: {describe(update, task)}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    yield show


def describe(update: Update, task: Task) -> str:
    """Describe an update in one line of text; `task` provides the speed and the time left."""
    words = [f"{update.num_observations:,} rows", f"{_per_row(update):.4f} nats/row"]
    if update.share_done is not None:
        words = [f"{100 * update.share:.0f}%"]
        words += [f"{update.log_evidence:,.2f} nats"] if update.num_observations else []
    words.append(f"{update.num_annealing_steps:,} steps")
    if rate := _rows_per_second(update, task):
        words.append(f"{rate} rows/s")
    return ", ".join([*words, *filter(None, [_time_left(update, task)])])


class _Numbers(ProgressColumn):
    """The numbers to the right of the bar, short enough for a terminal of 80 columns."""

    def render(self, task: Task) -> Text:
        update: Update | None = task.fields.get("update")
        if update is None:
            return Text("compiling ...", style="dim")
        end = (_time_left(update, task), "green")
        if update.share_done is not None:
            value = f"{update.log_evidence:,.2f} nats" if update.num_observations else ""
            steps = f" {short_count(update.num_annealing_steps):>5} steps "
            return Text.assemble(f"{100 * update.share:3.0f}% ", (f"{value:>18}", "magenta"), steps, end)
        rate = _rows_per_second(update, task)
        return Text.assemble(
            (f"{short_count(update.num_observations):>5}", "cyan"),
            " rows ",
            (f"{_per_row(update):8.4f}", "magenta"),
            f"/row {update.num_annealing_steps:>4} steps {rate and rate + '/s':>7} ",
            end,
        )


def _per_row(update: Update) -> float:
    return update.log_evidence / max(update.num_observations, 1)


def _rows_per_second(update: Update, task: Task) -> str:
    """Empty if the method uses all rows at once or the speed is unknown."""
    if update.share_done is not None:
        return ""
    if update.total_observations is None:
        return short_count(update.num_observations / max(update.seconds, 1e-9))
    return short_count(task.speed * update.total_observations) if task.speed else ""


def _time_left(update: Update, task: Task) -> str:
    """The duration once the run is over; before that, the time left if it can be estimated."""
    if update.share >= 1 or update.total_observations is None:
        return f"{update.seconds:.1f} s"
    left: float | None = task.fields.get("left")
    return "" if left is None or left > MOST_SECONDS else f"{timedelta(seconds=round(left))} left"


def short_count(number: float) -> str:
    """A count in at most five characters: 999, 12.3k, 1.20M."""
    units = ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (float("inf"), 1e9, "G"))
    divisor, unit = next((divisor, unit) for limit, divisor, unit in units if number < limit)
    value = number / divisor
    digits = 0 if not unit else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}{unit}"
