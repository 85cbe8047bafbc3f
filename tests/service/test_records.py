import numpy as np

from evidentia.service.bundle import bundled, unbundled
from evidentia.service.monitors import Outcome
from evidentia.service.records import CAPACITY, RECENT, Records


def outcome(batch, size=10):
    rows = size * batch
    return Outcome(rows, size, -float(batch), {"a": -1.5 * rows}, {"a": 0.1}, {"a": 1.0}, residual=batch / 7)


def fed(records, batches):
    for batch in batches:
        records.add("key", outcome(batch))
    return records


def test_a_trajectory_has_few_points_from_the_first_row_to_the_last():
    records = Records(("a",))
    for batch in range(1, 1001):
        fed(records, [batch])
        points = records["key"].points
        assert len(points) <= CAPACITY + 1
        assert points[0, 0] == 10 and points[-1, 0] == 10 * batch
        assert np.all(np.diff(points[:, 0]) > 0)
    steps = np.diff(points[:-1, 0])
    assert np.all(steps == steps[0])  # evenly spaced, apart from the last one
    assert np.array_equal(points[:, 1], -points[:, 0] / 100)
    assert np.allclose(points[:, 3], -1.5 * points[:, 0])


def test_the_last_batches_are_in_order():
    records = fed(Records(("a",)), range(1, 6))
    assert np.allclose(records["key"].recent, [-0.1, -0.2, -0.3, -0.4, -0.5])
    fed(records, range(6, 101))
    assert np.allclose(records["key"].recent, -np.arange(101 - RECENT, 101) / 10)
    assert records["key"].latest == records["key"].recent[-1]


def test_records_of_a_checkpoint_go_on_as_they_would():
    whole = fed(Records(("a",)), range(1, 400))
    for cut in (1, 31, 128, 129, 300):
        first = fed(Records(("a",)), range(1, cut))
        first.add("other", outcome(1))
        second = Records(("a",))
        second.restore(unbundled(bundled(first.packed()), {}))
        assert len(second) == len(first)
        fed(second, range(cut, 400))
        assert np.array_equal(second["key"].points, whole["key"].points)
        assert second["key"].recent == whole["key"].recent
        assert second["key"].standard_error == (0.1,)


def test_records_of_other_models_begin_anew():
    second = Records(("b",))
    second.restore(unbundled(bundled(fed(Records(("a",)), [1]).packed()), {}))
    assert len(second) == 0
