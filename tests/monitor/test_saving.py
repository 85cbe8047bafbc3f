"""Checkpoints of averages, detectors and run lengths, with their models."""

import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.errors import CheckpointError, ConfigurationError
from evidentia.monitor import BetaHazard, OnlineRunLengths


def location(scale, name):
    return ev.Model(
        {"mean": dist.Normal(0, 3)},
        lambda params, batch: dist.Normal(params["mean"], scale).log_prob(batch["y"]),
        name=name,
    )


MODELS = {"narrow": location(1.0, "narrow"), "wide": location(2.0, "wide")}
ROWS = np.random.default_rng(0).normal(size=400).astype(np.float32)
ROWS[240:] += 3.0
BATCHES = [{"y": ROWS[start : start + 40]} for start in range(0, 400, 40)]
METHOD = ev.SGAIS(num_particles=64)


def new_average(forgetting=1.0):
    onlines = {name: ev.Online(model, METHOD) for name, model in MODELS.items()}
    return ev.ModelAverage(onlines, {"narrow": 2, "wide": 1}, forgetting=forgetting)


@pytest.mark.slow
@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_an_average_goes_on_bit_for_bit(forgetting, tmp_path):
    average = new_average(forgetting)
    for batch in BATCHES[:5]:
        average.update(batch)
    average.save(tmp_path)
    loaded = ev.ModelAverage.load(tmp_path, MODELS)
    assert (loaded.forgetting, loaded.prior_probabilities) == (forgetting, average.prior_probabilities)
    for batch in BATCHES[5:]:
        first, second = average.update(batch), loaded.update(batch)
    assert first._replace(updates={}) == second._replace(updates={})
    assert loaded.standard_error == average.standard_error > 0


def test_a_detector_goes_on_bit_for_bit(tmp_path):
    detector = ev.ChangeDetector(
        ev.Online(MODELS["narrow"], METHOD), 1e-2, on_change="forget", max_candidates=3, seed=4
    )
    for batch in BATCHES[:5]:
        detector.update(batch)
    detector.save(tmp_path)
    loaded = ev.ChangeDetector.load(tmp_path, MODELS["narrow"])
    assert (loaded.detector, loaded.on_change, loaded.seed) == (detector.detector, "forget", 4)
    alarms = []
    for batch in BATCHES[5:]:
        first, second = detector.update(batch), loaded.update(batch)
        assert first[1:] == second[1:] or first.annealing_ratio != first.annealing_ratio
        assert (first.alarm, first.log_e_value) == (second.alarm, second.log_e_value)
        alarms.append(first.alarm)
    assert any(alarms)


def test_run_lengths_go_on_bit_for_bit(tmp_path):
    """Also where a run is left out before the checkpoint and another after it."""
    hazard = BetaHazard(1, 9)
    runs = OnlineRunLengths(ev.Online(MODELS["narrow"], METHOD), hazard, max_runs=3, threshold=0.8, seed=4)
    for batch in BATCHES[:5]:
        runs.update(batch)
    runs.save(tmp_path)
    loaded = OnlineRunLengths.load(tmp_path, MODELS["narrow"])
    assert (loaded.hazard, loaded.max_runs, loaded.threshold, loaded.seed) == (hazard, 3, 0.8, 4)
    updates = [(runs.update(batch), loaded.update(batch)) for batch in BATCHES[5:]]
    assert all(first == second for first, second in updates)
    assert [update.alarm.row for update, _ in updates if update.alarm] == [240]
    assert updates[-1][0].left_out > 0 and loaded.standard_error == runs.standard_error > 0
    for length in ("lengths", "probabilities"):
        assert np.array_equal(getattr(loaded.run_length, length), getattr(runs.run_length, length))
    with pytest.raises(CheckpointError, match="model"):
        OnlineRunLengths.load(tmp_path, ev.models.linear_regression(num_features=1))


def test_run_lengths_before_any_row_are_saved(tmp_path):
    runs = OnlineRunLengths(ev.Online(MODELS["narrow"], METHOD))
    runs.save(tmp_path)
    loaded = OnlineRunLengths.load(tmp_path, MODELS["narrow"])
    assert loaded.update(BATCHES[0]) == runs.update(BATCHES[0])
    with pytest.raises(ConfigurationError, match="runs must be the 1 models of the state; got 0"):
        loaded.resume(runs.state, [])


class Exact:
    """Not an `Online`."""

    num_observations, log_evidence, standard_error = 0, 0.0, 0.0

    def update(self, batch): ...

    def restarted(self, seed): ...


def test_what_cannot_be_saved_or_loaded_is_said(tmp_path):
    with pytest.raises(CheckpointError, match=r"only models of evidentia\.Online can be saved; got .*Exact"):
        ev.ModelAverage({"a": Exact()}).save(tmp_path / "a")  # type: ignore[dict-item]
    with pytest.raises(CheckpointError, match=r"only models of evidentia\.Online can be saved; got .*Exact"):
        OnlineRunLengths(Exact()).save(tmp_path / "a")  # type: ignore[arg-type]
    average = new_average()
    average.update(BATCHES[0])
    average.save(tmp_path / "average")
    with pytest.raises(
        ConfigurationError, match="models must map the names of the checkpoint, narrow, wide, to"
    ):
        ev.ModelAverage.load(tmp_path / "average", {"narrow": MODELS["narrow"]})
    with pytest.raises(CheckpointError, match="is a checkpoint of something else: it holds a AverageState"):
        ev.ChangeDetector.load(tmp_path / "average", MODELS["narrow"])
    with pytest.raises(CheckpointError, match="is a checkpoint of something else: it holds a AverageState"):
        OnlineRunLengths.load(tmp_path / "average", MODELS["narrow"])
    average.onlines["narrow"].save(tmp_path / "online")  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match=r"folder must be one that ModelAverage\.save wrote"):
        ev.ModelAverage.load(tmp_path / "online", MODELS)
