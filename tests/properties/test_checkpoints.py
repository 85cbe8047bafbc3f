"""Whatever a checkpoint holds, loading gives the state that was saved or a CheckpointError.

A forged checkpoint, whose checksum is right, may also give another state of the right types.
"""

import hashlib
import io
import json
import shutil
import tracemalloc

import jax
import numpy as np
import pytest
from hypothesis import strategies as st

import evidentia as ev
from evidentia.checkpoint.folder import CURRENT, PREVIOUS, CheckpointFolder, read
from evidentia.checkpoint.packing import pack
from evidentia.cli import main
from evidentia.cli.stream.session import RECORDS, Session
from evidentia.data.batches import Batch
from evidentia.errors import CheckpointError
from tests.properties.examples import ODD, changed, damaged, examples, for_all, paths_of

MODEL = ev.models.linear_regression(1)
METHOD = ev.SGAIS(num_particles=16)
ROWS = {"x": np.linspace(-1, 1, 40, dtype=np.float32)[:, None], "y": np.linspace(-1, 2, 40, dtype=np.float32)}


def online():
    return ev.Online(MODEL, METHOD, seed=1, reservoir_size=500)


def write_online(folder):
    """Two checkpoints of an `Online`, after 0 and 40 rows."""
    one = online()
    one.save(folder)
    one.update(ROWS)
    one.save(folder)


def write_session(folder):
    """Two checkpoints of a session with a change detector, after 40 and 80 rows."""
    session = Session({"linear": online()}, false_alarm_rate=0.01)
    for _ in range(2):
        session.update(Batch(ROWS, 40))
        with CheckpointFolder(folder) as checkpoints:
            checkpoints.write(session.packed(), {"rows": session.num_observations})


