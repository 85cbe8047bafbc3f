"""The change detector with exact models; `experiments/false_alarms.py` has longer simulations."""

import math

import numpy as np
import pytest

import evidentia as ev
from evidentia.monitor.protocols import OnlineLike, UpdateLike
from evidentia.online import OnlineUpdate
from experiments import false_alarms as experiment
from experiments.conjugate import Bernoulli, Gaussian


def first_alarm(detector, rows, size):
    for start in range(0, len(rows), size):
        if alarm := detector.update(rows[start : start + size]).alarm:
            return alarm
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prior", "fixed, centre", "Bernoulli", "Student t, tempering=0.5"])
def test_the_average_run_length_is_at_least_one_over_the_rate(name):
    """Run lengths of 200 streams each, cut at 45 batches, so their mean is a lower bound.

    Measured on 400 streams cut at 200: 68, 58 and 54 batches, where the rate requires 20; for the
    wrong model 51 with tempering, which no theorem guarantees, and 18 without.
    """
    found = experiment.false_alarms(name, rate=0.05, batch_size=1, horizon=45, num_streams=200)
    assert found["mean_run_length_cut_at_horizon"] - 3 * found["standard_error"] > found["needed"] == 20


def test_a_clear_change_is_found_within_one_batch():
    generator = np.random.default_rng(0)
    for _ in range(20):
        rows = generator.normal(size=300)
        change = 10 * int(generator.integers(10, 30))
        rows[change:] += 4
        detector = ev.ChangeDetector(Gaussian(), false_alarm_rate=1e-4)
        for start in range(0, change + 10, 10):
            report = detector.update(rows[start : start + 10])
            assert (report.alarm is not None) == (start == change)
        assert report.alarm.row == change and report.alarm.num_observations == change + 10
        first, last = report.alarm.interval
        assert first <= change <= last
        # The exact drop: log evidence of the later rows alone minus that given the rows before.
        alone, both = Gaussian(), Gaussian()
        alone.update(rows[change : change + 10])
        both.update(rows[:change])
        drop = alone.log_evidence - both.update(rows[change : change + 10]).log_predictive
        assert report.alarm.log_bayes_factor == pytest.approx(drop)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 10])
def test_the_interval_covers_the_change(batch_size):
    """Fewer than 32 of 40 intervals at 95% cover with probability 1.3e-4 (binomial)."""
    found = experiment.detection(2.0, batch_size, 1e-3, num_streams=40)
    assert found["num_missed"] == 0
    assert found["coverage_of_interval"] * (40 - found["num_before_the_change"]) >= 32


def two_changes(on_change, **settings):
    generator = np.random.default_rng(1)
    rows = generator.normal(size=900) + np.repeat([0.0, 5.0, -5.0], 300)
    detector = ev.ChangeDetector(Gaussian(), 1e-4, on_change, **settings)
    reports = [detector.update(rows[start : start + 20]) for start in range(0, 900, 20)]
    return detector, reports, rows


def test_every_change_is_found_once_and_the_model_left_alone():
    detector, reports, rows = two_changes(None)
    assert [report.alarm.row for report in reports if report.alarm] == [300, 600]
    alone = Gaussian()
    alone.update(rows)
    assert detector.online.num_observations == 900
    assert detector.online.log_evidence == pytest.approx(alone.log_evidence)
    assert detector.segment is not detector.online and detector.segment.num_observations == 300
    assert reports[-1].num_observations == 900 and reports[-1].update.num_observations == 900


def test_forget_goes_on_with_the_rows_since_the_change_and_restart_with_those_to_come():
    forgetting, reports, rows = two_changes("forget")
    assert [report.alarm.row for report in reports if report.alarm] == [300, 600]
    assert forgetting.online is forgetting.segment and forgetting.online.num_observations == 300
    since = Gaussian()
    since.update(rows[600:])
    assert forgetting.online.log_evidence == pytest.approx(since.log_evidence)
    restarting, reports, rows = two_changes("restart")
    assert [report.alarm.row for report in reports if report.alarm] == [300, 600]
    assert restarting.online is restarting.segment and restarting.online.num_observations == 280
    assert restarting.num_observations == 900


