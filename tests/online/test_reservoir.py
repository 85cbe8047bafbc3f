import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from evidentia.errors import ConfigurationError
from evidentia.online import reservoir as reservoirs


def filled(num_rows, *, capacity=500, batch_size=137, seed=3):
    """A reservoir after a stream of the numbers 0, 1, 2, …"""
    stream = np.arange(num_rows, dtype=np.float32)
    reservoir = reservoirs.empty({"y": stream}, capacity, seed)
    while (first := reservoir.num_observations) < num_rows:
        size = min(batch_size, num_rows - first, reservoirs.room(reservoir))
        staged, window = reservoirs.stage(reservoir, {"y": stream[first : first + size]})
        assert window.span == f"rows {first} to {first + size - 1}"
        np.testing.assert_array_equal(
            np.asarray(window.arrays["y"][window.start : window.stop]), stream[first : first + size]
        )
        if staged.is_full:
            staged = reservoirs.exchanged(staged, reservoirs.draw_exchange(reservoir, size))
        reservoir = staged._replace(num_observations=first + size)
    return reservoir


def kept(reservoir):
    return np.asarray(reservoir.arrays["y"][: reservoir.num_kept])


def test_every_row_is_kept_in_order_until_the_reservoir_is_full():
    np.testing.assert_array_equal(kept(filled(400)), np.arange(400))
    np.testing.assert_array_equal(kept(filled(500)), np.arange(500))


def test_rows_that_are_kept_are_those_of_the_stream_and_none_comes_twice():
    rows = kept(filled(5000))
    assert len(np.unique(rows)) == 500 and rows.min() >= 0 and rows.max() < 5000


@pytest.mark.parametrize("num_rows", [1000, 5000, 20_000])
def test_the_sample_is_uniform_at_any_time(num_rows):
    """Each tenth of the stream has its share, over 20 seeds: chi-square and Kolmogorov-Smirnov."""
    rows = np.concatenate([kept(filled(num_rows, seed=seed, batch_size=999)) for seed in range(20)])
    counts = np.histogram(rows, bins=10, range=(0, num_rows))[0]
    assert chisquare(counts).pvalue > 0.001
    assert kstest(rows / num_rows, "uniform").pvalue > 0.001


def test_the_sample_does_not_depend_on_what_came_before_a_resumption():
    np.testing.assert_array_equal(kept(filled(3000)), kept(filled(3000)))
    assert not np.array_equal(kept(filled(3000)), kept(filled(3000, seed=4)))


def test_a_chunk_follows_the_sample_in_the_same_arrays():
    rows = np.arange(100, dtype=np.float32)
    reservoir = reservoirs.empty(rows, 500)
    for _ in range(7):
        reservoir, window = reservoirs.stage(reservoir, rows)
        assert window.arrays is reservoir.arrays and window.start == reservoir.num_kept
        reservoir = reservoir._replace(num_observations=reservoir.num_observations + 100)


def test_a_chunk_ends_where_the_reservoir_is_full():
    reservoir = reservoirs.empty(np.zeros(1, np.float32), 500)
    assert reservoirs.room(reservoir) == 500
    assert reservoirs.room(reservoir._replace(num_observations=420)) == 80
    assert reservoirs.room(reservoir._replace(num_observations=500)) == reservoirs.STAGE


def test_a_reservoir_larger_than_the_memory_is_refused():
    needed = r"reservoir_size=1,000,000,000,000 would need [\d,]+ GiB for .*; this machine has [\d,]+ GiB"
    with pytest.raises(ConfigurationError, match=needed):
        reservoirs.empty({"y": np.zeros(3, np.float32)}, 10**12)


def test_a_reservoir_has_no_more_places_than_jax_counts(monkeypatch):
    monkeypatch.setattr(reservoirs, "check_memory", lambda *given: None)
    with pytest.raises(
        ConfigurationError, match=r"reservoir_size must be at most 2,147,467,263, .*; got 2,147"
    ):
        reservoirs.empty({"y": np.zeros(3, np.float32)}, 2**31 - 1 - 2 * reservoirs.STAGE + 1)
