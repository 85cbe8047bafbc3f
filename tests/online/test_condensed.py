"""Rows condensed to fewer ones with the same moments, in any order and again and again."""

import numpy as np
import pytest

from evidentia.online.condensed import Condensed, condensed


def rows(seed, count, offset=0.0):
    rng = np.random.default_rng(seed)
    arrays = {
        "group": rng.integers(0, 4, count).astype(np.int32),
        "kind": rng.integers(0, 2, count).astype(np.int32),
        "x": np.stack([rng.normal(size=count), np.full(count, 3.7)], axis=1).astype(np.float32),
        "y": (offset + rng.normal(size=count)).astype(np.float32),
    }
    return Condensed(arrays, np.ones(count))


def moments(found, offset=0.0):
    """Number, sums and sums of products of each cell, with y about its offset."""
    z = np.column_stack(
        [np.ones(len(found.copies)), found.arrays["x"], found.arrays["y"].astype(float) - offset]
    )
    cells = found.arrays["group"] * 2 + found.arrays["kind"]
    weighted = found.copies[:, None, None] * z[:, :, None] * z[:, None, :]
    return np.stack([weighted[cells == cell].sum(axis=0) for cell in range(8)])


@pytest.mark.parametrize("offset", [0.0, 1_000.0])
def test_moments_stay_those_of_all_rows(offset):
    """Also where float32 has steps of 6e-5 of a deviation, and a column is constant."""
    data = rows(0, 4_000, offset)
    found = Condensed({name: array[:0] for name, array in data.arrays.items()}, np.zeros(0))
    for part in np.array_split(np.random.default_rng(1).permutation(4_000), 40):
        found = condensed(found.beside(data.at(part)), "group", ("x", "y"))
        assert np.all(np.diff(found.arrays["group"]) >= 0)
    np.testing.assert_allclose(moments(found, offset), moments(data, offset), atol=1e-7)
    assert len(found.copies) == 8 * 10  # 1 + 3 + 6 moments of three numbers
    assert found.arrays["y"].dtype == np.float32 and found.copies.min() > 0


def test_equal_rows_count_as_one():
    data = rows(0, 200)
    data = Condensed({name: data.arrays[name] for name in ("group", "kind")}, data.copies)
    found = condensed(data, "group", ())
    assert found.copies.sum() == 200 and len(found.copies) == 8
    again = condensed(found, "group", ())
    np.testing.assert_array_equal(again.copies, found.copies)


def test_few_rows_stay_as_they_are():
    data = rows(0, 30)
    found = condensed(data, "group", ("x", "y"))
    np.testing.assert_array_equal(np.sort(found.arrays["y"]), np.sort(data.arrays["y"]))


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_moments_of_neighbours_in_float32_stay(share):
    """No third number lies between two neighbours, so that made nodes would coincide."""
    rng, count = np.random.default_rng(2), 2_000
    step = np.spacing(np.float32(1_000))
    arrays = {
        "group": np.zeros(count, np.int32),
        "kind": np.zeros(count, np.int32),
        "x": np.stack([np.float32(1_000) + step * (rng.random(count) < share), np.full(count, 3.7)], axis=1),
        "y": rng.normal(size=count),
    }
    data = Condensed({name: array.astype(np.float32) for name, array in arrays.items()}, np.ones(count))
    data.arrays["group"], data.arrays["kind"] = arrays["group"], arrays["kind"]
    found = Condensed({name: array[:0] for name, array in data.arrays.items()}, np.zeros(0))
    for part in np.array_split(np.arange(count), 10):
        found = condensed(found.beside(data.at(part)), "group", ("x", "y"))

    def in_steps(rows):
        arrays = rows.arrays | {"x": (rows.arrays["x"].astype(float) - [1_000, 0]) / [step, 1]}
        return moments(Condensed(arrays, rows.copies))

    np.testing.assert_allclose(in_steps(found), in_steps(data), rtol=1e-6, atol=1e-6)
    assert len(found.copies) <= 10


def test_rows_stay_where_values_are_missing():
    data = rows(0, 4_000)
    data.arrays["y"][::2] = np.nan
    found = condensed(data, "group", ("x", "y"))
    assert found.copies.sum() == 4_000 and np.isnan(found.arrays["y"]).sum() == 2_000
