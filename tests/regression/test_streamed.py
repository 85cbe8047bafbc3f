"""Tables in files: the same evidence as in memory, with one block of rows in memory at a time."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError, EvidenceWarning
from evidentia.regression.moments import merged, moments_of
from evidentia.regression.sample import Sample

ROUNDING = 1e-11  # of log evidences of some hundred nats in float64


def table_of(rows, seed=0):
    generator = np.random.default_rng(seed)
    x, z = generator.standard_normal(rows), 1e6 + generator.standard_normal(rows)
    k = generator.choice(["ash", "elm", "oak"], rows)
    y = x + (k == "oak") + generator.standard_normal(rows)
    return pd.DataFrame({"y": y, "x": x, "z": z, "k": k, "r": generator.integers(1, 5, rows)})


def parts_of(table, folder, count=3):
    """Parquet files with small row groups, read in batches of 1,024 rows."""
    for index, rows in enumerate(np.array_split(np.arange(len(table)), count)):
        piece = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(piece, folder / f"{index}.parquet", row_group_size=100)
    return replace(ev.read_parquet(folder / "*.parquet"), values_at_once=1)


def estimate(formula, table, **arguments):
    return ev.estimate(ev.Regression(formula, **arguments), table)


@pytest.fixture(scope="module")
def whole():
    """A table, and its evidence in memory at once."""
    return (table := table_of(5000)), estimate("y ~ x + k", table).log_evidence


def test_moments_of_blocks_are_those_of_all_rows():
    rows = np.random.default_rng(0).standard_normal((1000, 3)) * [1, 1e3, 1e-6] + [1e6, 0, 1]
    blocks = [moments_of(block) for block in np.split(rows, [1, 10, 500])]
    together = blocks[0]
    for block in blocks[1:]:
        together = merged(together, block)
    centred = rows - rows.mean(axis=0)
    scale = np.outer(centred.std(axis=0), centred.std(axis=0)) * len(rows)
    np.testing.assert_allclose(together.means, rows.mean(axis=0), rtol=1e-14, atol=1e-12)
    # float64 holds 1e6 ± 1 to ten digits of the deviations; half of these errors cancel in sums
    np.testing.assert_allclose(together.products / scale, centred.T @ centred / scale, atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + z + k",
        "y ~ x * k + C(r)",
        "y ~ scale(x) + bs(z, df=4)",
        "scale(y) ~ x + offset(x)",
        "y ~ x - 1",
    ],
)
def test_files_give_the_evidence_of_the_table_in_memory(tmp_path, formula):
    table = table_of(5000)
    table.to_csv(tmp_path / "table.csv", index=False)
    inside = estimate(formula, table)
    for source in (parts_of(table, tmp_path), ev.read_csv(tmp_path / "table.csv", block_size=20_000)):
        found = estimate(formula, source)
        assert found.log_evidence == pytest.approx(inside.log_evidence, rel=ROUNDING)
        assert list(found.posterior) == list(inside.posterior) and found.num_observations == 5000
        for name, draws in inside.posterior.items():
            np.testing.assert_allclose(found.posterior[name], draws, rtol=1e-6, atol=1e-9)


def test_every_kind_of_table_in_blocks_gives_the_same(whole, small_blocks):
    table, log_evidence = whole
    for each in (table, pl.DataFrame(table.to_dict("list")), pa.Table.from_pandas(table)):
        assert estimate("y ~ x + k", each).log_evidence == pytest.approx(log_evidence, rel=ROUNDING)


@pytest.mark.usefixtures("small_blocks")
def test_a_factor_of_1000_changes_nothing(tmp_path):
    table = table_of(3000)
    one = estimate("y ~ x + z + k", parts_of(table, tmp_path))
    scaled = table.assign(x=1000 * table["x"], z=1000 * table["z"])
    other = estimate("y ~ x + z + k", parts_of(scaled, tmp_path))
    # the rounding of z = 10⁶ ± 1 is 1e-10 of its deviation and changes with the factor
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-9)
    np.testing.assert_allclose(other.posterior["x"] * 1000, one.posterior["x"], rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("small_blocks")
def test_categories_of_late_rows_are_found_and_of_dropped_rows_are_not(tmp_path):
    table = table_of(3000)
    table.loc[2990:2994, "k"] = "yew"
    table.loc[2995, ["k", "x"]] = ["fig", np.nan]
    with pytest.warns(EvidenceWarning, match=r"1 of 3,000 rows have missing values \(x 1\)"):
        found = estimate("y ~ x + k", parts_of(table, tmp_path))
    assert list(found.posterior)[1:-2] == ["x", "k[T.elm]", "k[T.oak]", "k[T.yew]"]
    with pytest.warns(EvidenceWarning):
        inside = estimate("y ~ x + k", table)
    assert found.log_evidence == pytest.approx(inside.log_evidence, rel=ROUNDING)


def test_the_first_category_of_text_is_that_in_memory(tmp_path):
    """Of one piece, too, whose dictionary has the order of appearance."""
    table = pd.DataFrame({"y": [1.0, 2.0, 4.0, 3.0, 2.5], "k": ["oak", "ash", "elm", "oak", "ash"]})
    table.to_csv(tmp_path / "table.csv", index=False)
    for source in (ev.read_csv(tmp_path / "table.csv"), parts_of(table, tmp_path, 1)):
        assert list(estimate("y ~ k", source).posterior) == list(estimate("y ~ k", table).posterior)


def test_the_order_of_pandas_categories_is_kept(tmp_path):
    table = table_of(3000)
    table["k"] = pd.Categorical(table["k"], ["oak", "none", "elm", "ash"])
    table.loc[:1500, "k"] = table["k"].iloc[:1501].where(table["k"].iloc[:1501] != "oak", "elm")
    for each in (table, parts_of(table, tmp_path)):
        assert list(estimate("y ~ k", each).posterior)[1:-2] == ["k[T.elm]", "k[T.ash]"]


@pytest.mark.usefixtures("small_blocks")
def test_missing_values_are_counted_over_all_batches(tmp_path):
    table = table_of(3000)
    table.loc[[5, 1500, 2999], "x"] = np.nan
    table.loc[[5, 7], "k"] = None
    table.to_csv(tmp_path / "table.csv", index=False)
    for source in (parts_of(table, tmp_path), ev.read_csv(tmp_path / "table.csv", block_size=20_000)):
        with pytest.warns(EvidenceWarning) as caught:
            found = estimate("y ~ x + k", source)
        assert [str(one.message) for one in caught] == [
            "4 of 3,000 rows have missing values (x 3, k 2) and were left out."
        ]
        assert found.num_observations == 2996
    with pytest.raises(
        DataError, match=r"0\.parquet has missing values in x, k; the first is in data row 6\."
    ):
        estimate("y ~ x + k", parts_of(table, tmp_path), missing="error")


@pytest.mark.usefixtures("small_blocks")
def test_numbers_as_categories_must_occur_in_the_rows_to_learn_on(tmp_path):
    table = table_of(3000)
    table.loc[2999, "r"] = 3  # an extreme would be in the sample
    table.loc[2998, "r"] = 30
    source = parts_of(table.assign(r=np.where(table["r"] == 30, 2.5, table["r"])), tmp_path)
    with pytest.raises(DataError, match=r"C\(r\) has the categories \{2.5\}, which the rows .* did not have"):
        estimate("y ~ C(r)", source)


def test_a_large_table_is_learnt_on_spread_rows_and_its_extremes(small_blocks):
    table, kept = table_of(10_000), Sample()
    table.loc[4567, "x"] = 99.0
    for start in range(0, 10_000, 251):
        kept.add(table.iloc[start : start + 251])
    rows = kept.rows()
    assert 100 <= len(rows) <= 210 and rows["x"].max() == 99 and rows["z"].min() == table["z"].min()
    steps = np.unique(np.diff(np.flatnonzero(table["y"].isin(rows["y"].iloc[:-8]))))
    assert len(steps) == 1


@pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")
@pytest.mark.parametrize(
    "columns, message",
    [
        ({"x": [np.inf, 1, 2, 3]}, "column 'x' is infinite in 1 rows"),
        ({"x": pd.date_range("2026-01-01", periods=4)}, "'x' holds values of type timestamp"),
        ({"x": ["7", "8", "8", "9"]}, "'x' holds text that looks like numbers, such as '7'"),
        ({"x": [np.nan] * 4}, "no rows without missing values"),
        ({"x": [1, 1, 1, 1]}, "'x' has the same value in all 4 rows"),
        ({"y": [1, 1, 1, 1]}, "the response is constant"),
        ({"y": list("abcd")}, "response y must hold numbers for this family; it has 'a', 'b', 'c'"),
        ({"x": [list("ab")] * 4}, "'x' holds values of type list"),
        ({"z": [1]}, "has no column 'y'"),
    ],
)
def test_files_that_cannot_be_used_are_explained(tmp_path, columns, message):
    table = pd.DataFrame(
        {"y": [1.0, 2, 3, 5], "x": [1.0, 2, 2, 3], **columns} if "z" not in columns else columns
    )
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "0.parquet")
    with pytest.raises(DataError, match=message):
        estimate("y ~ x", ev.read_parquet(tmp_path))


def test_files_of_different_types_are_named(tmp_path):
    pq.write_table(pa.table({"y": [1.0, 2, 3], "x": [1.0, 2, 2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"y": [1.0, 2, 3], "x": ["a", "b", "b"]}), tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"column 'x' holds text in .*1\.parquet, unlike before it"):
        estimate("y ~ x", ev.read_parquet(tmp_path))
    (tmp_path / "grows.csv").write_text("y,x\n1,2\n")
    with pytest.raises(ConfigurationError, match="needs a file that ends; leave follow= out"):
        estimate("y ~ x", ev.read_csv(tmp_path / "grows.csv", follow=True))


@pytest.mark.slow
def test_memory_is_bounded_by_a_block(tmp_path, small_blocks):
    table = table_of(200_000)
    source = replace(parts_of(table, tmp_path), values_at_once=1 << 15)
    estimate("y ~ x + k", ev.read_parquet(tmp_path / "0.parquet"))  # imports
    tracemalloc.start()
    estimate("y ~ x + k", source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6  # the three columns alone are 6 MB, and the text 12 MB


@pytest.mark.reference
def test_other_families_hold_the_columns_in_memory_or_read_them_for_each_look(tmp_path, monkeypatch):
    table = table_of(2000).assign(y=lambda one: (one["y"] > 0).astype(int))
    inside = estimate("y ~ x + k", table, family="bernoulli")
    found = estimate("y ~ x + k", parts_of(table, tmp_path), family="bernoulli")
    margin = 4 * np.hypot(found.standard_error, inside.standard_error)
    assert found.log_evidence == pytest.approx(inside.log_evidence, abs=margin)
    monkeypatch.setattr("os.sysconf", lambda name: 200)  # 40 kB of memory
    found = estimate("y ~ x + k", parts_of(table, tmp_path), family="bernoulli")
    assert found.log_evidence == pytest.approx(inside.log_evidence, abs=margin)


def test_select_terms_takes_files(tmp_path):
    table = table_of(2000)
    inside, found = (ev.select_terms("y ~ x + z + k", each) for each in (table, parts_of(table, tmp_path)))
    np.testing.assert_allclose(found.probability, inside.probability, rtol=1e-9)
