"""Rows over the devices of a mesh: local data placed there, or arrays that are there already.

Each process gives its own rows, and no row leaves its process. Its rows are dealt evenly to its
shards, and all shards are padded to the same length. What one process finds wrong is raised in
all: otherwise the others would wait forever for its part of a sum.
"""

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Int

from evidentia.data.arrays import as_arrays, described, map_arrays, num_rows, round_up, shuffled, with_rows
from evidentia.errors import ConfigurationError, DataError, EvidentiaError

UNUSABLE = -1  # number of rows that stands for an error

Check = Callable[[Any], None]


class Sharded(NamedTuple):
    """Arrays over devices; the first `counts[k]` rows of shard k are data, the others padding."""

    arrays: Any
    sharding: NamedSharding
    counts: Int[np.ndarray, " shards"]


def check_sharding(sharding: Any, name: str = "sharding") -> NamedSharding:
    """The sharding if it spreads the leading axis alone.

    Raises:
        ConfigurationError: another kind of sharding, or another axis; or a shard that several
            processes hold.
    """
    if not isinstance(sharding, NamedSharding):
        raise ConfigurationError(f"{name} must be a jax.sharding.NamedSharding; got {sharding!r}.")
    spec = sharding.spec
    if not spec or not spec[0] or any(spec[1:]):
        raise ConfigurationError(
            f"{name} must spread the leading axis, that of the rows, and no other, such as "
            f"NamedSharding(mesh, PartitionSpec({sharding.mesh.axis_names[0]!r})); got {spec}."
        )
    own = len(_own_shards(sharding))
    if own * jax.process_count() != num_shards(sharding):
        raise ConfigurationError(
            f"{name} must give each of the {jax.process_count()} processes as many shards of its own; "
            f"process {jax.process_index()} has {own} of {num_shards(sharding)}."
        )
    return sharding


def axes_of(sharding: NamedSharding) -> tuple[str, ...]:
    """The axes of the mesh over which rows are spread."""
    first = sharding.spec[0]
    return first if isinstance(first, tuple) else (first,)  # type: ignore[return-value]


def num_shards(sharding: NamedSharding) -> int:
    """The number of shards."""
    return int(np.prod([sharding.mesh.shape[axis] for axis in axes_of(sharding)]))


def sharding_of(data: Any) -> NamedSharding | None:
    """The sharding of arrays that are spread over devices; None for any other data.

    Raises:
        DataError: some arrays are spread and others are not, or differently.
        ConfigurationError: as `check_sharding`.
    """
    try:
        leaves = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(data)}
    except ValueError:  # keys that have no order, which `as_arrays` and the model check
        return None
    except (RecursionError, SystemError):  # the latter, caused by the former, from JAX
        raise DataError(
            "data must be one array, a tuple, or a mapping of arrays; got a container that holds itself, or too deep a one."
        ) from None
    found = {name: leaf.sharding for name, leaf in leaves.items() if _is_spread(leaf)}
    if not found:
        return None
    first, wanted = next(iter(found.items()))
    check_sharding(wanted, f"the sharding of data{first}")
    for name, leaf in leaves.items():
        other = found.get(name)
        if other is None or not isinstance(other, NamedSharding) or _rows_of(other) != _rows_of(wanted):
            how = "is on one device" if other is None else f"has {other}"
            raise DataError(
                f"all arrays of data must be spread over devices in the same way: data{first} has {wanted}, "
                f"data{name} {how} (shape {np.shape(leaf)}). Use jax.device_put(data, sharding), or sharding=."
            )
        check_sharding(other, f"the sharding of data{name}")
    return wanted


