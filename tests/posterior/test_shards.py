"""The common order of rows over shards; `estimation/test_sharding.py` sums on several devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from evidentia.data.sharded import Sharded
from evidentia.estimation.runs import spread_window
from evidentia.posterior.row_sums import sum_rows
from evidentia.posterior.rows import Window
from evidentia.posterior.shards import Shards


def in_turn(counts):
    """(row in its shard, rank of the shard) in the common order, by going round the shards."""
    ranked = sorted(counts, reverse=True)
    return [(j, rank) for j in range(max(counts)) for rank, count in enumerate(ranked) if j < count]


@pytest.mark.slow
@settings(max_examples=25)  # each shape compiles
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any))
def test_rows_are_numbered_in_turn(counts):
    shards = Shards.of(None, ("rows",), np.array(counts))
    expected = np.array(in_turn(counts))
    local, rank = shards.locate(np.arange(sum(counts)))
    np.testing.assert_array_equal(np.stack([local, rank], axis=1), expected)
    for one, row in enumerate(expected):
        assert shards.number(jnp.int32(row[:1]), jnp.int32(row[1])) == one


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any), st.data())
def test_a_part_of_the_order_is_a_part_of_each_shard(counts, data):
    shards = Shards.of(None, ("rows",), np.array(counts))
    stop = data.draw(st.integers(0, sum(counts)))
    taken = in_turn(counts)[:stop]
    for rank in range(len(counts)):
        assert shards._local_stop(stop, jnp.int32(rank)) == sum(one[1] == rank for one in taken)


@pytest.mark.slow
def test_one_shard_is_a_plain_window():
    sharding = NamedSharding(jax.make_mesh((1,), ("rows",)), PartitionSpec("rows"))
    arrays = jax.device_put(np.arange(40), sharding)
    rows, first = spread_window(Sharded(arrays, sharding, np.array([37])))
    np.testing.assert_array_equal(first, np.arange(37))
    assert rows.size == 37 and rows.first(10).shards is None and rows.part(2, 10).shards is rows.shards

    def add(total, block, weights):
        return total + jnp.sum(weights * block)

    for part in (rows, rows.part(3, 20)):
        plain = Window(jnp.arange(40), part.start, part.stop)
        assert jax.jit(sum_rows, static_argnums=0)(add, 1.0, part) == sum_rows(add, 1.0, plain)
    np.testing.assert_array_equal(rows.sample(4).arrays, [0, 12, 24, 36])
    np.testing.assert_array_equal(rows.blocks(2, 3)[1].arrays[3:], [34, 35, 36])
