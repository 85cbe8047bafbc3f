"""Numbers with commas as text are told from other text, so that they do not become categories."""

import pytest

import evidentia as ev
from evidentia.data.numbers_as_text import comma_advice


@pytest.mark.parametrize(
    "texts",
    [
        ["16,19", "13,90", "-11,44"],
        ["16,19", "13", "1.234,5", " 7,25"],
        [*(f"{k},5" for k in range(20)), "ca. 16"],
        ["1,5e3", ",5"],
    ],
)
def test_decimal_commas(texts):
    assert comma_advice(texts).startswith(
        f"numbers with commas as text, such as {texts[0]!r}. Pass decimal=','"
    )
    assert "thousands" not in comma_advice(texts)


def test_commas_may_separate_thousands():
    assert "if the commas separate thousands, remove them first" in comma_advice(["1,234", "12,345,678", "7"])


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["a,b", "c"],
        ["1", "2", "1,2"],
        ["1.5", "2"],
        ["Smith, 3", "Jones, 4"],
        ["1,2,3", "1,2"],
        ["10,20", "x", "y"],
    ],
)
def test_other_text(texts):
    assert comma_advice(texts) == ""


def test_a_source_of_numbers_names_the_argument(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y;x\n1;16,19\n2;13,90\n")
    with pytest.raises(
        ev.DataError, match=r"'x' holds numbers with commas as text, such as '16,19'\. Pass decimal"
    ):
        ev.read_csv(path, ["x"], sep=";")
