"""A followed file: what was read is compared with what is there, however long the file is."""

import pytest

from evidentia.data.sources.followed import Followed
from evidentia.errors import DataError


@pytest.mark.parametrize("rewritten", ["y\n3\n" + "1\n" * 60, "y\n" + "1\n" * 50 + "3\n3\n2\n"])
def test_a_long_file_is_compared_at_both_ends(tmp_path, rewritten):
    path = tmp_path / "table.csv"
    path.write_text("y\n" + "1\n" * 50)
    with path.open("rb") as file:
        followed = Followed(path, file, most_remembered=8)
        for _ in range(2):
            while followed.read(64):
                pass
            with path.open("a") as more:
                more.write("2\n")
            assert followed.read(64) == b"2\n"
        assert not followed.read(64)
        path.write_text(rewritten)
        with pytest.raises(DataError, match="was rewritten while it was followed"):
            followed.read(64)
