"""The arithmetic of change detection, with given numbers."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evidentia as ev
from evidentia.monitor import EDetector


def feed(detector, continued, restarted, num_rows=10, state=None):
    """Process batches one by one; `restarted(n, j)` is candidate j's log density of batch n."""
    state = detector.init() if state is None else state
    infos, born = [], []
    for n, value in enumerate(continued):
        born = [*born, n] if detector.opens_candidate(state) else born
        state, info = detector.update(state, num_rows, value, [restarted(n, j) for j in born])
        born = [born[i] for i in info.kept]
        infos.append(info)
    return state, infos


def test_the_value_is_the_sum_of_products_of_ratios():
    """M₃ = p₁(2) p₁(3) / p₀(2) p₀(3) + p₂(3) / p₀(3), with candidates from the second batch on."""
    logs = {(1, 1): -9.0, (2, 1): -11.5, (2, 2): -12.0}
    _, infos = feed(EDetector(1e-9), [-8.0, -10.0, -11.0], lambda n, j: logs[n, j])
    assert infos[0].log_e_value == -math.inf
    assert infos[1].log_e_value == pytest.approx(1.0)
    assert infos[2].log_e_value == pytest.approx(math.log(math.exp(1.0 - 0.5) + math.exp(-1.0)))


def test_an_alarm_says_where_how_sure_and_by_how_much():
    """Losing 20 nats a batch from row 30 on passes log 10¹² = 27.6 nats in the second batch."""
    gains = {1: -5.0, 2: -3.0, 3: 20.0, 4: 20.0}
    state, infos = feed(
        EDetector(1e-12), [-30.0] * 5, lambda n, j: -30.0 + gains[n] + (1.0 if j == 3 else 0.0)
    )
    assert [info.alarm is not None for info in infos] == [False] * 4 + [True]
    change = infos[4].alarm
    assert change.row == 30 and change.num_observations == 50
    assert change.log_bayes_factor == pytest.approx(42.0)
    # Row 30 has 42 nats, row 20 has 40 - 3 and row 40 has 20: the interval extends to both
    # neighbours.
    assert change.interval == (21, 39)
    assert infos[4].candidate == 2 and infos[4].kept == ()
    assert state.segment_start == 30 and state.num_observations == 50 and len(state.starts) == 0


def test_candidates_are_bounded_thin_out_with_age_and_include_the_leading_one():
    detector = EDetector(1e-300, max_candidates=8)
    state, infos = feed(detector, [0.0] * 600, lambda n, j: 0.01 if j == 137 else -0.01)
    assert max(len(info.kept) for info in infos) == 7, "one place is reserved for the next"
    assert 1370 in state.starts
    ages = (state.num_observations - np.sort(state.starts)[::-1])[:-1] / 10
    assert ages[0] <= 2 and np.all(ages[1:] / ages[:-1] < 6), ages


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=40), st.integers(1, 6), st.sampled_from([1, 2, 3]))
def test_fewer_candidates_never_raise_the_value(gains, max_candidates, every):
    """Pathwise, so the guarantee holds; M of all candidates is Σⱼ exp(gains[j] + … + gains[n])."""
    _, infos = feed(EDetector(1e-300, max_candidates, every), [0.0] * len(gains), lambda n, j: gains[n])
    for n, info in enumerate(infos):
        terms = [sum(gains[j : n + 1]) + math.log(every) for j in range(1, n + 1) if j % every == 0]
        bound = np.logaddexp.reduce(terms) if terms else -math.inf
        assert info.log_e_value <= bound + 1e-9
        if max_candidates >= len(gains):
            assert info.log_e_value == pytest.approx(bound)


def test_tempering_and_monte_carlo_variance_take_off_evidence():
    state = EDetector().init(10)
    plain, _ = EDetector(1e-9).update(state, 10, -12.0, [-10.0])
    tempered, _ = EDetector(1e-9, tempering=0.5).update(state, 10, -12.0, [-10.0])
    noisy, _ = EDetector(1e-9).update(state, 10, -12.0, [-10.0], continued_variance=0.25)
    assert plain.log_e_values[0] == 2.0 and tempered.log_e_values[0] == 1.0 and noisy.log_e_values[0] == 1.75
    assert plain.log_bayes_factors[0] == tempered.log_bayes_factors[0] == noisy.log_bayes_factors[0] == 2.0


def test_the_mean_value_stays_at_the_number_of_batches_under_noise_of_monte_carlo():
    """Estimates with a log-normal error of mean one, whose variance would make Mₙ outgrow n.

    The standard error of the mean is estimated from the 1,500 streams.
    """
    generator = np.random.default_rng(0)
    variance, ends = 0.04, []
    for _ in range(1500):
        detector = EDetector(1e-300, max_candidates=100)
        state = detector.init(1)
        for noise in generator.normal(-variance / 2, math.sqrt(variance), 8):
            state, info = detector.update(state, 1, noise, [0.0] * (len(state.starts) + 1), variance)
        ends.append(math.exp(info.log_e_value))
    assert abs(np.mean(ends) - 8) < 4 * np.std(ends) / math.sqrt(len(ends))


def test_impossible_batches():
    detector = EDetector(0.01)
    _, info = detector.update(detector.init(10), 10, -math.inf, [-50.0])
    assert info.alarm.row == 10 and info.log_e_value == math.inf
    _, info = detector.update(detector.init(10), 10, -math.inf, [-math.inf])
    assert info.alarm is None and info.kept == () and info.log_e_value == -math.inf
    _, info = detector.update(detector.init(10), 10, -5.0, [-math.inf])
    assert info.kept == ()


def test_the_state_is_plain_numbers():
    """After a round trip through JSON, the next update is bit for bit the same."""
    detector = EDetector(0.01)
    state, _ = feed(detector, [-1.0, -2.0, -1.5], lambda n, j: -1.7 - 0.1 * j)
    stored = json.loads(json.dumps({k: np.asarray(v).tolist() for k, v in state._asdict().items()}))
    again = type(state)(*(np.asarray(v) if isinstance(v, list) else v for v in stored.values()))
    for one, other in zip(
        detector.update(state, 7, -3.0, [-2.0] * 3), detector.update(again, 7, -3.0, [-2.0] * 3), strict=True
    ):
        assert str(one) == str(other)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"false_alarm_rate": 1.0}, "false_alarm_rate is a number of alarms per batch between 0 and 1; got 1.0"),
        ({"max_candidates": 0}, "max_candidates must be an integer of at least 1; got 0"),
        ({"restart_every": 1.5}, "restart_every must be an integer of at least 1; got 1.5"),
        ({"tempering": 0}, "tempering must be above 0 and at most 1; got 0"),
    ],
)  # fmt: skip
def test_fields_out_of_range(fields, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        EDetector(**fields)


def test_numbers_that_do_not_fit():
    detector = EDetector()
    with pytest.raises(
        ev.ConfigurationError, match="must hold 1 log predictive densities, 0 of .* and 1 of .*got 2"
    ):
        detector.update(detector.init(5), 5, -1.0, [-1.0, -1.0])
    with pytest.raises(ev.ConfigurationError, match="must not be NaN; got continued=nan"):
        detector.update(detector.init(5), 5, math.nan, [-1.0])
    with pytest.raises(ev.ConfigurationError, match="num_rows must be an integer of at least 1; got 0"):
        detector.update(detector.init(5), 0, -1.0, [-1.0])