def placed(data: Any, sharding: NamedSharding, seed: int, check: Check | None) -> Sharded:
    """The rows of this process on its devices, in random order; `check` is called with them.

    Raises:
        DataError: as `as_arrays`, in any process; or the processes' arrays do not match.
    """

    def read():
        arrays = as_arrays(data)
        if check is not None:
            check(arrays)
        return arrays

    own = _own_shards(sharding)
    arrays, error = _attempt(read)
    sizes = {} if error else {k: len(range(i, num_rows(arrays), len(own))) for i, k in enumerate(own)}
    counts = _agreed(sharding, sizes, arrays, error)
    capacity = round_up(int(counts.max()))
    arrays = shuffled(arrays, seed)

    def place(leaf: np.ndarray) -> jax.Array:
        def shard(index: Any) -> np.ndarray:
            # Dealt in turn: in one process, the common order of the rows is that of `shuffled`.
            rows = leaf[own.index((index[0].start or 0) // capacity) :: len(own)]
            return with_rows(rows if len(rows) else leaf[:1], capacity)

        shape = (capacity * len(counts), *leaf.shape[1:])
        return jax.make_array_from_callback(shape, sharding, shard)

    return Sharded(jax.tree.map(place, arrays), sharding, counts)


def in_place(data: Any, sharding: NamedSharding, seed: int, check: Check | None) -> Sharded:
    """Arrays that are spread over devices already, each shard in random order on its device.

    Raises:
        DataError: as `placed`. The values are checked on the host, one shard after the other.
    """
    own = _own_shards(sharding)

    def read():
        arrays = None
        for shard in own:
            local = map_arrays(lambda leaf, shard=shard: _local(leaf, sharding, shard), data)
            arrays = as_arrays(local)
            if check is not None:
                check(arrays)
        return arrays

    arrays, error = _attempt(read)
    sizes = {} if error else {shard: num_rows(arrays) for shard in own}
    counts = _agreed(sharding, sizes, arrays, error)
    return Sharded(
        _shuffled_in_place(data, jax.random.key_data(jax.random.key(seed)), sharding), sharding, counts
    )


def _attempt(read: Callable[[], Any]) -> tuple[Any, EvidentiaError | None]:
    try:
        return read(), None
    except EvidentiaError as error:
        return None, error


def _agreed(
    sharding: NamedSharding, sizes: dict[int, int], arrays: Any, error: EvidentiaError | None
) -> Int[np.ndarray, " shards"]:
    """The numbers of rows of all shards, known to all processes; raises what any of them found."""
    facts = np.full((num_shards(sharding), 2), UNUSABLE, np.int32)
    if error is None:
        for shard, size in sizes.items():
            facts[shard] = size, zlib.crc32(described(arrays).encode()) >> 1
    spread = NamedSharding(sharding.mesh, PartitionSpec(axes_of(sharding)))
    given = jax.make_array_from_callback(facts.shape, spread, lambda index: facts[index])
    everywhere = NamedSharding(sharding.mesh, PartitionSpec())
    counts, kinds = np.asarray(jax.jit(lambda facts: facts, out_shardings=everywhere)(given)).T
    if error is not None:
        raise error
    if (counts == UNUSABLE).any():
        raise DataError(
            "data of another process cannot be used; that process raises an error which says why."
        )
    if len(set(kinds.tolist())) > 1:
        raise DataError(
            f"data must hold the same names, shapes and dtypes in all processes; process {jax.process_index()} has "
            f"{described(arrays)}, and another one something else."
        )
    return counts


def _own_shards(sharding: NamedSharding) -> list[int]:
    """The shards on devices of this process."""
    every = range(num_shards(sharding))
    spread = NamedSharding(sharding.mesh, PartitionSpec(axes_of(sharding)))
    places = spread.addressable_devices_indices_map((len(every),)).values()
    return sorted({every[index[0]][0] for index in places if index is not None})


def _is_spread(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not leaf.is_fully_replicated


def _rows_of(sharding: NamedSharding) -> tuple[Any, Any]:
    return sharding.mesh, sharding.spec[:1]


def _local(leaf: jax.Array, sharding: NamedSharding, shard: int) -> np.ndarray:
    size = leaf.shape[0] // num_shards(sharding)
    return next(
        np.asarray(one.data) for one in leaf.addressable_shards if (one.index[0].start or 0) == shard * size
    )


@partial(jax.jit, static_argnames="sharding")
def _shuffled_in_place(arrays: Any, key_data: Any, sharding: NamedSharding) -> Any:
    axes = axes_of(sharding)

    def on_shard(arrays):
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), jax.lax.axis_index(axes))
        order = jax.random.permutation(key, num_rows(arrays))
        kinds = {"f": jnp.float32}
        return jax.tree.map(lambda leaf: leaf.astype(kinds.get(leaf.dtype.kind, jnp.int32))[order], arrays)

    spread = PartitionSpec(axes)
    return jax.shard_map(on_shard, mesh=sharding.mesh, in_specs=(spread,), out_specs=spread, check_vma=False)(
        arrays
    )
