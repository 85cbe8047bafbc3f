"""Datasets of many files: their order, their folders, and reading no more than needed."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from evidentia.data.sources import read_parquet
from evidentia.errors import DataError


def write(path, row_group_size=1000, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def rows(source, skip=0, name="y"):
    return np.concatenate([batch.arrays[name] for batch in source.batches(skip)])


def test_files_come_in_the_order_of_their_names_or_in_that_of_a_list(tmp_path):
    paths = [write(tmp_path / f"part-{i:02}.parquet", y=[i, i]) for i in (10, 2, 1)]
    assert rows(read_parquet(str(tmp_path / "*.parquet"))).tolist() == [1, 1, 2, 2, 10, 10]
    assert rows(read_parquet(tmp_path)).tolist() == [1, 1, 2, 2, 10, 10]
    assert rows(read_parquet(paths)).tolist() == [10, 10, 2, 2, 1, 1]


def test_a_reading_that_goes_on_from_any_row(tmp_path):
    for i in range(3):
        write(tmp_path / f"{i}.parquet", row_group_size=4, y=np.arange(10 * i, 10 * (i + 1)))
    source = read_parquet(tmp_path)
    assert source.num_rows == 30
    for skip in range(30):
        np.testing.assert_array_equal(rows(source, skip), np.arange(skip, 30))


def test_rows_that_are_skipped_are_not_read(tmp_path, monkeypatch):
    for i in range(3):
        write(tmp_path / f"{i}.parquet", row_group_size=4, y=np.arange(10 * i, 10 * (i + 1)))
    source = read_parquet(tmp_path)
    groups = []
    iter_batches = pa.parquet.ParquetFile.iter_batches

    def noted(self, *arguments, row_groups, **options):
        groups.append(list(row_groups))
        return iter_batches(self, *arguments, row_groups=row_groups, **options)

    monkeypatch.setattr(pa.parquet.ParquetFile, "iter_batches", noted)
    assert rows(source, skip=19).tolist() == list(range(19, 30))
    assert groups == [[2], [0, 1, 2]]


def test_the_first_batch_comes_before_the_rest_is_read(tmp_path):
    """The row group has a million rows, and a later file is damaged."""
    write(tmp_path / "0.parquet", row_group_size=1 << 21, y=np.zeros(1 << 21, np.float32))
    damaged = write(tmp_path / "1.parquet", y=np.arange(100_000.0))
    source = read_parquet(tmp_path)
    content = bytearray(damaged.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    damaged.write_bytes(content)
    batches = source.batches()
    assert next(batches).num_rows == 1 << 20
    with pytest.raises(DataError, match=r"1\.parquet cannot be read as a Parquet file \(it may be damaged"):
        list(batches)


def test_folders_of_a_partitioned_dataset_are_columns(tmp_path):
    table = pa.table({"year": [2024, 2023, 2024], "v": [1.0, 2.0, 3.0], "site": ["a", "b", "a"]})
    pa.parquet.write_to_dataset(table, tmp_path / "set", partition_cols=["year", "site"])
    write(tmp_path / "set" / "_temporary" / "half.parquet", v=[9.0])
    (tmp_path / "set" / "_SUCCESS").touch()
    source = read_parquet(tmp_path / "set", {"x": ["v", "year"], "year": "year"})
    assert rows(source, name="x").tolist() == [[2, 2023], [1, 2024], [3, 2024]]
    assert rows(source, name="year").dtype == np.int32
    assert rows(source, skip=1, name="year").tolist() == [2024, 2024]
    with pytest.raises(DataError, match="site=b.*'site' holds text"):
        read_parquet(tmp_path / "set").batches()
    # A file named directly gets no columns from its folders.
    alone = read_parquet(tmp_path / "set" / "year=2023" / "*" / "*.parquet")
    assert [list(batch.arrays) for batch in alone.batches()] == [["v"]]


def test_a_column_is_integer_if_it_is_so_in_every_file(tmp_path):
    write(tmp_path / "0.parquet", y=[1, 2], z=[1, 2])
    write(tmp_path / "1.parquet", z=pa.array([3, 4], pa.int8()), y=[1.5, 2.5], more=[0, 0])
    source = read_parquet(tmp_path, ["y", "z"])
    assert [batch.arrays["y"].dtype for batch in source.batches()] == [np.float32] * 2
    assert [batch.arrays["z"].dtype for batch in source.batches()] == [np.int32] * 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": ["a", "b"]}, r"1\.parquet has columns that cannot be used: 'y' holds text"),
        ({"z": [1]}, r"1\.parquet has no column 'y'. Available: z"),
    ],
)
def test_files_that_do_not_fit_are_named_at_once(tmp_path, columns, message):
    write(tmp_path / "0.parquet", y=[1, 2])
    write(tmp_path / "1.parquet", **columns)
    with pytest.raises(DataError, match=message):
        read_parquet(tmp_path, ["y"])


def test_files_that_are_none(tmp_path):
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + bytes(100))
    (tmp_path / "empty").mkdir()
    for paths, message in [
        (tmp_path / "text.parquet", "is not a Parquet file, despite its name"),
        (tmp_path / "broken.parquet", "cannot be read as a Parquet file"),
        (tmp_path / "gone.parquet", "does not exist"),
        (tmp_path / "empty", r"is a folder without \.parquet files"),
        (str(tmp_path / "gone-*.parquet"), r"no file matches .*gone-\*"),
    ]:
        with pytest.raises(DataError, match=message):
            read_parquet(paths)


def test_files_that_change_after_the_source_was_made(tmp_path):
    path = write(tmp_path / "0.parquet", y=[1, 2])
    source = read_parquet(path)
    write(path, y=[1, 2, 3])
    with pytest.raises(DataError, match="has 3 rows but had 2 when the source was created"):
        list(source.batches())
    path.unlink()
    with pytest.raises(DataError, match=r"0\.parquet cannot be read: No such file or directory"):
        list(source.batches())


def test_files_without_rows_are_passed_over(tmp_path):
    for i, values in enumerate(([], [1.0], [])):
        write(tmp_path / f"{i}.parquet", y=pa.array(values, pa.float64()))
    assert rows(read_parquet(tmp_path)).tolist() == [1.0]
