"""The experiment on appearing clusters, with simple models whose evidence is exact."""

import copy

import numpy as np
import pytest

from experiments import distribution_shift as experiment
from experiments.conjugate import Conjugate, Gaussian
from experiments.experiment import Settings

pytestmark = pytest.mark.experiments

PLAN = experiment.Plan(3_000, (500, 1_500), 250, 128)


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


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "make_online", lambda count, plan, seed: Plane())
        patch.setattr(experiment, "QUICK", PLAN)
        return experiment.run(Settings(quick=True))


def test_rows_have_the_clusters_of_their_time():
    ordered, shuffled = (experiment.simulate(PLAN, order) for order in experiment.ORDERS)
    np.testing.assert_allclose(np.sort(ordered[:, 0]), np.sort(shuffled[:, 0]))
    angles = np.round(np.arctan2(ordered[:, 1], ordered[:, 0]) / (2 * np.pi / 7)) % 7
    first, second = PLAN.changes
    parts = (angles[:first], angles[first:second], angles[second:])
    # A few rows per thousand stray into the sector of another cluster.
    counts = [np.bincount(part.astype(int), minlength=7) / len(part) for part in parts]
    assert [int(np.sum(share > 0.02)) for share in counts] == [3, 5, 7]


def test_the_changes_are_found_and_the_shuffled_rows_raise_no_alarm(record):
    for entry in experiment.summarise(record).values():
        for kind in ("alarms", "density_alarms"):
            assert entry[kind]["found"] >= 1
            assert entry[kind]["shuffled"] == 0
        # Exact evidence does not depend on the order of the rows, up to rounding.
        assert abs(entry["difference"]) < 1e-3


def test_alarms_are_told_apart():
    plan = {"changes": [1_000, 10_000], "chunk_size": 500}
    ordered = [{"num_observations": rows} for rows in (1_500, 4_000, 11_000)]
    # The first change in time, one alarm without a change, and the second change too late.
    assert experiment.count_alarms(ordered, ordered[:1], plan) == {"found": 1, "other": 2, "shuffled": 1}


def seen(steps, log_evidence, rows):
    """A run of four chunks with a change at row 200, and alarms at some rows."""
    alarms = [{"num_observations": row} for row in rows]
    return {
        "num_observations": [100, 200, 300, 400],
        "log_predictive_per_row": [-2.0, -1.5, -3.0, -2.0],
        "log_evidence": [0.0, 0.0, 0.0, log_evidence],
        "standard_error": [0.1] * 4,
        "num_annealing_steps": steps,
        "alarms": alarms,
        "density_alarms": alarms,
    }


def test_the_verdict_agrees_and_can_differ():
    plan = experiment.Plan(400, (200,), 100, num_clusters=(3, 5), num_components=(5,))._asdict()
    ordered, shuffled = (experiment.key(5, order) for order in experiment.ORDERS)
    right = {
        "plan": plan,
        "runs": {
            ordered: seen([20, 4, 30, 8], -900.0, [300]),
            shuffled: seen([20, 8, 10, 4], -900.3, []),
        },
    }
    verdict = experiment.judge(right)
    # A rise from 4 to 30, against one from 8 to 10; 0.3 nats with an error of 0.14.
    assert verdict.agrees and "7.5-fold" in verdict.measured and "1.2-fold" in verdict.measured
    for key, change in (
        (ordered, {"num_annealing_steps": [20, 4, 5, 8]}),  # hardly a rise
        (ordered, {"log_predictive_per_row": [-2.0, -1.5, -1.4, -2.0]}),  # no fall
        (ordered, {"density_alarms": []}),
        (shuffled, {"density_alarms": [{"num_observations": 400}]}),
        (shuffled, {"log_evidence": [0.0, 0.0, 0.0, -901.0]}),
    ):
        wrong = copy.deepcopy(right)
        wrong["runs"][key].update(change)
        assert not experiment.judge(wrong).agrees, change


def test_picture_and_table(record, tmp_path):
    experiment.draw(record).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert [row["components"] for row in experiment.table(record)] == [3, 5, 7]
