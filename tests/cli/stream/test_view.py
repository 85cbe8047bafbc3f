"""The display of `evidentia stream`."""

import io

from rich.console import Console

from evidentia.cli.stream.session import Alarm, SessionUpdate
from evidentia.cli.stream.view import View, viewing
from evidentia.monitor.e_detector import Change
from evidentia.online.online import OnlineUpdate


def an_update(rows=1_234_500, alarms=()):
    models = {
        name: OnlineUpdate(rows, 500, -705.0, -1.41 * rows, 0.12, 3, 0.1)
        for name in ("linear", "my_robust_regression")
    }
    shares = {"linear": 0.9712, "my_robust_regression": 0.0288}
    return SessionUpdate(rows, 500, 12, models, shares, {}, tuple(alarms), 0.1)


ALARM = Alarm("linear", Change(1_200_000, (1_199_500, 1_200_499), 41.2, 0.3, 1_234_500, 7.1))


def test_live_view_fits_80_columns():
    view = View()
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(view.render())
    view.is_waiting = False
    view.show(an_update(alarms=[ALARM]))
    console.print(view.render())
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    assert "waiting for rows" in shown
    for words in (
        "1,234,500 rows",
        "12 with missing values dropped",
        "-1,740,645.00 ± 0.12",
        "-1.4100",
        "0.971",
    ):
        assert words in shown
    assert "Alarm: linear changed at row 1,200,000 (1,199,500 to 1,200,499)" in shown.replace("\n", " ")


def plain_lines(lines_every):
    console = Console(width=80, record=True, file=io.StringIO())
    with viewing(quiet=False, console=console, lines_every=lines_every) as view:
        view.show(an_update(500))
        view.show(an_update(1000, [ALARM]))
    return console.export_text().splitlines()


def test_plain_lines_where_there_is_no_terminal():
    (alarm,) = plain_lines(lines_every=60.0)
    assert alarm.startswith("alarm: linear changed at row 1,200,000")
    first, alarm, line = plain_lines(lines_every=0.0)
    assert first.startswith("500 rows")
    assert alarm.startswith("alarm: linear changed at row 1,200,000")
    assert (
        line.startswith("1,000 rows, ")
        and "linear -1.4100 nats/row (last batch -1.4100), probability 0.971" in line
    )
