"""Digits: a column that float32 cannot hold is the same error whichever way it comes in."""

import io
import warnings
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import evidentia as ev
from evidentia.data.arrays import as_arrays
from evidentia.data.digits import Digits, check_digits
from evidentia.data.sources import ArraySource, IterableSource, read_csv, read_ipc, read_parquet
from evidentia.errors import DataError, EvidenceWarning

VARIATION = np.random.default_rng(0).integers(-3, 4, 200)
TYPES = {
    "int64": lambda offset: offset + VARIATION,
    "uint64": lambda offset: (offset + VARIATION).astype(np.uint64),
    "float64": lambda offset: offset + 0.5 + VARIATION,
    "Decimal": lambda offset: np.array([Decimal(offset + int(one)) for one in VARIATION]),
    "Fraction": lambda offset: np.array([Fraction(offset + int(one)) for one in VARIATION]),
}
MESSAGE = r"has values up to 1e\+\d\d(,| that| of which half)+ vary by only [1-6]; float\d\d has steps of .* there\. Subtract a"


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("offset", [10**7 + 20, 10**9 + 20, -(10**9) - 20, 10**12, 10**15])
def test_numbers_of_every_type_are_refused_in_memory(kind, offset):
    values = TYPES[kind](offset) if offset > 0 or kind != "uint64" else -TYPES["int64"](offset)
    for container in (
        np.asarray,
        list,
        pd.Series,
        lambda rows: (rows, rows),
        lambda rows: np.c_[VARIATION, rows],
    ):
        with pytest.raises(DataError, match=MESSAGE):
            as_arrays(container(values))
    as_arrays(values - min(values))  # a constant subtracted


def test_integers_that_float64_cannot_hold_either():
    for values in (
        10**18 + VARIATION,
        [10**30 + int(one) for one in VARIATION],
        pl.Series(10**18 + VARIATION),
    ):
        with pytest.raises(DataError, match=MESSAGE):
            as_arrays(values)
    assert as_arrays(np.full(3, 2**31 - 1)).tolist() == [2**31 - 1] * 3


@pytest.mark.parametrize("kind", ["int64", "uint64", "float64", "Decimal"])
@pytest.mark.parametrize("offset", [10**9 + 20, 10**15])
def test_numbers_of_every_type_are_refused_in_files_and_streams(tmp_path, kind, offset):
    table = pa.table({"y": TYPES[kind](offset), "row": np.arange(len(VARIATION))})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    pa.csv.write_csv(table, tmp_path / "rows.csv")
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    stream.seek(0)
    for source in (
        read_parquet(tmp_path / "rows.parquet"),
        read_parquet(tmp_path / "rows.parquet", {"x": ["row", "y"]}, types={"y": float}),
        read_csv(tmp_path / "rows.csv"),
        read_csv(str(tmp_path / "*.csv"), {"x": ["row", "y"]}, types={"y": float}),
        read_ipc(stream),
    ):
        with pytest.raises(DataError, match=f"column 'y' {MESSAGE}"):
            list(source.batches())


@pytest.mark.parametrize("kind", TYPES)
def test_rows_that_come_one_by_one_are_compared_with_those_before(kind):
    values = TYPES[kind](10**9 + 20)
    batches = [{"y": values[row : row + 1]} for row in range(20)]
    with pytest.raises(DataError, match=rf"batches\[\d+\]\['y'\] {MESSAGE}"):
        list(IterableSource(batches).batches())
    with pytest.raises(DataError, match=MESSAGE):
        ArraySource({"y": values})


def test_integers_with_gaps_and_numbers_as_text_keep_all_digits(tmp_path):
    gaps = pa.table({"y": pa.array([None, *(10**17 + VARIATION)])})
    pa.parquet.write_table(gaps, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=MESSAGE):
        list(read_parquet(tmp_path / "rows.parquet", missing="drop").batches())
    pa.csv.write_csv(gaps, tmp_path / "rows.csv")
    with pytest.raises(
        DataError, match="'y' has values up to 1e.17 that vary by only 6; float64 has steps of 16"
    ):
        list(read_csv(tmp_path / "rows.csv", missing="drop", types={"y": float}).batches())
    (tmp_path / "rows.csv").write_text("y\n" + "1e20\n" * 10)
    assert read_csv(tmp_path / "rows.csv")  # a constant loses nothing
    assert sum(batch.num_rows for batch in read_csv(tmp_path / "rows.csv").batches()) == 10


