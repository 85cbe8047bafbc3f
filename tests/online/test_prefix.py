"""`Online` of one sequence: exact all along, predictions, checkpoints, what is refused."""

import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev

Y = np.cumsum(np.random.default_rng(0).normal(size=120)).astype(np.float32)


def step(params, before, row):
    """An autoregression of first order, with y_0 = 0 and noise of deviation one."""
    mean = params["slope"] * before
    return row["y"], dist.Normal(mean, 1.0).log_prob(row["y"])


MODEL = ev.Model.from_recursion({"slope": dist.Normal(0.0, 1.0)}, lambda params: 0.0, step)


def exact_log_evidence(y):
    """log N(y; 0, I + x xᵀ), with the values before as x, in float64."""
    before, after = np.concatenate([[0.0], y[:-1]]), y.astype(float)
    precision, projection = 1 + before @ before, before @ after
    constant = len(y) * np.log(2 * np.pi) + np.log(precision)
    return -0.5 * (constant + after @ after - projection**2 / precision)


@pytest.fixture(scope="module")
def fed():
    """An `Online` after 110 rows, and its updates; a redraw was due at 100."""
    online = ev.Online(MODEL)
    return online, [online.update({"y": Y[first : first + 10]}) for first in range(0, 110, 10)]


@pytest.mark.slow
def test_the_evidence_is_exact_all_along(fed):
    online, updates = fed
    for update in updates:
        exact = exact_log_evidence(Y[: update.num_observations])
        assert abs(update.log_evidence - exact) < 4 * update.standard_error < 0.6
    assert [update.num_observations for update in updates] == list(range(10, 120, 10))
    assert sum(update.log_predictive for update in updates) == pytest.approx(updates[-1].log_evidence, abs=1)
    assert online.evidence().trajectory.num_observations[-1] == 110


def test_each_row_is_predicted_from_all_rows_before_it(fed):
    online, _ = fed
    found = online.log_predictive({"y": Y[110:]})
    exact = [exact_log_evidence(Y[: stop + 1]) - exact_log_evidence(Y[:stop]) for stop in range(110, 120)]
    np.testing.assert_allclose(found, exact, atol=0.1)


def test_a_checkpoint_goes_on_bit_for_bit(fed, tmp_path):
    online, _ = fed
    online.save(tmp_path)
    loaded = ev.Online.load(tmp_path, MODEL)
    assert loaded.update({"y": Y[110:]}).log_evidence == _copy(online).update({"y": Y[110:]}).log_evidence
    other = ev.Model.from_recursion({"slope": dist.Normal(0.0, 2.0)}, lambda params: 0.0, step)
    with pytest.raises(ev.CheckpointError, match="whose log prior differs"):
        ev.Online.load(tmp_path, other)


def _copy(online):
    return ev.Online.unpacked(online.packed(), MODEL)


def test_batches_are_checked_with_the_rows_before():
    timed = ev.Model.from_recursion({"slope": dist.Normal(0.0, 1.0)}, lambda params: 0.0, step, time="t")
    online = ev.Online(timed)
    online.update({"y": Y[:10], "t": np.arange(10)})
    for times, message in ((np.arange(9, 12), "row 10 has the same time as the row before"), (None, "names")):
        batch = {"y": Y[10:13]} if times is None else {"y": Y[10:13], "t": times}
        with pytest.raises(ev.DataError, match=message):
            online.update(batch)
    assert online.num_observations == 10


def test_a_sequence_too_long_to_be_kept_is_refused():
    online = ev.Online(MODEL, reservoir_size=500)
    with pytest.raises(ev.ConfigurationError, match="keeps all of them, at most reservoir_size=500; got 501"):
        online.update({"y": np.zeros(501)})


@pytest.mark.slow
def test_other_methods_count_rows_not_segments():
    online = ev.Online(MODEL, ev.Sequential(num_particles=128))
    for first in range(0, 60, 20):
        update = online.update({"y": Y[first : first + 20]})
        assert update.num_observations == first + 20 == online.state.past.num_observations
    assert abs(online.log_evidence - exact_log_evidence(Y[:60])) < 4 * online.standard_error < 0.6


@pytest.mark.slow
def test_arrays_grow_with_the_sequence():
    """From 256 rows to 1,024, within one batch."""
    y = np.random.default_rng(1).normal(size=300).astype(np.float32)
    online = ev.Online(MODEL)
    online.update({"y": y[:200]})
    online.update({"y": y[200:]})
    assert abs(online.log_evidence - exact_log_evidence(y)) < 4 * online.standard_error < 0.6


@pytest.mark.slow
def test_a_change_in_a_sequence_is_found():
    """The slope jumps from 0.9 to -0.9 at row 80, between two batches."""
    rng, y = np.random.default_rng(2), np.zeros(160, np.float32)
    for t in range(1, 160):
        y[t] = (0.9 if t < 80 else -0.9) * y[t - 1] + rng.normal()
    detector = ev.ChangeDetector(ev.Online(MODEL), false_alarm_rate=1e-2)
    reports = [detector.update({"y": y[first : first + 20]}) for first in range(0, 160, 20)]
    assert [report.alarm.row for report in reports if report.alarm] == [80]
