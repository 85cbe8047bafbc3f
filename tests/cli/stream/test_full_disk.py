"""A disk that fills up while a stream runs: what stands is whole, the old state or the new one."""

import json
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import evidentia as ev
from evidentia.checkpoint.folder import read
from evidentia.cli import main
from evidentia.cli.stream.run import RECORDS

resource = pytest.importorskip("resource", reason="needs limits of the size of files")

MODEL = ev.models.linear_regression(num_features=1)
DATA, _ = MODEL.simulate(400, seed=1)
WORDS = ("-m", "linear", "-t", "y", "--num-particles", "64", "--reservoir-size", "500", "--batch-size", "100")


@contextmanager
def no_file_above(size):
    """Writes beyond so many bytes of a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def rows(path, count):
    pa.csv.write_csv(
        pa.table({"a": DATA["x"][:count, 0].astype(float), "y": DATA["y"][:count].astype(float)}), path
    )
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [
        300,
        10_000,
        *(pytest.param(size, marks=pytest.mark.reference) for size in (0, 1000, 3000, 30_000, 100_000)),
    ],
)
def test_what_stands_is_old_or_new_and_the_next_run_goes_on(tmp_path, capsys, size):
    file, out, kept = tmp_path / "rows.csv", tmp_path / "out", tmp_path / "kept"
    words = ["stream", rows(file, 200), *WORDS, "--out", str(out), "--checkpoint", str(kept), "--quiet"]
    assert main(words) == 0
    whole = {name: (out / name).read_bytes() for name in ("results.json", "index.html")}
    rows(file, 400)
    with no_file_above(size):
        code = main(words)
    err = capsys.readouterr().err
    assert code in (0, 2) and "Traceback" not in err
    assert code == 0 or "File too large" in err or "No space left" in err
    results = json.loads((out / "results.json").read_text())
    assert results["num_observations"] in (200, 400)
    if results["num_observations"] == 200:
        assert code == 2
        assert (out / "results.json").read_bytes() == whole["results.json"]
    assert (out / "index.html").read_text().rstrip().endswith("</html>")
    assert read(kept, RECORDS)[0]["session"]["position"] in (200, 400)
    for line in (out / "updates.jsonl").read_text().splitlines(keepends=True):
        assert line.endswith("\n") and json.loads(line)
    # With room again, the same command comes to the result of a run that nothing stopped.
    assert main(words) == 0
    assert main(["stream", str(file), *WORDS, "--out", str(tmp_path / "alone"), "--quiet"]) == 0
    found, alone = (json.loads((folder / "results.json").read_text()) for folder in (out, tmp_path / "alone"))
    assert found["num_observations"] == 400
    assert np.float64(found["log_evidence"]) == alone["log_evidence"]