KINDS = {
    "online": (write_online, lambda folder: ev.Online.load(folder, MODEL).packed()),
    "session": (
        write_session,
        lambda folder: Session.unpacked(read(folder, RECORDS)[0], {"linear": MODEL}).packed(),
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def kept(request, tmp_path_factory):
    """A folder with two checkpoints, and the function that loads the newest."""
    write, load = KINDS[request.param]
    folder = tmp_path_factory.mktemp("kept") / "run"
    write(folder)
    return folder, load


def fingerprint(content):
    """Everything in a packed object, with all digits."""
    skeleton = pack(content, arrays := [])
    return json.dumps(skeleton), [(array.dtype.str, array.shape, array.tobytes()) for array in arrays]


@pytest.mark.slow
@examples(many=1500, few=40)
def test_a_damaged_file_gives_what_was_saved_or_an_error(count, kept, tmp_path):
    folder, load = kept
    states = [fingerprint(load(folder))]
    newest, before = (folder / CURRENT).read_bytes(), (folder / PREVIOUS).read_bytes()
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / CURRENT).write_bytes(before)
    states.append(fingerprint(load(tmp_path / "run")))
    line, payload = (newest.partition(b"\n")[place] for place in (0, 2))
    swapped = st.sampled_from([before, line + b"\n" + before.partition(b"\n")[2], b"", payload])
    headers = damaged(line + b"\n").map(lambda header: header + payload)
    files = st.one_of(damaged(newest), headers, headers, swapped, st.none())

    @for_all(st.tuples(files, st.one_of(damaged(before), st.just(before), st.none())), count)
    def holds(found):
        for name, content in zip((CURRENT, PREVIOUS), found, strict=True):
            (tmp_path / "run" / name).unlink(missing_ok=True)
            if content is not None:
                (tmp_path / "run" / name).write_bytes(content)
        try:
            loaded = load(tmp_path / "run")
        except CheckpointError:
            return
        assert fingerprint(loaded) in states


def parts_of(path):
    """The header, the skeleton and the arrays of a checkpoint."""
    first, _, payload = path.read_bytes().partition(b"\n")
    with np.load(io.BytesIO(payload)) as archive:
        arrays = [archive[f"arr_{index}"] for index in range(len(archive.files) - 1)]
        return json.loads(first), json.loads(archive["skeleton"].tobytes()), arrays


def forged(header, skeleton, arrays):
    """A checkpoint of these parts with the right checksum."""
    buffer = io.BytesIO()
    np.savez(buffer, *arrays, skeleton=np.frombuffer(json.dumps(skeleton).encode(), np.uint8))
    payload = buffer.getvalue()
    header = {**header, "sha256": hashlib.sha256(payload).hexdigest()}
    return json.dumps(header).encode() + b"\n" + payload


CHANGES = st.sampled_from(
    [
        lambda array: array[:0],
        lambda array: array[..., None],
        lambda array: np.concatenate([array, array]) if array.ndim else array,
        lambda array: array.reshape(-1)[:1].reshape(()) if array.size else array,
        lambda array: np.full(array.shape, -1).astype(array.dtype),
        lambda array: np.full(array.shape, np.nan),
        lambda array: array.astype(np.int32, casting="unsafe"),
        lambda array: array.astype(">f4"),
        lambda array: array.astype("U3"),
        lambda array: array.astype(np.complex64),
        lambda array: array.astype(bool),
        lambda array: np.array(["a", None], object)[:0].astype("datetime64[s]"),
    ]
)


@pytest.mark.filterwarnings("ignore")  # NumPy's, of the numbers in a forged file
@examples(many=1000, few=40)
def test_a_forged_file_gives_a_state_of_the_right_types_or_an_error(count, kept, tmp_path):
    folder, load = kept
    header, skeleton, arrays = parts_of(folder / CURRENT)
    paths = st.sampled_from(paths_of(skeleton))
    odd = ODD.map(lambda value: lambda _: value)
    entries = st.tuples(st.just("entry"), paths, st.one_of(odd, st.none()))
    numbers = st.tuples(st.just("array"), st.integers(0, len(arrays) - 1), CHANGES)
    forgery = st.one_of(
        entries, numbers, st.tuples(st.just("header"), st.sampled_from(paths_of(header)), odd)
    )
    shutil.copytree(folder, tmp_path / "run")

    @for_all(forgery, count)
    def holds(found):
        where, place, change = found
        if where == "array":
            changes = [*arrays[:place], np.asarray(change(arrays[place])), *arrays[place + 1 :]]
            content = forged(header, skeleton, changes)
        elif where == "entry":
            content = forged(header, changed(skeleton, place, change), arrays)
        else:
            content = forged(changed(header, place, change), skeleton, arrays)
        (tmp_path / "run" / CURRENT).write_bytes(content)
        try:
            loaded = load(tmp_path / "run")
        except CheckpointError:
            return
        shapes = [jax.tree.map(np.shape, jax.tree.leaves(state)) for state in (loaded, load(folder))]
        assert len(shapes[0]) == len(shapes[1]) or where == "entry"


@pytest.mark.parametrize("shape", [(10**9,), (10**12,), (2**62, 4), (-1, 2)])
def test_a_forged_shape_takes_no_memory(shape, kept, tmp_path):
    folder, load = kept
    header, skeleton, arrays = parts_of(folder / CURRENT)
    written = str(arrays[0].shape).encode()
    content = forged(header, skeleton, arrays)
    payload = content.partition(b"\n")[2]
    place = payload.index(b"'shape': " + written)
    text = str(shape).encode()
    longer = len(text) - len(written)
    end = payload.index(b"\n", place)
    assert payload[end - longer : end].strip() == b""
    new = (
        payload[:place]
        + b"'shape': "
        + text
        + payload[place + 9 + len(written) : end - longer]
        + payload[end:]
    )
    header["sha256"] = hashlib.sha256(new).hexdigest()
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / CURRENT).write_bytes(json.dumps(header).encode() + b"\n" + new)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="damaged"):
            load(tmp_path / "run")
        assert tracemalloc.get_traced_memory()[1] < 10 * len(content)
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@examples(many=300, few=12)
def test_a_forged_checkpoint_of_a_run_is_a_message_or_goes_on(count, tmp_path, capsys):
    rows = "\n".join(f"{x},{y}" for x, y in zip(ROWS["x"][:, 0].tolist(), ROWS["y"].tolist(), strict=True))
    (tmp_path / "rows.csv").write_text(f"a,y\n{rows}\n")
    words = ["-m", "linear", "-t", "y", "--num-particles", "16", "--reservoir-size", "500", "--quiet"]
    words = ["stream", str(tmp_path / "rows.csv"), *words, "--checkpoint", str(tmp_path / "run"), "--out"]
    assert main([*words, str(tmp_path / "out")]) == 0
    header, skeleton, arrays = parts_of(tmp_path / "run" / CURRENT)
    paths = [path for path in paths_of(skeleton) if "session" not in path or path[-1] == "session"]

    @for_all(
        st.tuples(st.sampled_from(paths), st.one_of(ODD.map(lambda odd: lambda _: odd), st.none())), count
    )
    def holds(found):
        (tmp_path / "run" / CURRENT).write_bytes(forged(header, changed(skeleton, *found), arrays))
        capsys.readouterr()
        code = main([*words, str(tmp_path / "out")])
        err = capsys.readouterr().err
        assert code == 0 or (code == 2 and err.count("Error") == 1), err
