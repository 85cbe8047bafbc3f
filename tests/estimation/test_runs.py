"""Runs over a source: the evidence of its rows, and what is left where one ends early."""

from dataclasses import replace

import numpy as np
import pytest

import evidentia as ev
from evidentia.data.fingerprint import fingerprints, sums_by_name
from evidentia.data.sources import ArraySource, IterableSource
from evidentia.errors import ConfigurationError, DataError, EstimationError, EvidenceWarning
from evidentia.estimation.runs import SourceRun, drive

MODEL = ev.models.linear_regression(num_features=3)
METHOD = ev.SGAIS(num_particles=64)


@pytest.fixture(scope="module")
def data():
    return MODEL.simulate(3000, 3)[0]


def batches(data, size=700):
    for first in range(0, len(data["y"]), size):
        yield {name: values[first : first + size] for name, values in data.items()}


@pytest.mark.slow
def test_a_source_has_the_log_evidence_of_its_rows(data):
    updates = []
    evidence = ev.estimate(MODEL, IterableSource(batches(data)), method=METHOD, progress=updates.append)
    assert abs(evidence.log_evidence - MODEL.exact_log_evidence(data)) < 3 * evidence.standard_error
    assert evidence.completed and evidence.num_observations == 3000 and evidence.standard_error < 0.2
    assert [(update.num_observations, update.total_observations) for update in updates] == [(3000, None)]
    assert evidence.fingerprints == fingerprints(sums_by_name(data))


@pytest.mark.slow
def test_rows_with_missing_values_can_be_left_out_and_are_counted(data):
    """The standard error reported with 64 particles varies by a factor of two, hence eight seeds.

    The mean squares of actual and reported errors have a ratio of 0.97 over 2,000 seeds; χ²
    allows 3.3 for eight (0.1%).
    """
    holey = {"x": data["x"], "y": np.where(np.arange(3000) % 10 == 0, np.nan, data["y"])}
    source = ArraySource(holey, missing="drop")
    runs = [ev.estimate(MODEL, source, method=METHOD, seed=seed) for seed in range(8)]
    assert all(run.num_observations == 2700 and run.diagnostics["num_dropped"] == 300 for run in runs)
    whole = {name: values[np.arange(3000) % 10 != 0] for name, values in data.items()}
    errors = np.array([run.log_evidence for run in runs]) - MODEL.exact_log_evidence(whole)
    assert np.mean(errors**2) < 3.3 * np.mean([run.standard_error**2 for run in runs])


@pytest.mark.reference
def test_more_particles_are_taken_where_a_target_asks_for_them(data):
    evidence = ev.estimate(MODEL, ArraySource(data), method=METHOD, target_standard_error=0.004)
    assert evidence.standard_error <= 0.004 and evidence.num_particles > 64


@pytest.mark.slow
def test_after_ctrl_c_there_is_the_result_so_far(data):
    def stop(update):
        raise KeyboardInterrupt

    with pytest.warns(EvidenceWarning, match="stopped after 3000 of 3000 observations"):
        evidence = ev.estimate(MODEL, ArraySource(data), method=METHOD, progress=stop)
    assert not evidence.completed and evidence.num_observations == 3000


def in_small_batches(model, source):
    return drive(SourceRun(model, source, 0, 0.0, METHOD, batch_size=1000), lambda update: None)


def test_an_error_half_way_holds_the_result_so_far(data):
    def spoilt():
        yield from batches(data, 1500)
        yield {"x": np.full((5, 3), 1e30, np.float32), "y": np.zeros(5, np.float32)}

    unchecked = replace(MODEL, check_data=None)  # so that values beyond float32's range reach the particles
    with pytest.raises(EstimationError, match="rows 3000 to 3004") as caught:
        in_small_batches(unchecked, IterableSource(spoilt()))
    assert caught.value.evidence is not None and caught.value.evidence.num_observations == 3000


def test_data_that_are_bad_half_way_leave_the_result_so_far(data):
    holey = {"x": data["x"], "y": np.where(np.arange(3000) == 2500, np.nan, data["y"])}
    with pytest.raises(DataError, match="NaN or infinite values in 1 of 1000 rows") as caught:
        in_small_batches(MODEL, IterableSource(batches(holey, 1000)))
    assert caught.value.evidence is not None and caught.value.evidence.num_observations == 2000


def test_ctrl_c_while_particles_are_drawn_anew_at_the_end_loses_nothing(data, monkeypatch):
    def stop(online):
        raise KeyboardInterrupt

    monkeypatch.setattr(ev.Online, "redraw", stop)
    with pytest.warns(EvidenceWarning, match="stopped after 3000 of 3000"):
        assert not ev.estimate(MODEL, ArraySource(data), method=METHOD).completed


def test_a_source_that_is_read_only_once_leaves_the_first_result_where_a_target_needs_a_second(data):
    with pytest.raises(DataError, match="once") as caught:
        ev.estimate(MODEL, IterableSource(batches(data)), method=METHOD, target_standard_error=1e-3)
    assert caught.value.evidence is not None and caught.value.evidence.completed


def test_what_cannot_be_done_with_a_source_is_said(data):
    with pytest.raises(ConfigurationError, match="method must be a configuration of SGAIS"):
        ev.estimate(MODEL, ArraySource(data), method=ev.AIS())
    with pytest.raises(DataError, match="at least one observation; the source has none"):
        ev.estimate(MODEL, IterableSource([]), method=METHOD)