def test_candidates_are_bounded_and_fewer_where_asked():
    detector, reports, _ = two_changes(None, max_candidates=3)
    assert max(report.num_candidates for report in reports) == 2, "one place is reserved for the next"
    assert len(detector.candidates) == len(detector.state.detector.starts)
    _, reports, _ = two_changes(None, restart_every=5)
    found = [report.alarm for report in reports if report.alarm]
    assert len(found) == 2 and all(
        abs(alarm.row - row) <= 100 for alarm, row in zip(found, (300, 600), strict=True)
    )
    assert all(a.interval[0] <= row <= a.interval[1] for a, row in zip(found, (300, 600), strict=True))


def test_candidates_start_with_different_seeds():
    seeds = []

    class Seeded(Gaussian):
        def restarted(self, seed=0):
            seeds.append(seed)
            return Seeded()

    detector = ev.ChangeDetector(Seeded(), seed=3)
    for batch in np.random.default_rng(0).normal(size=(12, 5)):
        detector.update(batch)
    assert len(set(seeds)) == len(seeds) == 11
    assert all(isinstance(seed, int) and seed >= 0 for seed in seeds)


def test_a_model_that_has_seen_rows_can_be_watched():
    online = Gaussian()
    online.update(np.random.default_rng(0).normal(size=100))
    detector = ev.ChangeDetector(online)
    alarm = detector.update(np.full(10, 7.0) + 0.1 * np.arange(10)).alarm
    assert alarm.row == 100 and alarm.num_observations == 110


def test_a_detector_that_was_saved_goes_on_as_if_it_had_not_been():
    detector, _, _ = two_changes(None)
    again = ev.ChangeDetector(detector.online, 1e-4, None)
    rows = np.random.default_rng(2).normal(-5, 1, (6, 20))
    copies = [model.restarted(0) for model in (detector.online, detector.segment, *detector.candidates)]
    for copy, model in zip(copies, (detector.online, detector.segment, *detector.candidates), strict=True):
        copy.__dict__.update({**model.__dict__})
    again = ev.ChangeDetector(copies[0], 1e-4).resume(detector.state, copies[1], copies[2:])
    for batch in rows:
        one, other = detector.update(batch), again.update(batch)
        assert one.log_e_value == other.log_e_value and one.num_candidates == other.num_candidates
    assert str(detector.state) == str(again.state)
    with pytest.raises(ev.ConfigurationError, match="candidates must be the 7 models of the state; got 1"):
        ev.ChangeDetector(copies[0]).resume(detector.state, copies[1], copies[2:3])


class Annealed(Gaussian):
    """Reports given annealing steps and prediction errors, and fails at a given batch."""

    steps, errors, fails_at = (1,), (0.0,), None

    def update(self, batch):
        before = self.num_observations // 10
        if self.fails_at == before:
            raise ev.EstimationError("no particle is left")
        update = super().update(batch)
        update.num_annealing_steps = self.steps[min(before, len(self.steps) - 1)]
        error = self.errors[min(before, len(self.errors) - 1)]
        update.log_predictive_standard_error = error
        self.standard_error = math.hypot(self.standard_error, error)
        return update


def test_annealing_steps_far_above_the_earlier_ones_are_a_spike():
    class Spiking(Annealed):
        steps = (60, 2, 1, 1, 2, 1, 1, 30, 2)

    detector = ev.ChangeDetector(Spiking())
    rows = np.random.default_rng(0).normal(size=(9, 10))
    reports = [detector.update(batch) for batch in rows]
    assert [report.annealing_spike for report in reports] == [False] * 7 + [True, False]
    assert reports[7].annealing_ratio == 30.0 and math.isnan(reports[3].annealing_ratio)


