"""The experiment on appearing clusters, with simple models whose evidence is exact."""

import copy

import numpy as np
import pytest

import evidentia as ev
from experiments import distribution_shift as experiment
from experiments import distribution_shift_verdict as verdict_of
from experiments.conjugate import Conjugate, Gaussian
from experiments.experiment import Settings

pytestmark = pytest.mark.experiments

PLAN = experiment.Plan(3_000, 2_000, (500, 1_500), 250, num_seeds=2)


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
        patch.setattr(experiment, "make_online", lambda count, seed: Plane())
        patch.setattr(experiment, "particles_log_likelihood", lambda online, rows: [-3.0] * 10)
        return experiment.run(Settings(quick=True), PLAN)


def test_rows_have_the_clusters_of_their_time():
    ordered, shuffled = (experiment.simulate(PLAN, order) for order in experiment.ORDERS)
    np.testing.assert_allclose(np.sort(ordered[:, 0]), np.sort(shuffled[:, 0]))
    distances = np.linalg.norm(ordered[:, None] - experiment.CENTRES, axis=2)
    first, second = PLAN.changes
    for start, end, present in ((0, first, 3), (first, second, 5), (second, None, 7)):
        near = np.sum(distances[start:end, :5] < 0.3, axis=0)
        # The first five clusters are apart: no row of one is near the centre of another.
        assert np.all(near[: min(present, 5)] > 5) and np.all(near[present:5] == 0)


def test_two_clusters_overlap_others():
    apart = np.linalg.norm(experiment.CENTRES[[5, 6]] - experiment.CENTRES[[0, 2]], axis=1)
    np.testing.assert_allclose(apart / experiment.WIDTHS[[5, 6]], experiment.OVERLAP)


def test_the_published_method_processes_the_rows():
    online = experiment.make_online(3, seed=0)
    assert online.method == ev.SGAIS.published() and online.method.num_particles == 10


def test_no_false_alarms_and_no_effect_of_the_order(record):
    assert [summary[0]["num_rows"] for summary in record["summaries"]] == [3_000, 2_000]
    for summary in record["summaries"]:
        for entry in summary:
            assert entry["false"] == 0
            # Exact evidence does not depend on the order of the rows, up to rounding.
            ordered, shuffled = entry["log_evidence"]
            assert abs(ordered - shuffled) < 2e-3


def test_alarms_are_told_apart():
    plan = {"changes": [1_000, 10_000], "chunk_size": 500}
    ordered = [{"num_observations": rows} for rows in (1_500, 4_000, 11_000)]
    # The first change in time, one alarm without a change, and the second change too late.
    assert verdict_of.count_alarms(ordered, ordered[:1], plan) == {"found": 1, "false": 3}


def seen(log_evidence, steps):
    """A run of four chunks with a change at row 200."""
    return {
        "num_observations": [100, 200, 300, 400],
        "log_predictive_per_row": [-2.0, -1.5, -3.0, -2.0],
        "log_evidence": [0.0, log_evidence / 2, 0.0, log_evidence],
        "num_annealing_steps": steps,
        "particles_log_likelihood_per_row": [-2.0, -2.2],
        "alarms": [],
    }


def judged(plan, runs, seeds=3):
    """The verdict on seeds whose runs are all alike."""
    summaries = [verdict_of.summarise(plan, runs)] * seeds
    return verdict_of.judge({"plan": plan, "summaries": summaries})


def test_the_verdict_agrees_and_names_what_differs():
    plan = experiment.Plan(400, 400, (200,), 100)._asdict()
    final = {3: -900.0, 5: -605.0, 7: -600.0}
    right = {
        verdict_of.key(count, order): seen(value - shift, [20, 8, 30, 2 if count == 7 else 60])
        for count, value in final.items()
        for order, shift in zip(verdict_of.ORDERS, (0.0, 0.3), strict=True)
    }
    verdict = judged(plan, right)
    assert verdict.agrees and "0.0000, 0.7375, 0.7500 nats per row" in verdict.measured
    ordered, shuffled = verdict_of.ORDERS
    for count, order, change, failed in (
        (3, ordered, {"log_evidence": [0.0, -300.0, 0.0, -500.0]}, "the worst"),
        (5, ordered, {"log_evidence": [0.0, -302.0, 0.0, -700.0]}, "nearly alike"),
        (7, shuffled, {"log_evidence": [0.0, -300.0, 0.0, -650.0]}, "order matters"),
        (5, ordered, {"log_predictive_per_row": [-2.0, -1.5, -1.4, -2.0]}, "densities fall"),
        (5, ordered, {"num_annealing_steps": [20, 8, 7, 40]}, "steps rise"),
        (3, ordered, {"num_annealing_steps": [20, 8, 9, 1]}, "stay high"),
    ):
        wrong = copy.deepcopy(right)
        wrong[verdict_of.key(count, order)].update(change)
        verdict = judged(plan, wrong)
        assert not verdict.agrees and f"{failed}" in verdict.measured, change
        assert "(0 of 3 seeds)" in verdict.measured


def test_a_statement_that_most_seeds_bear_out_agrees():
    plan = experiment.Plan(400, 400, (200,), 100)._asdict()
    runs = {
        verdict_of.key(count, order): seen(value, [20, 8, 30, 2 if count == 7 else 60])
        for count, value in {3: -900.0, 5: -605.0, 7: -600.0}.items()
        for order in verdict_of.ORDERS
    }
    other = copy.deepcopy(runs)
    other[verdict_of.key(3, "in order")]["num_annealing_steps"] = [20, 8, 9, 1]
    good, bad = verdict_of.summarise(plan, runs), verdict_of.summarise(plan, other)
    verdict = verdict_of.judge({"plan": plan, "summaries": [good, good, bad]})
    assert verdict.agrees and "stay high with too few components (2 of 3 seeds)" in verdict.measured
    assert not verdict_of.judge({"plan": plan, "summaries": [good, bad]}).agrees


def test_picture_and_table(record, tmp_path):
    experiment.draw(record).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert [row["components"] for row in experiment.table(record)] == [3, 5, 7]
    assert [np.sum(counts) for counts in record["histograms"].values()] == [500, 1_000, 1_500, 3_000]