def test_numbers_of_any_size_are_compared_at_once(tmp_path):
    for values in (["1e400", "2"], ["1e-99999999", "1e17"], ["1.7e308", "-1.7e308"], ["0e-9999999", "3e20"]):
        numbers = [Decimal(value) for value in values]
        for given in (numbers, [*numbers, 10**300], [float(value) for value in values]):
            with suppress(DataError):
                as_arrays(given)
        (tmp_path / "rows.csv").write_text("\n".join(["y", *values]))
        with suppress(DataError):
            list(read_csv(tmp_path / "rows.csv", types={"y": float}).batches())


@pytest.mark.parametrize("far", [0, -999, 2_000_000_000])
@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_far_rows_do_not_hide_the_others(far, count, dtype):
    times = (1_700_000_000 + VARIATION).astype(dtype)
    times[:count] = far
    with pytest.raises(DataError, match="of which half vary by only .* steps of 128 there"):
        as_arrays(times)


def test_data_that_float32_holds_pass():
    random = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in (
            np.arange(2000, 2030),
            random.integers(0, 2, 100),
            random.integers(0, 10**9, 1000),
            0.1 * np.arange(100),
            1 - np.exp(-random.gamma(3, 10, 1000)),  # nearly all next to 1
            np.exp(5 * random.normal(size=1000)),
            np.where(random.random(1000) < 0.7, 0, random.integers(0, 10**8, 1000)),
            1_700_000_000 + 86_400 * np.arange(100),
            np.full(10, 10**9 + 1),
            [True, False],
        ):
            as_arrays(values)


def test_labels_are_not_computed_with():
    groups = {"group": 10**9 + np.arange(20) % 5}
    assert as_arrays(groups, labels="group")["group"].tolist() == groups["group"].tolist()
    with pytest.raises(DataError, match=r"data\['group'\] has values up to"):
        as_arrays(groups)


def test_a_stream_is_warned_of_once():
    batches = [{"y": 10**6 + VARIATION[row : row + 1]} for row in range(30)]
    with pytest.warns(EvidenceWarning, match="float32 has steps of 0.0625 there") as caught:
        list(IterableSource(batches).batches())
    assert len(caught) == 1


def test_a_sorted_column_in_small_batches_is_seen_as_a_whole():
    """Each batch varies by few steps alone; together with those before it, by many."""
    digits, times = Digits(), 1_000_000 + 1000.0 * np.arange(100)
    for row in range(0, 100, 2):
        digits.check("t", times[row : row + 2], "t")
    with pytest.raises(DataError, match=MESSAGE):
        check_digits(10**9 + times[:2] / 1000 - 1000, "t")


def test_observations_that_a_numpyro_function_holds_itself():
    values = 10**9 + 20 + VARIATION

    def holds_its_data():
        mean = numpyro.sample("mean", dist.Normal(1e9, 1000))
        numpyro.sample("y", dist.Normal(mean, 2.0), obs=values)

    with pytest.raises(DataError, match=f"the observations of 'y' {MESSAGE}"):
        ev.estimate(ev.Model.from_numpyro(holds_its_data))


def test_online_estimators_and_fleets_refuse_them_too():
    model = ev.models.linear_regression(1)
    rows = [{"x": np.ones((1, 1)) * row, "y": np.array([10**9 + 20 + row])} for row in range(3)]
    online = ev.Online(model)
    online._checked(rows[0])
    with pytest.raises(DataError, match=rf"batch\['y'\] {MESSAGE}"):
        online._checked(rows[1])
    fleet = ev.OnlineFleet(model)
    fleet._intake.read({"a": rows[0]})
    _, errors = fleet._intake.read({"a": rows[1], "b": rows[1]})
    assert list(errors) == ["a"] and "float32 has steps of 64" in str(errors["a"])
