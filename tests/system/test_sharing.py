"""Threads that share an object lose no batch; a forked process says what it cannot do."""

import copy
import os
import pickle
import select
import signal
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import evidentia as ev
from evidentia.monitor import NormalInverseGamma, RunLengths
from evidentia.system.sharing import OneAtATime
from tests.evidence_factory import make_evidence

MODEL = ev.models.linear_regression(num_features=1)
METHOD = ev.SGAIS(num_particles=16)
DATA, _ = MODEL.simulate(400, seed=0)
TABLE = {"x": DATA["x"][:, 0], "y": DATA["y"]}


def batch(number):
    return {name: values[20 * number : 20 * number + 20] for name, values in DATA.items()}


def online():
    return ev.Online(MODEL, METHOD, reservoir_size=500)


def in_threads(work, count=4):
    """Run `work(number)` in threads that start together; raise what one of them raised."""
    errors, start = [], threading.Barrier(count)

    def run(number):
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def detector_fleet():
    fleet = ev.ChangeDetectorFleet(MODEL, max_candidates=2)
    fleet.update({"a": batch(0)})
    return fleet


def online_fleet():
    fleet = ev.OnlineFleet(MODEL)
    fleet.update({"a": batch(0)})
    return fleet


def averaged():
    return ev.ModelAverage({"one": online(), "two": online()})


SHARED = {
    "Online": (online, lambda one, number: one.update(batch(number))),
    "ModelAverage": (averaged, lambda one, number: one.update(batch(number))),
    "ChangeDetector": (
        lambda: ev.ChangeDetector(online(), max_candidates=2),
        lambda one, number: one.update(batch(number)),
    ),
    "OnlineFleet": (
        online_fleet,
        lambda one, number: (
            one.update({"a": batch(number)}) if number % 2 else one["a"].update(batch(number))
        ),
    ),
    "ChangeDetectorFleet": (
        detector_fleet,
        lambda one, number: (
            one.update({"a": batch(number)}) if number % 2 else one["a"].update(batch(number))
        ),
    ),
}


@pytest.mark.parametrize("kind", [*SHARED])
def test_threads_lose_no_batch(kind):
    make, update = SHARED[kind]
    shared = make()

    def work(number):
        for place in range(3):
            update(shared, 1 + 3 * number + place)

    in_threads(work)
    one = shared["a"] if kind.endswith("Fleet") else shared
    assert one.num_observations == 20 * (12 + kind.endswith("Fleet"))


def test_a_checkpoint_of_an_object_that_others_update_is_whole(tmp_path):
    shared = online()
    shared.update(batch(0))

    def work(number):
        for place in range(4):
            if number:
                shared.update(batch(4 * number + place))
            else:
                shared.save(tmp_path)
                ev.Online.load(tmp_path, MODEL)

    in_threads(work, 3)


@pytest.mark.filterwarnings("ignore::evidentia.errors.DiagnosticWarning")
def test_a_likelihood_outside_jax_serves_one_run_at_a_time():
    model = ev.Model.from_callable(
        lambda x: -0.5 * float(x @ x), prior_transform=lambda u: 4 * u - 2, num_parameters=2
    )
    method, found = ev.PriorSampling(num_particles=64), {}

    def work(number):
        found[number] = ev.estimate(model, method=method, seed=number % 2)

    in_threads(work)
    assert {one.diagnostics["num_evaluations"] for one in found.values()} == {
        found[0].diagnostics["num_evaluations"]
    }
    assert found[0].log_evidence == found[2].log_evidence

    with pytest.raises(ev.ConfigurationError, match="is being estimated in this thread already"):
        ev.estimate(model, method=method, progress=lambda update: ev.estimate(model, method=method))


def test_copies_have_a_lock_of_their_own():
    shared = OneAtATime()
    with shared:
        for other in (copy.copy(shared), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))):
            done = threading.Thread(target=other.__enter__, daemon=True)
            done.start()
            done.join(10)
            assert not done.is_alive()


# --- Forks ---------------------------------------------------------------------------------------

