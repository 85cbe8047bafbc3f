"""Results kept in the repository can be read and judged, and say where they come from."""

import json
from pathlib import Path

import pytest

from experiments.catalogue import EXPERIMENTS

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "results"
KEPT = sorted(name for name in EXPERIMENTS if (RESULTS / f"{name}.json").is_file())


def no_number(text):
    raise ValueError(f"{text} is not JSON")


@pytest.mark.parametrize("name", KEPT)
def test_kept_results_are_read_and_judged(name):
    text = (RESULTS / f"{name}.json").read_text("utf-8")
    stored = json.loads(text, parse_constant=no_number)
    about, record = stored["about"], stored["record"]
    assert {"date", "machine", "versions", "quick"} <= set(about) and not about["quick"]
    assert EXPERIMENTS[name].judge(record).measured
    assert (RESULTS / f"{name}.png").stat().st_size < 400_000 and len(text) < 400_000
