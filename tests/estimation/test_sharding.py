"""Rows over several devices and processes have the evidence of one device, to rounding."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import evidentia as ev

SCRIPT = Path(__file__).with_name("one_sharded_run.py")
NUM_PROCESSES = 4
BYTES = {"f64": 8, "f32": 4, "s64": 8, "s32": 4, "pred": 1}


def started(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result_of(process):
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-3000:]
    return json.loads(out.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def one_and_eight():
    return [result_of(started("devices", count)) for count in (1, 8)]


@pytest.mark.reference
def test_eight_devices_have_the_evidence_of_one(one_and_eight):
    """The same draws and rows: only the order of the sums differs, in float32 and float64."""
    one, eight = (run["estimates"] for run in one_and_eight)
    for name, log_evidence in one.items():
        # The rows that are in place already are in another random order. Then the mode is found to
        # 1e-6 of a squared standard deviation from another start, and the draws move with it.
        tolerance = 1e-3 if name == "in place" else 1e-5
        assert eight[name] == pytest.approx(log_evidence, rel=0, abs=tolerance), name


@pytest.mark.reference
def test_a_mesh_of_two_axes_has_the_evidence_of_one_device(one_and_eight):
    found = one_and_eight[1]["two axes"]
    expected = found.pop("one device")
    assert set(found) == {"host device", "device host", "host", "device"}
    for axes, log_evidence in found.items():
        assert log_evidence == pytest.approx(expected, rel=0, abs=1e-5), axes


@pytest.mark.reference
def test_gradients_in_moves_are_those_of_one_device(one_and_eight):
    one, eight = (run["derivatives"] for run in one_and_eight)
    for expected, found in zip(one, eight, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.max(np.abs(expected)))


@pytest.mark.reference
def test_bytes_moved_do_not_depend_on_the_number_of_rows(one_and_eight):
    for name, (few, many) in one_and_eight[1]["collectives"].items():
        assert few == many, name
        assert few and {kind for kind, _ in few} == {"all-reduce"}, name
        # A sum for each of 64 particles, or value, gradient and Hessian in 12 parameters; float64.
        assert sum(size_of(types) for _, types in few) <= 8 * max(64, 1 + 12 + 12**2), (name, few)


def size_of(types):
    """Bytes of the arrays of a result type such as (f32[64]{0}, f32[])."""
    shapes = re.findall(r"(\w+)\[([\d,]*)\]", types)
    return sum(BYTES[kind] * int(np.prod([int(n) for n in shape.split(",") if n])) for kind, shape in shapes)


@pytest.mark.reference
def test_four_processes_with_their_own_files_have_the_evidence_of_one(tmp_path):
    model = ev.models.linear_regression(num_features=5)
    sizes = [15_000, 17_000, 16_001, 15_002]
    data, _ = model.simulate(sum(sizes), 0)
    columns = {f"x{i}": data["x"][:, i] for i in range(5)} | {"y": data["y"]}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes, first = [], 0
    for index, size in enumerate(sizes):
        part = {name: column[first : first + size] for name, column in columns.items()}
        path, first = tmp_path / f"part-{index}.parquet", first + size
        pq.write_table(pa.table(part), path)
        processes.append(started("process", index, NUM_PROCESSES, port, path))
    found = [result_of(process) for process in processes]
    errors = [each.pop("error") for each in found]
    assert all(each == found[0] for each in found)  # to the bit: the same decisions everywhere
    assert "data['x'] has NaN" in errors[1]
    assert all("another process" in errors[index] for index in (0, 2, 3))
    one = ev.estimate(model, data, method=ev.Laplace())
    assert found[0]["Laplace"] == pytest.approx(one.log_evidence, rel=0, abs=1e-3)  # as "in place" above
    exact = model.exact_log_evidence(data)
    assert abs(found[0]["SGAIS"] - exact) < 4 * one.standard_error * np.sqrt(2) + 0.01  # half the draws


# --- Bad input -----------------------------------------------------------------------------------


@pytest.fixture
def model_and_data():
    model = ev.models.linear_regression(num_features=2)
    return model, model.simulate(100, 0)[0]


def sharding(*axes):
    mesh = jax.make_mesh((1, 1), ("rows", "columns"))
    return NamedSharding(mesh, PartitionSpec(*axes))


@pytest.mark.slow
def test_one_device_is_a_mesh_too(model_and_data):
    model, data = model_and_data
    plain, spread = (ev.estimate(model, data, sharding=given) for given in (None, sharding("rows")))
    assert spread.log_evidence == pytest.approx(plain.log_evidence, abs=1e-4)  # rounding


@pytest.mark.parametrize(
    "given, expected",
    [
        (sharding(None, "rows"), "sharding must spread the leading axis, .* got P"),
        (sharding("rows", "columns"), "the leading axis, that of the rows, and no other"),
        (sharding(), "the leading axis"),
        ("rows", "sharding must be a jax.sharding.NamedSharding; got 'rows'"),
    ],
)
def test_a_sharding_of_another_axis_is_refused(model_and_data, given, expected):
    with pytest.raises(ev.ConfigurationError, match=expected):
        ev.estimate(*model_and_data, sharding=given)


def test_a_method_without_support_names_those_with_it(model_and_data):
    with pytest.raises(ev.ConfigurationError, match=r"method must be one of SGAIS\(\) and Laplace\(\).*SMC"):
        ev.estimate(*model_and_data, method=ev.SMC(), sharding=sharding("rows"))


def test_rows_over_devices_have_no_order(model_and_data):
    with pytest.raises(ev.ConfigurationError, match="in_order=True needs rows on one device"):
        ev.estimate(*model_and_data, in_order=True, sharding=sharding("rows"))


def test_data_are_checked_as_on_one_device(model_and_data):
    model, data = model_and_data
    with pytest.raises(ev.DataError, match=r"data\['x'\] must have shape"):
        ev.estimate(model, data | {"x": np.ones((100, 3))}, sharding=sharding("rows"))


def test_a_formula_is_refused():
    with pytest.raises(
        ev.ConfigurationError, match="sharding and executor need an evidentia.Model with arrays"
    ):
        ev.estimate(ev.Regression("y ~ x"), {"x": [1.0], "y": [2.0]}, sharding=sharding("rows"))
