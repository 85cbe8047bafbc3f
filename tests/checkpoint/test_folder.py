import os
import subprocess
import sys

import numpy as np
import pytest

import evidentia as ev
from evidentia.checkpoint import folder as checkpoint
from evidentia.checkpoint.folder import CURRENT, PREVIOUS, WRITTEN, CheckpointFolder, read
from evidentia.errors import CheckpointError

CONTENT = {"position": 500, "values": np.arange(3.0)}


@pytest.fixture
def folder(tmp_path):
    """A folder with two checkpoints, at 400 and 500 rows."""
    with CheckpointFolder(tmp_path / "run") as folder:
        folder.write({"position": 400}, {"num_observations": 400})
        folder.write(CONTENT, {"num_observations": 500})
    return tmp_path / "run"


def test_what_was_written_is_read(folder):
    content, header = read(folder)
    assert content["position"] == 500 and header.summary == {"num_observations": 500}
    assert header.evidentia == ev.__version__
    np.testing.assert_array_equal(content["values"], CONTENT["values"])
    assert sorted(path.name for path in folder.iterdir()) == [CURRENT, PREVIOUS, "lock"]


def test_between_the_two_renames_the_one_before_is_the_newest(folder):
    (folder / CURRENT).rename(folder / WRITTEN)
    assert read(folder)[0]["position"] == 400


def test_no_checkpoint_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        read(tmp_path)
    with CheckpointFolder(tmp_path) as folder:
        assert not folder.has_checkpoint


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "other"])
def test_a_damaged_file_is_refused_and_the_one_before_is_named(folder, damage):
    path = folder / CURRENT
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[:-100]
    elif damage == "flipped":
        data[-50] ^= 1
    else:
        data = bytearray() if damage == "emptied" else bytearray(b"[1, 2]\nnothing")
    path.write_bytes(data)
    with pytest.raises(
        CheckpointError,
        match=r"is damaged: .*checkpoint\.previous \(num_observations: 400\), is intact: remove",
    ):
        read(folder)
    path.unlink()
    assert read(folder)[0]["position"] == 400


def test_when_both_are_damaged_the_message_says_so(folder):
    for name in (CURRENT, PREVIOUS):
        (folder / name).write_bytes(b"x")
    with pytest.raises(CheckpointError, match="is damaged too"):
        read(folder)
    (folder / CURRENT).unlink()
    with pytest.raises(CheckpointError, match="There is no other"):
        read(folder)


@pytest.mark.parametrize(("number", "version"), [(1, "older"), (9, "newer")])
def test_another_format_asks_for_its_version(folder, number, version):
    path = folder / CURRENT
    written = path.read_bytes()
    path.write_bytes(written.replace(b'"format": 2', f'"format": {number}'.encode(), 1))
    assert path.read_bytes() != written
    with pytest.raises(CheckpointError, match=f"Install the {version} version"):
        read(folder)


def test_a_full_disk_leaves_the_checkpoint_before(folder, monkeypatch):
    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    with CheckpointFolder(folder) as checkpoints:
        monkeypatch.setattr(os, "fsync", no_space)
        with pytest.raises(CheckpointError, match="No space left on device. The previous checkpoint is unch"):
            checkpoints.write({"position": 600}, {})
    assert read(folder)[0]["position"] == 500
    assert not (folder / WRITTEN).exists()


@pytest.mark.parametrize(
    ("failing", "stands", "position"),
    [
        (PREVIOUS, "The previous checkpoint is unchanged", 500),
        (CURRENT, r"The previous checkpoint is now named checkpoint\.previous", 500),
        ("folder", r"was written, but the folder could not be synced .*: Input/output error\.", 600),
    ],
)
def test_what_stands_when_a_later_step_fails(folder, monkeypatch, failing, stands, position):
    def replace(source, target):
        if target.name == failing:
            raise OSError(5, "Input/output error")
        source.rename(target)

    def sync(path):
        if failing == "folder":
            raise OSError(5, "Input/output error")

    with CheckpointFolder(folder) as checkpoints:
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", replace)
            patched.setattr(checkpoint, "sync_folder", sync)
            with pytest.raises(CheckpointError, match=stands):
                checkpoints.write({"position": 600}, {"num_observations": 600})
        assert checkpoints.has_checkpoint and read(folder)[0]["position"] == position
        assert not (folder / WRITTEN).exists()
        checkpoints.write({"position": 700}, {"num_observations": 700})
    assert read(folder)[0]["position"] == 700
    (folder / CURRENT).unlink()
    assert read(folder)[0]["position"] == position


def test_the_first_one_has_none_before_it(tmp_path, monkeypatch):
    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with (
        CheckpointFolder(tmp_path) as checkpoints,
        pytest.raises(CheckpointError, match="The folder holds no other"),
    ):
        checkpoints.write(CONTENT, {})


def test_a_second_process_is_told_who_holds_the_folder(folder):
    script = (
        "import sys; from evidentia.checkpoint.folder import CheckpointFolder\n"
        "try:\n    CheckpointFolder(sys.argv[1]).__enter__()\nexcept Exception as error:\n    print(error)"
    )
    with CheckpointFolder(folder):
        told = subprocess.run(
            [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True
        ).stdout
    assert f"is in use by process {os.getpid()} on " in told
    with CheckpointFolder(folder):  # the lock was released
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CheckpointError, match="cannot keep checkpoints in .*file"),
        CheckpointFolder(tmp_path / "file" / "run"),
    ):
        pass


def test_a_checkpoint_of_something_else_is_not_called_damaged(folder):
    with CheckpointFolder(folder) as checkpoints:
        checkpoints.write({"position": ev.SGAIS()}, {})
    with pytest.raises(CheckpointError, match="is a checkpoint of something else: it holds a SGAIS"):
        read(folder)
    with pytest.raises(CheckpointError, match="folder must be one that Online.save wrote"):
        ev.Online.load(folder, ev.models.linear_regression(num_features=2))


@pytest.mark.parametrize("name", [CURRENT, PREVIOUS, WRITTEN, "lock", "lock.holder"])
@pytest.mark.parametrize("is_link", [False, True])
def test_files_of_others_stay(name, is_link, tmp_path):
    (tmp_path / "mine").write_text("mine")
    path = tmp_path / "run" / name
    path.parent.mkdir()
    path.symlink_to(tmp_path / "mine") if is_link else path.write_text("mine")
    online = ev.Online(ev.models.linear_regression(num_features=2))
    with pytest.raises(CheckpointError, match=f"{name} was not written by evidentia"):
        online.save(path.parent)
    assert path.read_text() == (tmp_path / "mine").read_text() == "mine"
    assert [each.name for each in path.parent.iterdir() if each.name != "lock"] == [name] * (name != "lock")


@pytest.mark.parametrize("folder", [None, 3, "", b"run", "a\0b", ["run"]])
def test_what_is_no_folder_is_named(folder):
    model = ev.models.linear_regression(num_features=2)
    for use in (
        ev.Online(model).save,
        ev.OnlineFleet(model).save,
        ev.ChangeDetectorFleet(model).save,
        lambda name: ev.Online.load(name, model),
        lambda name: ev.OnlineFleet.load(name, model),
        lambda name: ev.estimate_many(model, [], folder=name or 0),
    ):
        with pytest.raises(ev.ConfigurationError, match="folder must be the name of a folder; got"):
            use(folder)
