"""Run by tests in processes of their own, as JAX fixes its devices at the start: prints JSON.

one_sharded_run.py devices COUNT                        COUNT simulated devices in one process
one_sharded_run.py process INDEX COUNT PORT PARQUET …   one of COUNT processes, with its rows
"""

import json
import os
import re
import sys

if sys.argv[1] == "devices":
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[2]}"

import jax

if sys.argv[1] == "process":  # before anything else of JAX
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[4]}", int(sys.argv[3]), int(sys.argv[2]))

import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import evidentia as ev
from evidentia.data.arrays import on_device, shuffled
from evidentia.data.sharded import placed
from evidentia.estimation.runs import spread_window
from evidentia.posterior import row_sums
from evidentia.posterior import rows as looks
from evidentia.posterior.gradients import ControlVariate
from evidentia.posterior.target import expand_target, log_target, tempered
from evidentia.system.compilation import in_float64

METHODS = {"Laplace": ev.Laplace(), "SGAIS": ev.SGAIS()}
LINEAR = ev.models.linear_regression(num_features=5)
SOFTMAX = ev.models.softmax_regression(num_features=3, num_classes=3)


def window_of(size, sharding):
    """A bound model and simulated rows."""
    data, _ = SOFTMAX.simulate(size, 0)
    if sharding is None:
        return SOFTMAX.bind(data), looks.Window(on_device(shuffled(data, 0)), 0, size)
    window, first = spread_window(placed(data, sharding, 0, None))
    return SOFTMAX.bind(first), window


def estimates(sharding):
    """Evidences of a number of rows that the devices do not divide, and of rows in place."""
    found = {}
    for model in (LINEAR, SOFTMAX):
        data, _ = model.simulate(100_003, 0)
        for name, method in METHODS.items():
            evidence = ev.estimate(model, data, method=method, sharding=sharding)
            found[f"{model.name} {name}"] = evidence.log_evidence
    data, _ = LINEAR.simulate(100_000, 0)
    in_place = data if sharding is None else jax.device_put(data, sharding)
    evidence = ev.estimate(LINEAR, in_place, method=ev.Laplace())
    found["in place"] = evidence.log_evidence
    return found


def with_two_axes():
    """The evidence with rows spread over both axes of a mesh, and over one of them alone."""
    data, _ = LINEAR.simulate(50_001, 0)
    mesh = jax.make_mesh((2, 4), ("host", "device"))
    found = {"one device": ev.estimate(LINEAR, data, method=ev.Laplace()).log_evidence}
    for axes in (("host", "device"), ("device", "host"), "host", "device"):
        sharding = NamedSharding(mesh, PartitionSpec(axes))
        evidence = ev.estimate(LINEAR, data, method=ev.Laplace(), sharding=sharding)
        found[" ".join([axes] if isinstance(axes, str) else axes)] = evidence.log_evidence
    return found


def derivatives(sharding):
    """The tempered density with its exact and its estimated gradient, as moves use them."""
    model, window = window_of(20_003, sharding)
    target = tempered(window.part(0, 9_000), window.part(9_000, 20_003), 0.5)
    positions = np.random.default_rng(0).normal(size=(4, model.num_parameters)).astype(np.float32)
    centre = np.zeros(model.num_parameters)
    expansion = expand_target(model, target.past.expand(model, centre), target).narrowed()

    @jax.jit
    def both(positions, target):
        exact = jax.vmap(jax.value_and_grad(log_target(model, target)))(positions)
        return exact, ControlVariate().function(model, target, expansion)(jax.random.key(0), positions)

    return [np.asarray(part, float).tolist() for part in jax.tree.leaves(both(positions, target))]


def collectives(sharding):
    """The collectives of each look at all rows and their result types, for n and 4n rows."""
    found = {}
    for size in (20_000, 80_000):
        model, window = window_of(size, sharding)
        positions = np.zeros((64, model.num_parameters))
        programs = {"deviations": row_sums.deviations.lower(model, jnp.float32(positions), window)}
        with in_float64():
            programs["exact"] = row_sums.exact_sums.lower(model, positions, window)
            programs["expansion"] = row_sums.expand.lower(model, positions[0], window, True)
        for name, program in programs.items():
            calls = re.findall(
                r"= (.*?) ((?:all-|reduce-scatter|collective|ragged)[a-z-]*)\(", program.compile().as_text()
            )
            found.setdefault(name, []).append([[kind, types] for types, kind in calls])
    return found


def on_devices(count):
    if count == 1:
        return {"estimates": estimates(None), "derivatives": derivatives(None)}
    sharding = NamedSharding(jax.make_mesh((count,), ("rows",)), PartitionSpec("rows"))
    return {
        "estimates": estimates(sharding),
        "two axes": with_two_axes(),
        "derivatives": derivatives(sharding),
        "collectives": collectives(sharding),
    }


def in_process(path):
    """Evidences of rows that this process reads, and of the same rows as one global array."""
    sharding = NamedSharding(jax.make_mesh((jax.process_count(),), ("rows",)), PartitionSpec("rows"))
    source = ev.read_parquet(path, columns={"x": [f"x{i}" for i in range(5)], "y": "y"})
    found = {
        name: ev.estimate(LINEAR, source, method=method, sharding=sharding).log_evidence
        for name, method in METHODS.items()
    }
    batches = [batch.arrays for batch in source.batches()]
    local = {name: np.concatenate([arrays[name] for arrays in batches]) for name in ("x", "y")}
    even = {
        name: jax.make_array_from_process_local_data(sharding, leaf[:15_000]) for name, leaf in local.items()
    }
    found["in place"] = ev.estimate(LINEAR, even, method=ev.Laplace()).log_evidence
    if jax.process_index() == 1:
        local["x"][7, 2] = np.nan
    try:
        ev.estimate(LINEAR, local, sharding=sharding)
    except ev.DataError as error:
        found["error"] = str(error)
    return found


if __name__ == "__main__":
    found = on_devices(int(sys.argv[2])) if sys.argv[1] == "devices" else in_process(sys.argv[5])
    print(json.dumps(found))  # noqa: T201