def test_the_error_of_the_log_bayes_factor_joins_those_of_both_models():
    class Noisy(Annealed):
        errors = (0.1, 0.3, 0.5)

    detector = ev.ChangeDetector(Noisy(), 1e-3)
    for batch in np.random.default_rng(0).normal(size=(2, 10)):
        detector.update(batch)
    alarm = detector.update(np.random.default_rng(1).normal(9, 1, 10)).alarm
    assert alarm.row == 20
    # 0.5 for the third prediction of the current model, 0.1 for the first of the new one.
    assert alarm.standard_error == pytest.approx(math.hypot(0.5, 0.1))
    assert alarm.log_e_value < alarm.log_bayes_factor, "the variance is subtracted"


def test_a_candidate_that_fails_is_dropped_and_a_model_that_fails_raises():
    class Failing(Annealed):
        fails_at = 2

    class Sound(Annealed):
        def restarted(self, seed=0):
            return Failing()

    detector = ev.ChangeDetector(Sound())
    rows = np.random.default_rng(0).normal(size=(8, 10))
    assert max(detector.update(batch).num_candidates for batch in rows) == 2
    detector = ev.ChangeDetector(Failing())
    detector.update(rows[0])
    detector.update(rows[1])
    state = detector.state
    with pytest.raises(ev.EstimationError, match="no particle is left"):
        detector.update(rows[2])
    assert str(detector.state) == str(state)


class Restorable(Gaussian):
    """Has a state that can be restored, as `ev.Online` has."""

    @property
    def state(self):
        return dict(self.__dict__)

    def restore(self, state):
        self.__dict__ = dict(state)


@pytest.mark.parametrize("is_new", [False, True], ids=["an old candidate", "a new one"])
def test_a_batch_that_fails_at_a_candidate_is_as_if_it_had_not_come(is_new, monkeypatch):
    rows = np.random.default_rng(1).normal(size=(9, 20)) + np.repeat([0, 5], [5, 4])[:, None]
    once, twice = (ev.ChangeDetector(Restorable(), 1e-4) for _ in range(2))
    for batch in rows[:7]:  # with an alarm, so that `segment` is a separate model
        once.update(batch), twice.update(batch)
    assert once.segment is not once.online and len(once.candidates) == 1
    models = [twice.online, twice.segment, *twice.candidates]
    before, kept = [model.state for model in models], str(twice.state)
    calls, update = [], Restorable.update

    def failing(self, batch):
        calls.append(self)
        if len(calls) == len(models) + is_new:
            raise MemoryError
        return update(self, batch)

    monkeypatch.setattr(Restorable, "update", failing)
    with pytest.raises(MemoryError):
        twice.update(rows[7] + 9)
    monkeypatch.undo()
    assert calls[: len(models)] == models
    assert [twice.online, twice.segment, *twice.candidates] == models
    assert [model.state for model in models] == before and str(twice.state) == kept
    one, other = once.update(rows[8]), twice.update(rows[8])
    assert vars(one.update) == vars(other.update) and one[1:] == other[1:]
    assert str(once.state) == str(twice.state)


def test_online_has_all_that_is_used_of_it():
    names = [name for name in (*vars(OnlineLike), *OnlineLike.__annotations__) if not name.startswith("_")]
    assert len(names) == 7 and all(hasattr(ev.Online, name) for name in names)
    used = [name for name in vars(UpdateLike) if not name.startswith("_")]
    assert len(used) == 7 and set(used) <= set(OnlineUpdate._fields)


def test_arguments_out_of_range():
    with pytest.raises(
        ev.ConfigurationError, match='on_change must be None, "restart" or "forget"; got \'stop\''
    ):
        ev.ChangeDetector(Bernoulli(), on_change="stop")
    with pytest.raises(ev.ConfigurationError, match="online must be an evidentia.Online .* got int"):
        ev.ChangeDetector(3)
    with pytest.raises(ev.ConfigurationError, match="false_alarm_rate is a number of alarms per batch"):
        ev.ChangeDetector(Bernoulli(), false_alarm_rate=2)


def test_a_seed_out_of_range_is_named():
    with pytest.raises(ev.ConfigurationError, match="seed must be an integer"):
        ev.ChangeDetector(Gaussian(), seed=-1)
