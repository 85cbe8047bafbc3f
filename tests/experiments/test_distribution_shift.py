"""The experiment on appearing clusters, with models so simple that their evidence is exact."""

import json

import numpy as np

from experiments import distribution_shift as experiment
from experiments.conjugate import Conjugate, Gaussian


class Plane(Conjugate):
    """Two independent Gaussians."""

    def __init__(self):
        super().__init__()
        self._axes = Gaussian(rows=0.1), Gaussian(rows=0.1)

    def update(self, batch):
        return super().update(batch["y"])

    def log_predictive(self, batch):
        return sum(axis.log_predictive(batch["y"][:, i]) for i, axis in enumerate(self._axes))

    def _absorb(self, batch):
        return sum(axis.update(batch[:, i].tolist()).log_predictive for i, axis in enumerate(self._axes))


def test_rows_have_the_clusters_of_their_time():
    plan = experiment.QUICK
    ordered, shuffled = (experiment.simulate(plan, order) for order in experiment.ORDERS)
    np.testing.assert_allclose(np.sort(ordered[:, 0]), np.sort(shuffled[:, 0]))
    angles = np.round(np.arctan2(ordered[:, 1], ordered[:, 0]) / (2 * np.pi / 7)) % 7
    first, second = plan.changes
    parts = (angles[:first], angles[first:second], angles[second:])
    # A few rows per thousand stray into the sector of another cluster.
    counts = [np.bincount(part.astype(int), minlength=7) / len(part) for part in parts]
    assert [int(np.sum(share > 0.02)) for share in counts] == [3, 5, 7]


def test_the_changes_are_found_and_the_shuffled_rows_raise_no_alarm(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "make_online", lambda count, plan, seed: Plane())
    monkeypatch.setattr("sys.argv", ["distribution_shift.py", "--quick", "--out", str(tmp_path)])
    experiment.main()
    written = json.loads((tmp_path / "distribution_shift.json").read_text())
    assert (tmp_path / "distribution_shift.png").stat().st_size > 10_000
    for entry in written["summary"].values():
        for kind in ("alarms", "density_alarms"):
            assert entry[kind]["found_within_one_chunk"]["500"]
            assert entry[kind]["alarms_shuffled"] == 0
        # The evidence of an exact model does not depend on the order of the rows; their sums are rounded.
        assert abs(entry["difference_in_order_minus_shuffled"]) < 1e-3
