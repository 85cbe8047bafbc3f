"""A call that is limited in time, and one that goes on after a kill."""

import re
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import CheckpointError, ConfigurationError, EstimationError
from evidentia.estimation.going_on import limited
from evidentia.system.interruption import TimeOver
from tests.estimation import one_killed_run
from tests.outside_peaks import log_likelihood, peak

MODEL = ev.models.linear_regression(num_features=2)
DATA, _ = MODEL.simulate(2000, 0)


def numbers(evidence):
    """All numbers of a result, but for times."""
    posterior = [np.asarray(one).tobytes() for one in evidence.posterior.values()]
    table = evidence.trajectory
    rows = [
        np.asarray(table[name]).tobytes() for name in ("num_observations", "log_evidence", "standard_error")
    ]
    return (
        evidence.log_evidence,
        evidence.standard_error,
        evidence.weighted.log_weights.tobytes(),
        posterior,
        rows,
    )


@pytest.mark.reference
@pytest.mark.parametrize("name", one_killed_run.RUNS)
def test_killed_runs_go_on_to_the_same_numbers(tmp_path, name):
    run = one_killed_run.RUNS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = run(None)
        for number in (0, 5):  # from the second on, entries of the one before are there
            command = [sys.executable, one_killed_run.__file__, str(tmp_path), name, str(number)]
            ended = subprocess.run(command, capture_output=True, check=False)
            assert ended.returncode == -signal.SIGKILL or number > 0, ended.stderr.decode()[-2000:]
        found = run(str(tmp_path))
    assert numbers(found) == numbers(alone)


@pytest.mark.slow
def test_the_seconds_are_over_and_the_same_call_goes_on(tmp_path):
    method = ev.Laplace(num_particles=100_000)
    alone = ev.estimate(MODEL, DATA, method=method)

    def slow(update):
        time.sleep(0.2)

    with pytest.warns(
        ev.errors.EvidenceWarning, match=r"time was over \(max_seconds=2\): stopped after \d+ steps"
    ):
        part = ev.estimate(MODEL, DATA, method=method, max_seconds=2, checkpoint=tmp_path, progress=slow)
    assert not part.completed
    assert part.verdict.word != "trusted"
    whole = ev.estimate(MODEL, DATA, method=method, checkpoint=tmp_path)
    assert whole.completed
    assert numbers(whole) == numbers(alone)


def test_another_call_or_another_model_with_the_folder_is_refused(tmp_path):
    method = ev.Laplace(num_particles=300)
    ev.estimate(MODEL, DATA, method=method, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="is that of another call: seed was 0; got 1"):
        ev.estimate(MODEL, DATA, method=method, checkpoint=tmp_path, seed=1)
    with pytest.raises(CheckpointError, match="another call: method was Laplace"):
        ev.estimate(MODEL, DATA, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="another call: data was"):
        ev.estimate(MODEL, {**DATA, "y": DATA["y"] + 1}, method=method, checkpoint=tmp_path)


@pytest.mark.slow
def test_a_path_that_is_cut_says_how_far_it_was():
    def slow(update):
        time.sleep(0.3)

    message = (
        r"^time was over \(max_seconds=0\.5\) before SMC\(\) had a log evidence: it was (at step \d+, with \d+% of the work done\. Allow "
        r"more seconds, or use fewer particles|in its first step, which includes compilation\. Allow more seconds; ev\.use_compilation_cache "
        r"keeps compiled programs for later processes)\. A call with checkpoint=folder can be continued later\.$"
    )
    with pytest.raises(EstimationError, match=message):
        ev.estimate(MODEL, DATA, method=ev.SMC(num_particles=64), max_seconds=0.5, progress=slow)


@pytest.mark.parametrize(
    ("checkpoint", "more"),
    [(None, "A call with checkpoint=folder can be continued"), ("run", "The same call goes on from here")],
)
@pytest.mark.parametrize("place", ["before SMC() had a log evidence.", "before the run began."])
def test_what_to_do_when_the_seconds_were_too_few(checkpoint, more, place):
    said = place if "SMC" in place else ""
    message = re.escape(f"over (max_seconds=9) {place} {more}")
    with pytest.raises(EstimationError, match=message), limited(9, checkpoint):
        raise TimeOver(f"over (max_seconds=9) {said}".strip())


@pytest.mark.slow
def test_a_slow_function_outside_jax_is_stopped_between_its_points():
    def slow(x):
        time.sleep(0.02)
        return log_likelihood(x)

    started = time.perf_counter()
    with pytest.raises(
        EstimationError, match=r"^time was over \(max_seconds=2\) before AMIS\(\) had a log evidence"
    ):
        ev.estimate(peak(log_likelihood=slow), max_seconds=2)
    assert time.perf_counter() - started < 4.0


@pytest.mark.parametrize("seconds", [0, -1, np.inf, "2"])
def test_seconds_that_are_none(seconds):
    with pytest.raises(
        ConfigurationError, match=f"max_seconds must be positive.*; got {re.escape(repr(seconds))}"
    ):
        ev.estimate(MODEL, DATA, max_seconds=seconds)


def test_seconds_that_are_over_before_the_run():
    with pytest.raises(
        EstimationError, match=r"^time was over \(max_seconds=1e-09\) before SGAIS\(\) had a log evidence"
    ):
        ev.estimate(MODEL, DATA, max_seconds=1e-9)


@pytest.mark.slow
def test_nested_sampling_knows_when_its_live_points_say_nothing_of_the_top():
    """Early in a run they are far from the posterior; near its end they are draws from it."""
    method = ev.NestedSampling(num_particles=64)

    def stop_at(share):
        def stop(update):
            if update.share_done >= share:
                raise KeyboardInterrupt

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ev.estimate(MODEL, DATA, method=method, progress=stop)

    early, late = stop_at(0.0), stop_at(0.97)
    assert not early.completed
    assert np.isnan(early.standard_error)
    assert early.verdict.word == "failed"
    assert "the log evidence is too low by an unknown amount" in early.verdict.reason
    assert late.verdict.word != "trusted"
    exact = ev.estimate(MODEL, DATA).log_evidence
    assert abs(late.log_evidence - exact) < 4 * late.standard_error or np.isnan(late.standard_error)


@pytest.mark.slow
def test_amis_has_the_estimate_of_its_last_draws():
    """Draws of a round do not depend on fits to them; those of all rounds together are too low."""

    def stop(update):
        if update.standard_error > 0:
            raise KeyboardInterrupt

    with pytest.warns(ev.errors.EvidenceWarning, match="stopped after"):
        found = ev.estimate(MODEL, DATA, method=ev.AMIS(), progress=stop)
    exact = ev.estimate(MODEL, DATA).log_evidence
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.4
    assert found.verdict.word == "doubtful"