ENTRIES = {
    "estimate": lambda kept: ev.estimate(MODEL, DATA),
    "regress": lambda kept: ev.estimate(ev.Regression("y ~ x"), TABLE),
    "select_terms": lambda kept: ev.select_terms("y ~ x", TABLE),
    "estimate_many": lambda kept: list(ev.estimate_many(MODEL, [DATA])),
    "sandwich": lambda kept: ev.sandwich(MODEL, 20),
    "Online": lambda kept: ev.Online(MODEL).update(batch(0)),
    "Online before": lambda kept: kept["online"].update(batch(1)),
    "evidence": lambda kept: kept["online"].evidence(),
    "posterior": lambda kept: kept["online"].posterior,
    "log_predictive": lambda kept: kept["online"].log_predictive(batch(1)),
    "load": lambda kept: ev.Online.load(kept["folder"], MODEL),
    "OnlineFleet": lambda kept: kept["fleet"].update({"a": batch(1)}),
    "Stream": lambda kept: kept["fleet"]["a"].evidence(),
    "ModelAverage": lambda kept: ev.ModelAverage({"a": kept["online"]}).update(batch(1)),
    "mixture": lambda kept: ev.models.gaussian_mixture(2, 2),
    "simulate": lambda kept: kept["sequences"].simulate(10, seed=0),
    "predict": lambda kept: kept["predicts"].predict(n=3),
    "RunLengths": lambda kept: kept["runs"].update(np.arange(3.0)),
    "bridge_sampling_of": lambda kept: ev.bridge_sampling_of(
        lambda u: -0.5 * np.sum(u**2, axis=1),
        np.random.default_rng(0).normal(size=(500, 2)),
        num_observations=3,
    ),
}


def in_a_fork(function, patience=60):
    """What a function returns, or the message of its exception, in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = f"value {function()!r}"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    if not select.select([reading], [], [], patience)[0]:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as file:
        return file.read().decode()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    jnp.zeros(3).block_until_ready()  # JAX is in use
    one, folder = online(), tmp_path_factory.mktemp("kept")
    one.update(batch(0))
    one.save(folder)
    return {
        "online": one,
        "fleet": online_fleet(),
        "folder": folder,
        "sequences": ev.models.autoregression(1),
        "predicts": ev.estimate(MODEL, DATA, method=ev.SGAIS(num_particles=16)),
        "runs": RunLengths(NormalInverseGamma()),
    }


needs_forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")


@needs_forks
@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.parametrize("entry", [*ENTRIES])
def test_a_forked_child_is_told_to_start_afresh(entry, kept):
    said = in_a_fork(lambda: ENTRIES[entry](kept))
    assert said.startswith(
        f"ConfigurationError: this process was forked from process {os.getpid()}, which had used JAX"
    )
    assert "get_context('spawn')" in said


@needs_forks
@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_forked_child_compares_and_saves_results(kept, tmp_path):
    evidences = {"a": make_evidence(-1.0), "b": make_evidence(-2.0)}
    assert in_a_fork(lambda: ev.compare(evidences).best) == "value 'a'"
    assert in_a_fork(lambda: make_evidence().save(tmp_path) or ev.load(tmp_path).seed) == "value 0"


CHILD = """
import os, traceback, evidentia as ev, evidentia.system.sharing
child = os.fork()
if child == 0:
    try:
        model = ev.models.linear_regression(1)
        data, _ = model.simulate(50, 0)
        ev.estimate(model, data, method=ev.Laplace(num_particles=16))
        os._exit(7)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


@needs_forks
@pytest.mark.slow
def test_a_child_forked_before_jax_was_used_computes():
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr


def test_numbers_of_threads_and_of_one_thread_are_the_same():
    alone, shared, lock = online(), online(), threading.Lock()
    numbers = iter(range(6))

    def work(_):
        for _ in range(2):
            with lock:  # keeps the order of the batches
                shared.update(batch(next(numbers)))

    in_threads(work, 3)
    for number in range(6):
        alone.update(batch(number))
    assert np.float64(alone.log_evidence) == shared.log_evidence
