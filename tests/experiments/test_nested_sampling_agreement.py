"""The appendix' comparison in small: nested sampling and AIS agree on the mixture."""

import copy

import numpy as np
import pytest

import evidentia as ev
from experiments import nested_sampling_agreement as experiment
from experiments.experiment import Settings

pytestmark = pytest.mark.experiments


def made_up(differences, error=0.1, num_runs=4):
    """A record of runs whose means differ by the given numbers."""

    def runs(values, error):
        # Every run has the same value: the error of their mean is the reported one over √num_runs.
        return {
            str(20 * (index + 1)): {
                "log_evidence": [value] * num_runs,
                "standard_error": [error * num_runs**0.5] * num_runs,
                "seconds": [1.0] * num_runs,
                "signs": [[]] * num_runs,
            }
            for index, value in enumerate(values)
        }

    sizes = [20 * (index + 1) for index in range(len(differences))]
    first = [-2.0 * size for size in sizes]
    second = [value + difference for value, difference in zip(first, differences, strict=True)]
    names = experiment.REFLECTING, experiment.ANNEALED
    return {
        "sizes": sizes,
        "runs": {names[0]: runs(first, 0.6 * error), names[1]: runs(second, 0.8 * error)},
    }


def test_differences_and_their_errors():
    summary = experiment.summarise(made_up([0.1, -0.3]))
    np.testing.assert_allclose(summary["difference"], [0.1, -0.3])
    np.testing.assert_allclose(summary["joint_error"], 0.1)  # 0.06 and 0.08
    np.testing.assert_allclose(summary["means"][0], [-40, -80])


def test_the_verdict_is_that_of_the_errors():
    def agrees(differences):
        return experiment.judge(made_up(differences)).agrees

    normal = 0.1 * np.random.default_rng(0).standard_normal(30)
    assert agrees(list(normal))
    assert not agrees([*normal, 0.8])  # one is eight errors off
    assert not agrees(list(normal + 0.1))  # each within two errors or so, but shifted to one side
    assert not agrees(list(2 * normal))  # errors twice as large as reported


def test_what_was_given_up_is_not_compared():
    record = made_up([0.0, 0.1, -50.0])
    assert not experiment.judge(record).agrees
    given_up = copy.deepcopy(record)
    runs = given_up["runs"][experiment.ANNEALED]["60"]
    runs["signs"] = [[experiment.GIVEN_UP], *runs["signs"][1:]]
    verdict = experiment.judge(given_up)
    assert verdict.agrees and "gave up: 60 rows" in verdict.measured


def test_the_verdict_says_how_far_a_record_went():
    verdict = experiment.EXPERIMENTS[0].judge(made_up([0.0, 0.1]))
    assert (
        "at 2 numbers of rows from 20 to 40" in verdict.measured
        and "continues to 250 rows" in verdict.measured
    )


def test_many_rows_are_eight_in_the_table():
    rows = experiment.table(made_up([0.01 * index for index in range(50)]))
    assert [row["rows"] for row in rows][:: len(rows) - 1] == [20, 1000] and len(rows) == 8


@pytest.mark.reference
def test_nested_sampling_agrees_with_annealed_importance_sampling(tmp_path):
    plan = experiment.Plan(
        {
            experiment.REFLECTING: ev.NestedSampling(num_particles=64),
            experiment.ANNEALED: ev.AIS(num_particles=128, target_ess=0.97),
        },
        (20, 60),
        3,
    )
    record = experiment.compare(plan, Settings())
    assert record["seeds"] == [[20_000, 20_001, 20_002], [60_000, 60_001, 60_002]]
    summary = experiment.summarise(record)
    scores = summary["difference"] / summary["joint_error"]
    assert np.all(np.abs(scores) < 4), scores  # two differences: by chance once in 10⁴
    experiment.draw(record).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
