"""Change detection in many streams: each is as a detector by itself would be."""

import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.fleet.jobs import seed_of
from evidentia.streams import state as states

PRIOR = {"location": dist.Normal(0, 5), "scale": dist.HalfNormal(2)}


def log_likelihood(params, y):
    return dist.Normal(params["location"], params["scale"]).log_prob(y)


MODEL = ev.Model(PRIOR, log_likelihood, name="located")


def feed(count, num_batches=16, size=10):
    """Batches of streams by number; those whose number is divisible by four change at row 80."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((count, num_batches * size)).astype(np.float32)
    rows[::4, 80:] += 4
    for batch in range(num_batches):
        yield {index: rows[index, batch * size : (batch + 1) * size] for index in range(count)}


@pytest.mark.slow
@pytest.mark.parametrize("on_change", [None, "restart", "forget"])
def test_changes_are_found_where_they_are(on_change):
    detectors = ev.ChangeDetectorFleet(MODEL, 1e-5, on_change, max_candidates=4)
    alarms = {}
    for batches in feed(12):
        step = detectors.update(batches)
        assert not step.errors and set(step.results) == set(batches)
        alarms |= {name: report.alarm for name, report in step.results.items() if report.alarm}
    assert set(alarms) == {0, 4, 8}
    assert all(alarm.row == 80 and alarm.num_observations == 90 for alarm in alarms.values())
    rows = {None: 160, "restart": 70, "forget": 80}[on_change]
    assert detectors[0].online.num_observations == rows and detectors[1].online.num_observations == 160
    assert len(detectors) == 12 and detectors.model is MODEL and "12 streams" in repr(detectors)


@pytest.mark.slow
def test_each_is_as_a_detector_by_itself():
    detectors = ev.ChangeDetectorFleet(MODEL, 1e-5, max_candidates=4, seed=2)
    alone = None
    for batches in feed(8):
        report = detectors.update(batches).results[4]
        if alone is None:
            stream = detectors[4].online.restarted(detectors[4].online.state.seed)
            seed = seed_of(2, 4, "candidates")
            alone = ev.ChangeDetector(stream, 1e-5, max_candidates=4, seed=seed)
        expected = alone.update(batches[4])
        expected = expected._replace(update=expected.update._replace(seconds=report.update.seconds))
        assert repr(report) == repr(expected)


@pytest.mark.slow
@pytest.mark.parametrize("on_change", [None, "forget"])
def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path, on_change):
    detectors, loaded = ev.ChangeDetectorFleet(MODEL, 1e-5, on_change, max_candidates=3), None
    for number, batches in enumerate(feed(5, num_batches=13)):
        step = detectors.update(batches)
        if loaded is not None:
            other = loaded.update(batches)
            for name, report in step.results.items():
                found = other.results[name]
                same = found._replace(update=found.update._replace(seconds=report.update.seconds))
                assert repr(same) == repr(report)
        if number in (6, 10):
            detectors.save(tmp_path)
            loaded = ev.ChangeDetectorFleet.load(tmp_path, MODEL)
    with pytest.raises(ev.CheckpointError, match=r"one that OnlineFleet.save wrote"):
        ev.OnlineFleet.load(tmp_path, MODEL)


def test_a_bad_batch_and_ctrl_c_leave_detectors_as_they_were(monkeypatch):
    detectors = ev.ChangeDetectorFleet(MODEL, 1e-5)
    all_batches = list(feed(3, num_batches=4))
    for batches in all_batches[:3]:
        detectors.update(batches)
    before = {name: (each.state, each.online.state, each.candidates) for name, each in detectors.items()}

    def is_as_before(name):
        now = detectors[name].state, detectors[name].online.state, detectors[name].candidates
        return (
            repr(now[0]) == repr(before[name][0]) and now[1] is before[name][1] and now[2] == before[name][2]
        )

    step = detectors.update({**all_batches[3], 1: np.array([np.inf]), "new": np.array([1.0, 2.0])})
    assert set(step.errors) == {1} and set(step.results) == {0, 2, "new"}
    assert is_as_before(1) and not is_as_before(0)
    before = {name: (each.state, each.online.state, each.candidates) for name, each in detectors.items()}

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(states, "log_likelihoods", interrupted)
    with pytest.raises(KeyboardInterrupt):
        detectors.update(all_batches[3])
    assert all(is_as_before(name) for name in detectors)
    del detectors["new"]
    assert list(detectors) == [0, 1, 2]


@pytest.mark.slow
def test_an_impossible_row_is_an_error_of_its_detector():
    model = ev.Model(
        {"rate": dist.Gamma(2.0, 1.0)}, lambda params, y: dist.Poisson(params["rate"]).log_prob(y)
    )
    detectors = ev.ChangeDetectorFleet(model)
    for _ in range(3):
        detectors.update({"a": np.array([1, 2, 3]), "b": np.array([2, 2, 1])})
    started = detectors["a"].state.num_started
    step = detectors.update({"a": np.array([-1]), "b": np.array([4])})
    assert set(step.errors) == {"a"} and set(step.results) == {"b"}
    assert detectors["a"].num_observations == 9 and detectors["a"].online.num_observations == 9
    assert detectors["a"].state.num_started == started


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"false_alarm_rate": 2.0}, "false_alarm_rate"),
        ({"on_change": "stop"}, "on_change"),
        ({"max_candidates": 0}, "max_candidates"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_bad_arguments(settings, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.ChangeDetectorFleet(MODEL, **settings)
    with pytest.raises(ev.ModelError, match="model must be an evidentia.Model"):
        ev.ChangeDetectorFleet("located")
