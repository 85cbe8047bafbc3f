"""Saved results: equal to the last bit, replaced as a whole, with messages for damage."""

import dataclasses
import json
import math
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import evidentia as ev
from evidentia import kernels
from evidentia.checkpoint import results
from evidentia.checkpoint.methods import pack_method, unpack_method
from evidentia.evidence import sigmoid_schedule
from evidentia.regression.exact import GPrior
from evidentia.results.result import IN_SESSION
from evidentia.system.locking import FolderLock
from tests.evidence_factory import make_evidence

ODD_NAN = np.array([0x7FF8000000000123, 0xFFF0000000000001], np.uint64).view(np.float64)  # two of 2⁵³
METHODS = [
    ev.SGAIS.published(),
    ev.SGAIS(kernel=kernels.SGNHT(), gradient=ev.gradients.MiniBatch(50)),
    ev.AIS(kernel=kernels.Unscaled(kernels.RandomWalk())),
    ev.AIS(schedule=sigmoid_schedule(7)),
    ev.SMC.published(),
    ev.Sequential(initial=ev.NestedSampling(kernel=kernels.Rejection())),
    ev.OnlineNestedSampling(kernel=kernels.ConstrainedWalk()),
    ev.Jarzynski(),
    ev.Laplace(),
    ev.PriorSampling(),
    ev.HarmonicMean(),
    ev.BridgeSampling(),
    GPrior(None),
    GPrior(0.25),
]


@dataclass(frozen=True)
class OwnKernel:
    step_size: float = 0.1


