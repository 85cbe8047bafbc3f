import matplotlib as mpl
import numpy as np
import pytest

import evidentia as ev
from evidentia.display.stream_plot import MOST_POINTS, thinned
from evidentia.errors import ConfigurationError
from evidentia.monitor.average_records import AverageUpdate
from evidentia.monitor.change_records import ChangeReport
from evidentia.monitor.e_detector import Change
from evidentia.online.state import OnlineUpdate

mpl.use("Agg")
SINGLE = [OnlineUpdate(50 * (i + 1), 50, -60.0 - i, -100.0, 0.1, 1, 0.0) for i in range(4)]
CHANGE = Change(
    row=100,
    interval=(90, 110),
    log_bayes_factor=5.0,
    standard_error=0.1,
    num_observations=150,
    log_e_value=7.0,
)


def test_an_average_has_predictions_and_probabilities():
    updates = [
        AverageUpdate(
            one.num_observations, 50, -60.0, -100.0, 0.1, {"a": 0.2, "b": 0.8}, {"a": one, "b": one}
        )
        for one in SINGLE
    ]
    upper, lower = ev.monitor.plot_updates(updates, [CHANGE])
    curves = [line for line in upper.lines if line.get_label() in ("a", "b")]
    np.testing.assert_allclose(curves[0].get_xydata()[0], [50, -60 / 50])
    np.testing.assert_allclose(lower.lines[0].get_ydata(), 0.2)
    assert lower.get_ylabel() == "model probability"
    assert [line.get_xdata()[0] for line in lower.lines[-2:]] == [100, 150]


def test_a_detector_has_its_alarms():
    reports = [
        ChangeReport(one, CHANGE if i == 2 else None, one.num_observations, 0.0, 1, np.nan, False)
        for i, one in enumerate(SINGLE)
    ]
    (ax,) = ev.monitor.plot_updates(reports)
    assert [line.get_xdata()[0] for line in ax.lines[-2:]] == [100, 150]


def test_a_long_stream_is_thinned_to_means():
    counts = np.arange(1, 1002)
    rows, values = thinned(counts, counts.astype(float))
    assert len(rows) <= MOST_POINTS
    assert (rows[-1], values[0]) == (1001, 2.0)


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ConfigurationError, match="at least one batch; got none"):
        ev.monitor.plot_updates([])
    with pytest.raises(ConfigurationError, match="updates must be results of ModelAverage.update"):
        ev.monitor.plot_updates([3])  # type: ignore[list-item]
