"""Alarms from a density histogram: exact for every distribution, however wrong the model."""

import numpy as np
import pytest

import evidentia as ev
from evidentia.monitor import DensityHistogram
from experiments import false_alarms as experiment
from experiments.conjugate import Gaussian


def test_the_next_row_falls_into_each_bin_with_the_probability_that_is_said():
    """The predicted probabilities of Cauchy rows under a Gaussian, to four standard errors."""
    generator, ratios = np.random.default_rng(0), []
    for _ in range(2000):
        rows = generator.standard_cauchy(31)
        histogram = DensityHistogram.fit(
            Gaussian(), rows[:30], num_bins=4, seed=int(generator.integers(2**31))
        )
        assert histogram.prior.sum() == 16 and len(histogram.counts) == 4
        chance = np.exp(histogram.update(rows[30:]).log_predictive)
        ratios.append(0.25 / chance)  # an e-value: mean one
    ratios = np.array(ratios)
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(len(ratios))


@pytest.mark.reference
def test_no_more_false_alarms_than_the_rate_where_the_model_is_wrong():
    """Measured: run lengths of 74 batches (20 required), but 18 by the wrong model's evidence."""
    found = experiment.false_alarms("Student t, histogram", 0.05, 1, horizon=60, num_streams=200)
    assert found["mean_run_length_cut_at_horizon"] - 3 * found["standard_error"] > found["needed"] == 20


def test_a_change_is_found_at_the_row_of_the_stream():
    generator = np.random.default_rng(1)
    rows = generator.standard_t(3, 800)
    rows[600:] *= 4
    histogram = DensityHistogram.fit(Gaussian(), rows[:200])
    assert histogram.num_observations == 200
    detector = ev.ChangeDetector(histogram, 1e-4)
    alarms = [detector.update(rows[start : start + 50]).alarm for start in range(200, 800, 50)]
    (alarm,) = [alarm for alarm in alarms if alarm]
    assert alarm.interval[0] <= 600 <= alarm.interval[1] and alarm.num_observations <= 700


def test_batches_add_up_and_copies_begin_anew():
    rows = np.random.default_rng(2).normal(size=300)
    one, two = (DensityHistogram.fit(Gaussian(), rows[:100], seed=3) for _ in range(2))
    one.update(rows[100:])
    for part in np.split(rows[100:], 4):
        update = two.update(part)
    assert two.log_evidence == pytest.approx(one.log_evidence) == update.log_evidence
    assert update.batch_size == 50 and update.num_observations == 300
    copy = two.restarted(0)
    assert copy.num_observations == 0 and (copy.prior == 0.5).all() and copy.scorer is two.scorer
    np.testing.assert_allclose(np.exp(copy.log_predictive(rows[:7])), 1 / 20)
    assert two.posterior["probabilities"].shape == (1, 20) and two.weighted.log_weights.shape == (1,)


def test_an_array_that_is_filled_anew_is_a_new_batch_and_copies_share_the_pass_over_it():
    class Counting(Gaussian):
        num_passes = 0

        def log_predictive(self, batch):
            Counting.num_passes += 1
            return super().log_predictive(batch)

    rows = np.random.default_rng(4).normal(size=(3, 100))
    filled, fresh = (DensityHistogram.fit(Counting(), rows[0]) for _ in range(2))
    copy, buffer, Counting.num_passes = filled.restarted(), np.empty(100), 0
    for values in (rows[1], rows[2], rows[2]):
        buffer[:] = values
        filled.update(buffer)
        copy.update(buffer)
        np.testing.assert_array_equal(copy.counts, filled.counts)
    assert Counting.num_passes == 3, "the same values again are a separate batch"
    for values in (rows[1], rows[2], rows[2]):
        fresh.update(values.copy())
    np.testing.assert_array_equal(filled.counts, fresh.counts)


def test_restored_it_is_as_before_the_batch():
    rows = np.random.default_rng(5).normal(size=(3, 100))
    histogram = DensityHistogram.fit(Gaussian(), rows[0])
    histogram.update(rows[1])
    before, counts, log_evidence = histogram.state, histogram.counts.copy(), histogram.log_evidence
    after = histogram.update(rows[2])
    histogram.restore(before)
    assert histogram.log_evidence == log_evidence
    np.testing.assert_array_equal(histogram.counts, counts)
    assert histogram.update(rows[2]) == after


def test_mappings_and_tuples_of_columns_are_split_too():
    class Columns(Gaussian):
        def update(self, batch):
            return super().update(batch["y"])

        def log_predictive(self, batch):
            return super().log_predictive(batch["y"])

    rows = np.random.default_rng(3).normal(size=100)
    histogram = DensityHistogram.fit(Columns(), {"y": rows}, num_bins=5)
    assert histogram.scorer.num_observations == 50 and histogram.prior.sum() == 51


def test_too_few_rows_or_bins():
    with pytest.raises(ev.ConfigurationError, match="at least 40 rows for 20 bins; half of the batch has 15"):
        DensityHistogram.fit(Gaussian(), np.arange(30.0))
    with pytest.raises(ev.ConfigurationError, match="num_bins must be an integer of at least 2; got 1"):
        DensityHistogram.fit(Gaussian(), np.arange(30.0), num_bins=1)