def bits(value):
    """A value as something that is equal for equal bits and types alone."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, ev.Trajectory):
        return {name: bits(value[name]) for name in value.columns}
    if isinstance(value, dict):
        return [(name, bits(one)) for name, one in value.items()]
    if isinstance(value, float):
        return value.hex()
    return type(value), value


def fields(evidence):
    kept = [
        entry.name for entry in dataclasses.fields(evidence) if entry.name not in (*IN_SESSION, "weighted")
    ]
    weighted = evidence.weighted
    parts = [bits(part) for part in (weighted.parameters, weighted.log_weights, weighted.known)]
    return {"weighted": parts, **{name: bits(getattr(evidence, name)) for name in kept}}


def odd_evidence(**changes):
    """With all that is easily lost: NaN of several kinds, infinities, other types and shapes."""
    rng = np.random.default_rng(0)
    posterior = {
        "scalar": rng.normal(size=6),
        "odd values": np.array([*ODD_NAN, -0.0, math.inf, -math.inf, 5e-324]),
        "float32": rng.normal(size=(6, 2)).astype(np.float32),
        "no columns": np.zeros((6, 0, 3), np.float32),
        "transposed": rng.normal(size=(3, 2, 6)).T,
        "counts": np.arange(6),
        "log(x) [1, 2] · β.γ": rng.normal(size=(6, 1)).astype(np.float16),
        "": np.arange(6) > 2,
    }
    trajectory = ev.Trajectory([2, 9], [-0.0, -math.inf], [math.nan, math.inf], [0, 2**53 + 1], [0.1, 0.2])
    values = {
        "standard_error": math.nan,
        "trajectory": trajectory,
        "posterior": posterior,
        "log_weights": np.array([-0.1, -math.inf, -1.0, -2.0, -3.0, -4.0]),
        "diagnostics": {"rhat": math.nan, "count": 2**70, "warnings": "“ü”\n\0", "values": np.eye(2)},
        "method": ev.SGAIS(num_particles=6),
        "signs": {"few": "too few"},
        "response": "log(y)",
        "constant": "flat",
        "fingerprints": {"x": "00ff", "y": "0a"},
        "completed": False,
    }
    return make_evidence(**(values | changes))


@pytest.mark.parametrize(
    "evidence",
    [
        odd_evidence(),
        make_evidence(log_evidence=-math.inf, method=ev.SMC()),
        make_evidence(posterior={}, log_weights=np.zeros(0), method=None),
        make_evidence(trajectory=ev.Trajectory([], [], [], [], []), method=ev.AIS()),
    ],
    ids=["odd", "plain", "no particles", "no updates"],
)
def test_a_result_comes_back_to_the_last_bit(evidence, tmp_path):
    evidence.save(tmp_path / "new" / "folder")
    assert fields(ev.load(tmp_path / "new" / "folder")) == fields(evidence)


@pytest.mark.slow
def test_a_fresh_process_loads_the_same_bits(tmp_path):
    model = ev.models.linear_regression(num_features=2)
    data, _ = model.simulate(50, 0)
    evidence = ev.estimate(model, data, method=ev.Laplace(num_particles=64))
    evidence.save(tmp_path / "result")
    script = (
        "import sys, evidentia as ev; from tests.checkpoint.test_results import fields; "
        "print(repr(fields(ev.load(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "result"], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{fields(evidence)!r}\n", done.stderr


def test_a_loaded_result_does_what_the_first_did(tmp_path):
    evidence = make_evidence(fingerprints={"y": "1"})
    evidence.save(str(tmp_path))
    loaded = ev.load(str(tmp_path))
    assert loaded.to_dict() == {**evidence.to_dict(), "method": str(evidence.method)}
    assert "<td>Method</td>" in loaded._repr_html_() and repr(loaded) == repr(evidence)
    first, second = evidence.to_arviz(), loaded.to_arviz()
    np.testing.assert_array_equal(first.posterior["weights"], second.posterior["weights"])
    assert first.attrs["method"] == second.attrs["method"]
    assert loaded.plot(ax=Figure().subplots()).lines
    assert ev.compare({"first": evidence, "loaded": loaded}).log_bayes_factor[1] == 0
    with pytest.raises(ev.DataError, match="same data"):
        ev.compare({"loaded": loaded, "other": make_evidence(fingerprints={"y": "2"})})


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_methods_come_back_equal(method):
    packed = json.loads(json.dumps(pack_method(method), allow_nan=False))
    assert unpack_method(packed) == method and type(unpack_method(packed)) is type(method)


def test_a_method_with_parts_of_ones_own_comes_back_as_text():
    for method in (OwnKernel(0.2), with_kernel(OwnKernel(0.2)), with_kernel(math.sqrt)):
        assert unpack_method(pack_method(method)) == repr(method)
        assert unpack_method(pack_method(repr(method))) == repr(method)  # loaded, then saved again


def with_kernel(kernel):
    changed = replace(ev.SGAIS())
    object.__setattr__(changed, "kernel", kernel)  # as a user's own class passes the checks
    return changed


@pytest.mark.parametrize(
    "change",
    [
        {"classes": {"SGAIS": "subprocess"}},
        {"classes": {"SGAIS": "evidentia.nowhere"}},
        {"classes": {}},
        {"parts": {"record": "SGAIS", "fields": {"num_particles": "many"}}},
        {"parts": {"record": "SGAIS", "fields": {"gone": 1}}},
    ],
)
def test_a_method_that_this_version_does_not_know_is_text(change):
    packed = pack_method(ev.SGAIS())
    assert unpack_method({**packed, **change}) == repr(ev.SGAIS())


class Killed(BaseException):
    """A process that ends here."""


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Killed()], ids=["disk", "killed"])
def test_an_interrupted_save_leaves_the_old_or_the_new_result(error, tmp_path, monkeypatch):
    old, new = make_evidence(seed=1, method=None), odd_evidence()
    old.save(tmp_path / "result")
    original, seen = os.replace, []
    for number in range(6):
        calls = iter(range(100))

        def failing(source, target, calls=calls, number=number):
            if next(calls) == number:
                raise error
            original(source, target)

        monkeypatch.setattr(os, "replace", failing)
        with suppress(Killed, ev.CheckpointError):
            new.save(tmp_path / "result")
        monkeypatch.setattr(os, "replace", original)
        found = fields(ev.load(tmp_path / "result"))
        seen.append("new" if found == fields(new) else "old" if found == fields(old) else "mixture")
        assert not list((tmp_path / "result").glob("*.new"))
    assert seen == ["old"] * 5 + ["new"]  # five files, the index last
    assert len(list((tmp_path / "result").iterdir())) == 5


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        ev.CheckpointError, match="could not be saved in .*: No space left on device. A result"
    ):
        make_evidence().save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_leftovers_of_a_killed_process_are_no_hindrance(tmp_path):
    left = [tmp_path / name for name in ("posterior-0123456789abcdef.parquet.new", "evidence.json.new")]
    for path in left:
        path.write_bytes(b"half")
    make_evidence().save(tmp_path)
    assert ev.load(tmp_path).log_evidence == -1234.5 and not any(path.exists() for path in left)


@pytest.mark.parametrize("name", ["notes.txt", "posterior.parquet", ".hidden", "evidence.json"])
def test_other_files_are_left_alone(name, tmp_path):
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(ev.CheckpointError, match=f"{name} was not written by Evidence.save. Name another"):
        make_evidence().save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(ev.CheckpointError, match="was not written by Evidence.save"):
        make_evidence().save(tmp_path / name)


@pytest.mark.parametrize("path", [None, 3, "", b"folder"])
def test_a_path_that_is_none_is_named(path):
    for use in (make_evidence().save, ev.load):
        with pytest.raises(ev.ConfigurationError, match="path must be the name of a folder; got"):
            use(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"posterior": {"a": np.zeros(6), "b": np.zeros(5)}}, "a has 6 rows, b has 5 rows"),
        ({"posterior": {"a": np.array(["x"])}}, "a is an array of <U1"),
        ({"diagnostics": {"own": object()}}, "cannot hold a object"),
    ],
)
def test_what_cannot_be_saved_is_named(changes, message, tmp_path):
    with pytest.raises(ev.CheckpointError, match=f"the result cannot be saved: .*{message}"):
        make_evidence(**changes).save(tmp_path / "result")
    assert not (tmp_path / "result").exists()


def test_a_folder_without_a_result_is_explained(tmp_path):
    for path, message in (
        (tmp_path / "none", "none holds no saved result: there is no such folder"),
        (tmp_path, "holds no saved result: it has no evidence.json"),
        (tmp_path / "file", "holds no saved result: it is a file. Name the folder"),
    ):
        (tmp_path / "file").touch()
        with pytest.raises(ev.CheckpointError, match=message):
            ev.load(path)
    make_evidence().save(tmp_path / "evidence_linear")
    with pytest.raises(ev.CheckpointError, match=r"name one of the folders in it \(evidence_linear\)"):
        ev.load(tmp_path)


def test_other_formats_and_files_are_explained(tmp_path):
    make_evidence().save(tmp_path)
    index = tmp_path / "evidence.json"
    kept = json.loads(index.read_bytes())
    for change, message in (
        (
            {"format": results.FORMAT + 1},
            "has the format 2 of a newer version of evidentia; this version reads",
        ),
        ({"file": "other"}, "evidence.json was not written by Evidence.save"),
        ({"format": "1"}, "is damaged: its format is not a number"),
        ({"sha256": "0"}, "is damaged: the content of evidence.json does not match its SHA-256"),
    ):
        index.write_text(json.dumps({**kept, **change}))
        with pytest.raises(ev.CheckpointError, match=message):
            ev.load(tmp_path)


def test_a_damaged_file_is_an_error_or_harmless(tmp_path):
    """Every tenth byte of each file is changed in turn, and each file is cut and removed."""
    evidence = odd_evidence(posterior={"a": np.arange(6.0)})
    evidence.save(tmp_path / "whole")
    whole, known = tmp_path / "whole", fields(evidence)
    damaged, harmless = 0, 0
    for path in whole.iterdir():
        data = path.read_bytes()
        changed = [
            data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :] for place in range(0, len(data), 10)
        ]
        for content in [*changed, data[: len(data) // 2], b""]:
            path.write_bytes(content)
            try:
                harmless += fields(ev.load(whole)) == known
            except ev.CheckpointError:
                damaged += 1
        path.write_bytes(data)
    assert damaged > 200 and harmless < damaged / 10  # white space of JSON
    shutil.copytree(whole, tmp_path / "part")
    next((tmp_path / "part").glob("posterior*")).unlink()
    with pytest.raises(ev.CheckpointError, match="part is damaged: No such file"):
        ev.load(tmp_path / "part")


def test_two_that_save_at_once_leave_one_result_whole(tmp_path):
    both, problems = [make_evidence(seed=seed, log_evidence=-1.0 - seed) for seed in range(3)], []

    def save(evidence):
        try:
            for _ in range(6):
                evidence.save(tmp_path / "result")
                assert ev.load(tmp_path / "result").log_evidence in (-1.0, -2.0, -3.0)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=save, args=(evidence,)) for evidence in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert ev.load(tmp_path / "result").log_evidence in (-1.0, -2.0, -3.0)
    assert len(list((tmp_path / "result").iterdir())) == 4  # neither leftovers nor a lock


SAVING = """
import sys
from tests.evidence_factory import make_evidence
evidence = make_evidence(seed=int(sys.argv[2]))
for _ in range(20):
    evidence.save(sys.argv[1])
