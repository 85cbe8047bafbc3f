"""File names are short, valid and distinct, whatever the names of models are."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from evidentia.report.file_names import MOST_BYTES, file_name, file_names

NAMES = st.text(st.characters(exclude_categories=()), max_size=300)
ALIKE = st.sampled_from(
    ["a b", "A_b", "a*b", "a x b", "a_x_b", "é", "e\u0301", "ＡＢ", "ab", "", ".", "..", "con", "x.png", "x"]
)


@given(st.lists(NAMES | ALIKE, unique=True, max_size=8))
def test_names_are_short_valid_and_distinct(names):
    found = file_names(names)
    assert [*found] == names
    keys = {unicodedata.normalize("NFKC", stem).casefold() for stem in found.values()}
    assert len(keys) == len(names)
    for stem in found.values():
        assert 0 < len(stem.encode()) <= MOST_BYTES + 17
        assert not set(stem) & set('/\\<>:"|?*\0 ') and stem[0] not in "._" and stem[-1] != "."
        assert not stem.endswith((".png", ".csv", ".parquet", ".json"))


def test_a_name_that_is_the_name_with_a_hash_of_others_is_kept_apart():
    hashed = file_names(["a b", "A_b"])["A_b"]
    assert len(set(file_names(["a b", "A_b", hashed]).values())) == 3


def test_long_names_with_the_same_beginning_differ():
    first, second = (
        file_name("y ~ " + " + ".join(f"column_{place}" for place in range(count))) for count in (50, 51)
    )
    assert first != second and first[:60] == second[:60]
    assert file_name("y ~ a + b") == "y_a_b"
