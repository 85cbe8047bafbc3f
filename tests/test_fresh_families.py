"""Families of drawn problems: every truth by two computations; the runner's table counts right."""

import json
import math

import numpy as np
import pytest

from tests.second_truth import second_truth  # first: it puts benchmarks/ on the path

from fresh import method_of, read_records, run_once, seeds_of  # isort: skip
from fresh_families import FAMILIES, draw  # isort: skip
from fresh_table import counts_of, markdown_page, upper_bound  # isort: skip

TOLERANCE = 2e-3  # nats; quadratures agree to 1e-3


def error_of(problem) -> float:
    return abs(second_truth(problem) - problem.truth) / max(1.0, abs(problem.truth) * 1e-4)


def test_truths_twice():
    problems = {family: draw(family, 0) for family in FAMILIES}
    by_numpy = {
        name: one for name, one in problems.items() if callable(one.second)
    }  # others compile programs
    assert len(by_numpy) > 20
    errors = {family: error_of(problem) for family, problem in by_numpy.items()}
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_truths_of_many_seeds(family):
    errors = {seed: error_of(draw(family, seed)) for seed in range(1, 9)}
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_is_a_problem(family):
    one, same, other = draw(family, 3), draw(family, 3), draw(family, 4)
    assert one.truth == same.truth and math.isfinite(one.truth)
    for name in one.data:
        np.testing.assert_array_equal(one.data[name], same.data[name])  # NaN is a value like others
    assert any(not np.array_equal(one.data[name], other.data[name]) for name in one.data)
    assert one.model is same.model  # compiled programs are shared
    assert json.loads(json.dumps(one.drawn)) == one.drawn


def test_there_are_enough_families():
    assert len(FAMILIES) >= 25
    assert not any("," in name for name in FAMILIES)  # --families separates names by commas


RUN = {
    "family": "f",
    "seed": 1,
    "drawn": {},
    "truth": 0.0,
    "standard_error": 0.01,
    "verdict": "trusted",
    "seconds": 1.0,
    "method": "SGAIS",
    "commit": "abc",
    "date": "2026-01-01",
}


def test_silent_failures_are_trusted_and_far():
    found = [0.0, 0.09, 0.11, -3.0, math.nan]
    runs = [RUN | {"log_evidence": each} for each in found]
    runs += [RUN | {"log_evidence": 5.0, "verdict": "doubtful"}, RUN | {"failed": "stopped after 120 s"}]
    runs += [RUN | {"log_evidence": 1.0, "standard_error": 0.3}]
    counts = counts_of(runs)
    assert (counts.runs, counts.unanswered, counts.silent, counts.warned, counts.trusted) == (8, 2, 2, 1, 5)
    assert counts.covered == 1


def test_bound_of_a_rate_is_that_of_clopper_and_pearson():
    assert upper_bound(0, 3000) == pytest.approx(1 - 0.05 ** (1 / 3000))
    assert upper_bound(0, 0) == 1.0


def test_fresh_seeds_are_never_mixed_with_others():
    assert seeds_of("5:9") == range(5, 9)
    with pytest.raises(SystemExit, match="--seeds must be all below 1,000,000 or none"):
        seeds_of("999999:1000001")
    some = [RUN | {"log_evidence": 0.0}, RUN | {"seed": 1_000_001, "log_evidence": 1.0, "family": "g"}]
    fresh, development = markdown_page(some, {"cores": 2, "processor": "p", "python": "3", "jax": "0"}).split(
        "## Seeds used in development"
    )
    assert "| g | 1 |" in fresh and "| g |" not in development and "| f | 1 |" in development


def test_methods_by_name():
    assert method_of("SMC(num_particles=64)").num_particles == 64
    with pytest.raises(SystemExit, match="--method must be a method's name"):
        method_of("SMC(64)")


def test_a_file_that_was_cut_off_can_be_continued(tmp_path):
    (tmp_path / "runs.jsonl").write_text('{"seed": 1}\n{"see')
    assert read_records(tmp_path / "runs.jsonl") == [{"seed": 1}]


def test_a_run_is_recorded():
    record = run_once("formula with JZS", 0, None)
    assert abs(record["log_evidence"] - record["truth"]) < 1e-6
    assert record["verdict"] == "trusted"