"""


@pytest.mark.slow
def test_processes_that_save_at_once_leave_one_result_whole(tmp_path):
    words = [sys.executable, "-c", SAVING, str(tmp_path / "result")]
    running = [subprocess.Popen([*words, str(seed)]) for seed in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert ev.load(tmp_path / "result").seed in range(3)


def test_a_lock_that_is_held_is_named(tmp_path):
    make_evidence().save(tmp_path)
    with (
        FolderLock(tmp_path, "the folder"),
        pytest.raises(ev.CheckpointError, match="in use by process"),
    ):
        results.write_result(tmp_path, results.read_result(tmp_path), patience=0.0)


@pytest.mark.parametrize("name", ["lock", "lock.holder"])
def test_a_file_of_others_under_the_name_of_a_lock_stays(name, tmp_path):
    (tmp_path / name).write_text("precious")
    with pytest.raises(ev.CheckpointError, match=f"{name} was not written by evidentia"):
        make_evidence().save(tmp_path)
    assert (tmp_path / name).read_text() == "precious"


def test_a_store_keeps_the_files_of_another_that_saves(monkeypatch):
    pytest.importorskip("upath", reason="needs the extra storage")
    first, second, original = make_evidence(seed=1), make_evidence(seed=2, log_evidence=-2.0), results.replace
    url = "memory://bucket/two-at-once"
    make_evidence(seed=3, log_evidence=-3.0).save(url)

    def interrupted(path, data):
        if path.name == results.INDEX:  # another one saves before the index is written
            monkeypatch.setattr(results, "replace", original)
            second.save(url)
        original(path, data)

    monkeypatch.setattr(results, "replace", interrupted)
    first.save(url)
    assert ev.load(url).seed == 1
