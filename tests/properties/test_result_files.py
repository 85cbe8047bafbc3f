"""Whatever a results.json holds, `evidentia compare` shows right numbers or one message."""

import json
import math
import reprlib

import pytest
from hypothesis import strategies as st

from evidentia.cli import main
from tests.properties.examples import ODD, changed, damaged, examples, for_all, paths_of

DATA = {"file": "a.csv", "target": "y", "features": ["a", "b"], "observations": "00ff00ff00ff00ff"}
NUMBERS = {"num_observations": 500, "log_evidence": -700.25, "standard_error": 0.125, "seconds": 1.5}
WRITTEN = {
    "title": "linear",
    "notes": [],
    "data": DATA,
    "evidences": {"linear": {**NUMBERS, "model_name": "linear", "completed": True}},
}
TEXT = json.dumps(WRITTEN).encode()


@st.composite
def entries(draw):
    """A file with up to three entries changed or left out."""
    found = WRITTEN
    for _ in range(draw(st.integers(1, 3))):
        paths = paths_of(found)
        # Half of the changes are in the numbers that are compared.
        wanted = [path for path in paths if path[-1] in NUMBERS] if draw(st.booleans()) else paths
        if wanted:
            odd = draw(ODD)
            path = draw(st.sampled_from(wanted))
            found = changed(found, path, draw(st.sampled_from([None, lambda _, odd=odd: odd])))
    return json.dumps(found).encode()


ENCODED = st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]).map(lambda name: TEXT.decode().encode(name))
DEEP = st.sampled_from([b"[" * 100_000, b'{"evidences":' * 50_000, TEXT[:-1] + b',"a":' + b"[" * 100_000])
LONG = st.just(TEXT.replace(b"-700.25", b"9" * 5000))
NAMES = st.text(st.characters(exclude_categories=()), max_size=20).map(
    lambda name: json.dumps(changed(WRITTEN, ("evidences",), lambda found: {name: found["linear"]})).encode()
)
FILES = st.one_of(entries(), entries(), NAMES, damaged(TEXT), st.binary(max_size=40), ENCODED, DEEP, LONG)

SHOWN = reprlib.repr  # the names of tests


def is_usable(evidence):
    """Whether the numbers are those of an estimate, written without the code under test."""
    numbers = [evidence.get(name) for name in NUMBERS if name in evidence]
    error = evidence.get("standard_error")
    return (
        len(numbers) == len(NUMBERS)
        and all(
            type(number) in (int, float) and math.isfinite(number) for number in numbers if number != error
        )
        and (error is None or (type(error) in (int, float) and math.isfinite(error) and error >= 0))
        and type(evidence["num_observations"]) is int
        and evidence["num_observations"] == 500
        and evidence["seconds"] >= 0
    )


@examples(many=3000, few=50)
def test_a_file_gives_right_numbers_or_one_message(count, tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "results.json").write_bytes(TEXT)

    @for_all(FILES, count)
    def holds(content):
        (tmp_path / "b" / "results.json").write_bytes(content)
        code = main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"])
        out, err = capsys.readouterr()
        if code:
            assert (code, out, err.count("Error")) == (2, "", 1), err
            return
        models = json.loads(out)["models"]
        evidences = json.loads(content)["evidences"]
        assert len(models) == 1 + len(evidences)
        assert all(is_usable(evidence) for evidence in evidences.values())
        found = sorted(model["log_evidence"] for model in models.values())
        assert found == sorted([-700.25, *(evidence["log_evidence"] for evidence in evidences.values())])
        assert math.isclose(sum(model["probability"] for model in models.values()), 1.0)
        assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
        capsys.readouterr()


@pytest.mark.parametrize("error", [-0.1, math.nan, True, "0.1", [0.1], 10**400], ids=SHOWN)
def test_a_wrong_standard_error_is_named_with_its_model(error, tmp_path, capsys):
    path = ("evidences", "linear", "standard_error")
    (tmp_path / "a.json").write_text(json.dumps(changed(WRITTEN, path, lambda _: error)))
    assert main(["compare", str(tmp_path / "a.json")]) == 2
    message = capsys.readouterr().err
    assert "linear" in message and "standard_error" in message


@pytest.mark.parametrize("rows", [-1, 0, 0.5, 500.0, 2**60, 10**400, math.nan, True, None, "500"], ids=SHOWN)
def test_a_wrong_number_of_rows_is_named_with_its_model(rows, tmp_path, capsys):
    path = ("evidences", "linear", "num_observations")
    (tmp_path / "a.json").write_text(json.dumps(changed(WRITTEN, path, lambda _: rows)))
    assert main(["compare", str(tmp_path / "a.json")]) == 2
    message = capsys.readouterr().err
    assert "linear" in message and "num_observations" in message
