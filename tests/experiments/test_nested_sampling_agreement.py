"""The appendix' comparison in small: nested sampling and AIS agree on the mixture."""

import numpy as np
import pytest

import evidentia as ev
from experiments import nested_sampling_agreement as experiment
from experiments.experiment import Settings

pytestmark = pytest.mark.experiments

NAMES = experiment.REFLECTING, experiment.ANNEALED
SCATTER = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])  # of five runs, in nats


def made_up(differences, scatter=SCATTER, signs=()):
    """A record whose runs scatter alike, and whose means differ by the given numbers."""

    def runs(values):
        return {
            str(20 * (index + 1)): {
                "log_evidence": list(value + scatter),
                "standard_error": [1.0] * len(scatter),
                "seconds": [1.0] * len(scatter),
                "signs": [list(signs)] * len(scatter),
            }
            for index, value in enumerate(values)
        }

    sizes = [20 * (index + 1) for index in range(len(differences))]
    first = [-2.0 * size for size in sizes]
    second = [value + difference for value, difference in zip(first, differences, strict=True)]
    found = {NAMES[0]: runs(first), NAMES[1]: runs(second)}
    return {
        "sizes": sizes,
        "seeds": [list(range(len(scatter)))] * len(sizes),
        "runs": {experiment.PUBLISHED: found},
    }


def test_both_methods_have_the_published_settings():
    for plan in experiment.PLANS.values():
        nested, other = plan.methods[experiment.PUBLISHED].values()
        assert nested == ev.NestedSampling.published() and nested.num_particles == 2
        assert other.num_particles in (2, 10) and plan.num_runs == 5
    assert other == ev.AIS.published()


def test_ranges_differences_and_their_errors():
    summary = experiment.summarise(made_up([0.1, -2.5]))
    np.testing.assert_allclose(summary.difference, [0.1, -2.5])
    error = np.sqrt(2 * np.var(SCATTER, ddof=1) / 5)
    np.testing.assert_allclose(summary.error, error)
    assert summary.overlap.tolist() == [True, False]  # both ranges are two nats wide
    np.testing.assert_allclose(summary.average, [-1.2, error / np.sqrt(2)])


def test_the_verdict_is_that_of_the_ranges_and_of_the_band():
    def agrees(differences, **settings):
        return experiment.judge(made_up(differences, **settings)).agrees

    assert agrees([0.5, -1.0, 1.5, 0.0])
    # One pair of ranges apart in 50 is as expected (one in 126), ten are not.
    assert agrees([0.0] * 49 + [2.5])
    assert not agrees([0.0] * 40 + [2.5] * 10)
    # The band is ±2 nats at 20 rows; the error of a difference here is 7 nats, or 0.07.
    assert agrees([3.0], scatter=14 * SCATTER)
    assert not agrees([3.0], scatter=0.14 * SCATTER)


def test_the_verdict_counts_warnings_and_says_how_far_a_record_went():
    verdict = experiment.EXPERIMENTS[0].judge(made_up([0.0, 0.1], signs=["ESS collapsed"]))
    assert "2 numbers of rows from 20 to 40" in verdict.measured
    assert "10 “ESS collapsed”" in verdict.measured
    assert "continues to 250 rows" in verdict.measured


def test_our_settings_stand_beside_the_published_ones():
    record = made_up([0.0, 0.1])
    record["runs"][experiment.OURS] = made_up([0.0, 0.0])["runs"][experiment.PUBLISHED]
    assert "With our settings" in experiment.judge(record).measured
    assert {row["settings"] for row in experiment.table(record)} == {"published", "ours"}


def test_many_rows_are_eight_in_the_table():
    rows = experiment.table(made_up([0.01 * index for index in range(50)]))
    assert [row["rows"] for row in rows][:: len(rows) - 1] == [20, 1000] and len(rows) == 8


@pytest.mark.reference
def test_nested_sampling_agrees_with_annealed_importance_sampling(tmp_path):
    plan = experiment.Plan({experiment.PUBLISHED: experiment.WITH_OURS[experiment.OURS]}, (20, 60), 3)
    record = experiment.compare(plan, Settings())
    assert record["seeds"] == [[20_000, 20_001, 20_002], [60_000, 60_001, 60_002]]
    summary = experiment.summarise(record)
    # Standard errors of 64 live points are half a nat or less; of the mean of three, 0.3 nats.
    assert np.all(np.abs(summary.difference) < 1.2), summary.difference
    experiment.draw(record).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
