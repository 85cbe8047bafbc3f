"""The results of a run's programs in a folder: the same, also after a kill, or an error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.checkpoint.steps import HEAD, Steps
from evidentia.errors import CheckpointError
from evidentia.system.compilation import jitted

CALL = {"method": "a", "seed": 0}
NUMBERS = jnp.arange(20_000.0)  # large enough that its digest is remembered
computed = []


def program(shift):
    """A program under the same name, whatever the shift."""

    @jitted(static_argnames="power")
    def raised(numbers, power):
        """Two arrays, and a note of each call that is computed."""
        jax.debug.callback(lambda: computed.append(power))
        return {"powers": numbers**power + shift, "sum": numbers.sum()}

    return raised


raised = program(shift=0)


@pytest.fixture(autouse=True)
def nothing_is_computed_yet():
    computed.clear()


def run(folder, powers=(2, 3, 4), call=CALL, least_seconds=0.0, most_bytes=np.inf, raised=raised):
    with Steps(folder, call, least_seconds, most_bytes) as kept, kept.recorded():
        found = [np.asarray(raised(NUMBERS, power)["powers"]) for power in powers]
    jax.effects_barrier()
    return found


def test_results_come_back_and_the_first_is_computed_again_as_a_check(tmp_path):
    first = run(tmp_path)
    assert computed == [2, 3, 4]
    np.testing.assert_array_equal(first, run(tmp_path))
    assert computed == [2, 3, 4, 2]


def test_other_arrays_and_other_static_arguments_are_computed(tmp_path):
    run(tmp_path, (2,))
    with Steps(tmp_path, CALL, 0.0, np.inf) as kept, kept.recorded():
        assert raised(NUMBERS, 3)["powers"][2] == 8
        assert raised(NUMBERS + 1, 2)["powers"][2] == 9
        assert jax.jit(lambda numbers: raised(numbers, 2)["sum"])(NUMBERS) == raised(NUMBERS, 2)["sum"]


def test_what_a_kill_left_of_the_last_result_is_computed_again(tmp_path):
    whole = run(tmp_path)
    file = tmp_path / "steps.bin"
    for cut in (1, HEAD.size, file.stat().st_size - HEAD.size // 2):
        file.write_bytes(file.read_bytes()[:-cut])
        np.testing.assert_array_equal(whole, run(tmp_path))


def test_quick_and_large_results_are_not_kept(tmp_path):
    run(tmp_path, least_seconds=100.0)
    run(tmp_path, most_bytes=1.0)
    assert (tmp_path / "steps.bin").stat().st_size == 0


def test_another_call_is_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"is that of another call: seed was 0; got 1\. Make the same call"
    ):
        run(tmp_path, call={**CALL, "seed": 1})


def test_another_model_is_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(CheckpointError, match="is that of another model: .*raised has other values"):
        run(tmp_path, raised=program(shift=1))


@pytest.mark.parametrize(
    "name, message",
    [("steps.bin", "steps.bin is damaged at byte 0"), ("steps.json", "steps.json is missing or damaged")],
)
def test_damaged_files_are_refused(tmp_path, name, message):
    run(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[HEAD.size + 100] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=message):
        run(tmp_path)


def test_a_folder_in_use_and_one_that_cannot_be_made_are_refused(tmp_path):
    with Steps(tmp_path, CALL), pytest.raises(CheckpointError, match="in use|another|this process"):
        run(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="checkpoint .*file/run: Not a directory"):
        run(tmp_path / "file" / "run")
