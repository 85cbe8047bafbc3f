"""Rows spread over devices: their common order, sums over all shards, and rows from any shard.

Each device holds a shard of the rows and never sends it. Rows are numbered in turn: row 0 of every
shard, then row 1 of every shard, and so on; a shard that has ended is passed over. With c_k rows
in shard k, the number of rows before row j of any shard is

    S(j) = Σ_k min(c_k, j),

which is piecewise linear in j. So "the first n rows" of a window are about n/K rows of each of K
shards, no row moves, and the numbers of rows stay those of one device.

A sum over rows is a loop over the local rows on each device and one `psum` of what it returns: the
bytes sent do not depend on the number of rows. Source: JAX, "Manual parallelism with `shard_map`".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, PartitionSpec
from jaxtyping import Array, Int

from evidentia.system.compilation import compiled

Carry = TypeVar("Carry")
Number = Int[Any, "*index"]


@dataclass(frozen=True, eq=False)
class Shards:
    """How rows are spread over K shards, and the order of all rows.

    Attributes:
        mesh, axes: the mesh, and the names of its axes over which the rows are spread.
        rank: the place of each shard in a turn, the largest shards first.
        levels: the numbers of rows of the shards, ascending.
        filled: S(level) for each of these levels.
    """

    mesh: Mesh | AbstractMesh
    axes: tuple[str, ...]
    rank: Int[Any, " shards"]
    levels: Int[Any, " shards"]
    filled: Int[Any, " shards"]

    @classmethod
    def of(
        cls, mesh: Mesh | AbstractMesh, axes: tuple[str, ...], counts: Int[np.ndarray, " shards"]
    ) -> "Shards":
        """The order of the rows of shards with `counts` rows each."""
        order = np.argsort(-counts, kind="stable")
        levels = np.sort(counts)
        filled = np.cumsum(levels) + levels * np.arange(len(counts) - 1, -1, -1)
        return cls(mesh, axes, *(np.asarray(a, np.int32) for a in (np.argsort(order), levels, filled)))

    def locate(self, row: int | Number) -> tuple[Number, Number]:
        """The row's number in its shard, and the rank of the shard."""
        ended = jnp.searchsorted(self.filled, row, side="right")  # shards with fewer rows than that
        is_any, last = ended > 0, jnp.maximum(ended - 1, 0)
        level = jnp.where(is_any, jnp.asarray(self.levels)[last], 0)
        beyond = row - jnp.where(is_any, jnp.asarray(self.filled)[last], 0)
        active = jnp.maximum(len(self.levels) - ended, 1)
        return level + beyond // active, beyond % active

    def sum(
        self,
        function: Callable[[Carry, Any, Number, Int[Array, ""], Int[Array, ""]], Carry],
        initial: Carry,
        arrays: Any,
        start: Number,
        stop: Number,
    ) -> Carry:
        """`initial` plus the sum over shards of `function(zeros, arrays, rank, first, last)`.

        The arrays are local; `first` and `last` bound their rows among those from `start` to
        `stop`. The carry must be a sum over rows.
        """

        def on_shard(arrays):
            rank = self._local_rank()
            first, last = self._local_stop(start, rank), self._local_stop(stop, rank)
            zeros = jax.tree.map(jnp.zeros_like, initial)
            return jax.lax.psum(function(zeros, arrays, rank, first, last), self.axes)

        return jax.tree.map(jnp.add, initial, self._on_shards(on_shard)(arrays))

    def number(self, local: Int[Array, " block"], rank: Int[Array, ""]) -> Int[Array, " block"]:
        """The numbers in the common order of rows of the shard of a rank."""
        ended = jnp.searchsorted(self.levels, local, side="right")
        is_any, last = ended > 0, jnp.maximum(ended - 1, 0)
        filled = jnp.where(is_any, jnp.asarray(self.filled)[last], 0)
        beyond = local - jnp.where(is_any, jnp.asarray(self.levels)[last], 0)
        return filled + (len(self.levels) - ended) * beyond + rank

    def take(self, arrays: Any, rows: Int[Array, "*shape"]) -> Any:
        """Copies of some rows, on every device: each comes from its shard, by a sum with zeros."""
        local, rank = self.locate(rows)

        def on_shard(arrays):
            is_here = rank == self._local_rank()

            def some(leaf):
                values = leaf[jnp.where(is_here, local, 0)]
                mask = is_here.reshape(is_here.shape + (1,) * (leaf.ndim - 1))
                return jax.lax.psum(jnp.where(mask, values, 0), self.axes)

            return jax.tree.map(some, arrays)

        return self._on_shards(on_shard)(arrays)

    def fetch(self, arrays: Any, rows: Int[np.ndarray, " rows"]) -> Any:
        """Some rows as NumPy arrays, the same in every process."""
        return jax.tree.map(np.asarray, _take(self, arrays, np.asarray(rows, np.int32)))

    def _on_shards(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        # What the function closes over is the same on every device.
        spread, same = PartitionSpec(self.axes), PartitionSpec()
        return jax.shard_map(function, mesh=self.mesh, in_specs=(spread,), out_specs=same, check_vma=False)

    def _local_rank(self) -> Int[Array, ""]:
        return jnp.asarray(self.rank)[jax.lax.axis_index(self.axes)]

    def _local_stop(self, stop: int | Number, rank: Int[Array, ""]) -> Int[Array, ""]:
        """The number of rows of the shard of a rank among the first `stop` rows."""
        turns, rest = self.locate(stop)
        count = jnp.asarray(self.levels)[len(self.levels) - 1 - rank]
        return jnp.minimum(count, turns + (rank < rest))


@compiled()
def _take(shards: Shards, arrays: Any, rows: Int[Array, " rows"]) -> Any:
    return shards.take(arrays, rows)


jax.tree_util.register_dataclass(
    Shards, data_fields=("rank", "levels", "filled"), meta_fields=("mesh", "axes")
)
