"""The progress display: what it shows on a terminal of 80 columns; silent elsewhere."""

import io
from functools import partial

import pytest
from rich.console import Console

from evidentia.display.progress import TimeLeft, Update, plain_lines, progress_bar


def updates(total=1_000_000, seconds=10.0):
    """A run of ten chunks at 100,000 rows per second."""
    for step in range(1, 11):
        rows = total * step // 10
        yield Update(rows, total, -1.25 * rows, 0.5, 30 * step, seconds * step / 10)


def shown(context, terminal, description="five noise features", given=updates):
    """The output when the console's clock follows the updates."""
    stream, clock = io.StringIO(), [0.0]
    console = Console(
        file=stream, force_terminal=terminal, width=80, color_system=None, get_time=lambda: clock[0]
    )
    with context(description, console) as show:
        for update in given():
            clock[0] = update.seconds
            show(update)
    return stream.getvalue()


every_line = partial(plain_lines, every=0.0)


def test_bar_fits_80_columns_and_ends_with_all_rows():
    lines = [line for line in shown(progress_bar, True).replace("\r", "\n").split("\n") if "rows" in line]
    assert all(len(line) < 100 for line in lines)  # 80 and the codes that erase the previous line
    for words in ("five noise features", "1.00M rows", "-1.2500/row", "300 steps", "100k/s", "10.0 s"):
        assert words in lines[-1], lines[-1]


def test_bar_shortens_a_long_name_and_takes_it_as_it_is():
    last = shown(progress_bar, True, description="[bold] a model with a very long name, longer than the line")
    assert "[bold]" in last
    assert "…" in last
    assert "1.00M rows" in last


def test_bar_is_silent_where_there_is_no_terminal():
    assert shown(progress_bar, False) == ""


def test_plain_lines_come_now_and_then_and_at_the_end():
    (line,) = shown(plain_lines, False).splitlines()
    assert line == "five noise features: 1,000,000 rows, -1.2500 nats/row, 300 steps, 100k rows/s, 10.0 s"
    first, second, third, *_ = lines = shown(every_line, False).splitlines()
    assert len(lines) == 10
    assert first == "five noise features: 100,000 rows, -1.2500 nats/row, 30 steps"
    assert second == "five noise features: 200,000 rows, -1.2500 nats/row, 60 steps, 100k rows/s"
    assert "300,000 rows, -1.2500 nats/row, 90 steps, 100k rows/s, 0:00:07 left" in third


@pytest.mark.parametrize(
    ("seconds", "left"), [(3e4, "5:00:00 left"), (300.0, "0:03:00 left"), (1.0, "0:00:01 left")]
)
def test_time_left(seconds, left):
    fourth = shown(every_line, False, given=lambda: updates(seconds=seconds)).splitlines()[3]
    assert fourth.endswith(left)


def test_time_left_is_not_guessed_from_the_first_rows():
    """Compilation and annealing from the prior take 7 s for 500 rows, of 9 s for the whole run."""

    def given():
        for rows, seconds in ((500, 7.0), (1000, 7.9), (200_000, 8.0), (600_000, 8.5), (1_000_000, 9.0)):
            yield Update(rows, 1_000_000, -1.25 * rows, 0.5, 30, seconds)

    lines = shown(every_line, False, given=given).splitlines()
    assert not any("left" in line for line in lines[:2])


def times_left(points, share_done=False):
    """The times left after updates with these shares of 10⁶ rows, or of the work, and seconds."""
    time_left = TimeLeft()
    rows = [(0, share) if share_done else (round(1e6 * share), None) for share, _ in points]
    return [
        time_left.after(Update(count, 10**6, -1.0, 0.1, 1, seconds, share))
        for (count, share), (_, seconds) in zip(rows, points, strict=True)
    ]


@pytest.mark.parametrize(
    ("points", "end"),
    [
        ([(0.01, 1.0), (0.04, 2.0), (0.09, 3.0), (0.16, 4.0), (0.25, 5.0)], 10.0),  # as the root of the rows
        ([(0.001, 20.0), (0.101, 30.0), (0.201, 40.0)], 120.0),  # in proportion
    ],
)
def test_time_left_is_right_within_a_factor_of_two(points, end):
    first, *_, found = times_left(points)
    assert first is None
    assert found is not None
    assert 0.5 < found / (end - points[-1][1]) < 2.0


@pytest.mark.parametrize(
    "points",
    [
        [(5e-4, 42.0), (0.001, 47.4), (0.2, 48.0), (0.6, 51.0)],  # the second compiles; so may the end
        [
            (0.0, 1.0),
            (0.01, 8.0),
            (0.02, 15.0),
            (0.05, 22.0),
            (0.15, 29.0),
        ],  # the share does not measure work
    ],
)
def test_there_is_no_time_left_before_it_has_proved_right(points):
    assert times_left(points, share_done=True) == [None] * len(points)


def test_time_left_is_in_proportion_to_the_work_that_a_method_reports():
    first, second, third = times_left([(0.0, 10.0), (0.25, 20.0), (0.5, 30.0)], share_done=True)
    assert first is None
    assert second is None
    assert third == pytest.approx(20.0)


def test_time_left_ends_when_programs_for_the_end_may_take_as_long():
    *_, before, after = times_left([(0.0, 10.0), (0.25, 20.0), (0.7, 38.0), (0.8, 42.0)], share_done=True)
    assert before == pytest.approx(12.0)
    assert after is None


def test_a_method_that_takes_all_rows_shows_its_share_and_no_absurd_time():
    def given():
        yield Update(0, 1000, float("nan"), float("nan"), 1, 2.0, 1e-300)
        yield Update(1000, 1000, -1230.0, 0.1, 125, 3.5, 0.25)
        yield Update(1000, 1000, -1234.567, 0.1, 250, 5.0, 0.5)
        yield Update(1000, 1000, -1250.0, 0.1, 500, 10.0, 1.0)

    first, _, second, last = shown(every_line, False, given=given).splitlines()
    assert first == "five noise features: 0%, 1 steps"
    assert second == "five noise features: 50%, -1,234.57 nats, 250 steps, 0:00:03 left"
    assert last == "five noise features: 100%, -1,250.00 nats, 500 steps, 10.0 s"
    bar = shown(progress_bar, True, given=given).replace("\r", "\n").split("\n")
    assert any("100%" in line and "-1,250.00 nats" in line and "500 steps" in line for line in bar)
