"""Real Dask and Ray instances on this machine: the evidence of one process, also after faults."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster
FOLDER = Path(__file__).parent
NEAR = 65_536  # rows of the sample on this machine


def outcomes(name, folder):
    """What the program of an engine wrote, a line for each outcome."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"needs the extra {name}: pip install 'evidentia[{name}]'")
    command = [sys.executable, "-u", str(FOLDER / f"one_{name}_run.py"), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"not done after {late.timeout:g} s; what was printed: {late.stdout!r}")
    assert done.returncode == 0, done.stderr[-5000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    return {name: outcome for line in lines for name, outcome in json.loads(line).items()}


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    return outcomes("dask", tmp_path_factory.mktemp("dask"))


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    return outcomes("ray", tmp_path_factory.mktemp("ray"))


def check_failed(outcome, message, num_observations=None):
    """An error with a message; with the evidence of so many rows if any were done."""
    assert message in outcome["error"]
    assert outcome["num_observations"] == num_observations
    assert not outcome["completed"]


def test_dask_is_exact(dask):
    for name in ("generated", "laplace"):
        found = dask[name]
        assert abs(found["log_evidence"] - dask["exact"]["log_evidence"]) < 4 * found["standard_error"]
        assert found["completed"] and found["standard_error"] < 0.05


@pytest.mark.parametrize("name", ["persisted", "arrays", "killed once"])
def test_dask_gives_the_same_digits(dask, name):
    assert dask[name]["log_evidence"] == dask["generated"]["log_evidence"]


@pytest.mark.parametrize(
    ("name", "message", "num_observations"),
    [
        ("no cluster", "ConfigurationError: data of Dask need a cluster, and no client is connected", None),
        ("other partitions", "must have the same partitions; data['x'] has 6, data['y'] has 12", None),
        ("text", "DataError: partition 0: data['y'] must hold numbers", None),
        ("unreadable", "DataError: partition 1 cannot be read, after retries: OSError", NEAR),
        # Dask suspects all that waited at a worker that died, so that it may name partition 0 too.
        ("always killed", "EstimationError: the workers that had partition", NEAR),
        ("other version", "0.1; this process has", None),
        ("disconnected", "EstimationError: the connection to the cluster was lost", NEAR),
    ],
)
def test_dask_faults_are_said(dask, name, message, num_observations):
    check_failed(dask[name], message, num_observations)


def test_dask_is_left_without_work_after_ctrl_c(dask):
    assert dask["interrupted"]["num_observations"] == NEAR
    assert dask["interrupted"]["error"] == "" and not dask["interrupted"]["completed"]
    assert dask["waiting"] == 0


def test_ray_is_exact(ray):
    found = ray["dataset"]
    assert abs(found["log_evidence"] - ray["exact"]) < 4 * found["standard_error"]
    assert found["completed"] and found["standard_error"] < 0.05


@pytest.mark.parametrize("name", ["source", "killed once"])
def test_ray_gives_the_same_digits(ray, name):
    assert ray[name]["log_evidence"] == ray["dataset"]["log_evidence"]


@pytest.mark.parametrize(
    ("name", "message", "num_observations"),
    [
        ("mapping", "DataError: data of Ray must be one dataset", None),
        ("unreadable", "DataError: partition 0 cannot be read, after retries: OSError", NEAR),
        ("always killed", "EstimationError: the workers that had partition 0", NEAR),
    ],
)
def test_ray_faults_are_said(ray, name, message, num_observations):
    check_failed(ray[name], message, num_observations)


def test_ray_needs_a_cluster(ray):
    assert ray["no cluster"] == "RayExecutor needs a cluster: call ray.init() first."


def test_ray_cancels_tasks(ray):
    assert ray["cancelled"] == 2  # of a call that could not run beside the cancelled one


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_fleets_have_the_numbers_of_one_process(engine, request):
    assert request.getfixturevalue(engine)["fleet"]


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_plain_functions_of_the_main_program_are_evaluated_at_workers(engine, request):
    assert request.getfixturevalue(engine)["callable"]
