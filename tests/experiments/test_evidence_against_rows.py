"""The papers' estimators against the number of rows: reference, time cap and verdict."""

import copy
import json
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from evidentia.evidence.method import Estimate
from evidentia.posterior.rows import Window
from experiments import evidence_against_rows as experiment
from experiments import evidence_single_runs as single
from experiments.evidence_verdict import accuracy, draw, extrapolated, judge, table, time_ratio
from experiments.experiment import Settings

pytestmark = pytest.mark.experiments

TRUTH = -1_420_000.0


class Noisy:
    """The exact evidence plus a normal error with the reported standard deviation."""

    def run(self, model, rows, key):
        first = {name: value[rows.start : rows.stop] for name, value in rows.arrays.items()}
        exact = experiment.MODELS["linear"].exact_log_evidence(first)
        estimate = Estimate(exact + 0.1 * float(jax.random.normal(key)), 0.01, is_unbiased=False)
        yield SimpleNamespace(estimate=estimate)


@pytest.fixture(scope="module")
def record():
    """A run of the experiment in which one estimator replaces all of them."""
    part = {"METHODS": dict.fromkeys(experiment.METHODS, Noisy())}
    part["QUICK"] = {"linear": experiment.Plan((30, 60), 2, 1000.0, ("hybrid",))}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in part.items():
            patch.setattr(experiment, name, value)
        return json.loads(json.dumps(experiment.run("linear", Settings(quick=True))))


@pytest.fixture
def as_published():
    """The record of runs that are exactly as the paper says."""
    errors = {"SGAIS": 0.001, "sequential": 1e-4, "hybrid": 1e-4, "AIS": 0.0}
    times = {"SGAIS": 30.0, "sequential": 33.0, "nested sampling": 99.0, "AIS": 747.0}

    def entry(name):
        return {
            "num_observations": 1_000_000,
            "log_evidence": [TRUTH * (1 + errors.get(name, 0.0))] * 3,
            "standard_error": [0.9] * 3,
            "processor_seconds": [times.get(name, 1.0)] * 3,
            "clock_seconds": [times.get(name, 1.0)] * 3,
        }

    return {
        "problem": "linear",
        "sizes": [1_000_000],
        "repeats": 3,
        "references": [{"log_evidence": TRUTH, "standard_error": 0.0}],
        "runs": {name: [entry(name)] for name in experiment.METHODS},
        "skipped": {},
    }


def test_the_reference_of_a_model_without_exact_evidence_is_right():
    model = experiment.MODELS["linear"]
    data, params = model.simulate(200, 3)
    bound, rows = model.bind(data), Window(jax.tree.map(jnp.asarray, data), 0, 150)
    exact = experiment.reference(model, bound, rows, params)
    assert exact == {
        "log_evidence": model.exact_log_evidence({name: value[:150] for name, value in data.items()}),
        "standard_error": 0.0,
    }
    found = experiment.reference(replace(model, exact_log_evidence=None), bound, rows, params)
    assert 0 < found["standard_error"] < 0.05
    assert abs(found["log_evidence"] - exact["log_evidence"]) < 4 * found["standard_error"]


def test_the_estimates_of_a_run_are_right_at_every_size(record):
    assert "hybrid" not in record["runs"] and not record["skipped"]
    for name in record["runs"]:
        points = accuracy(record, name)
        assert [point.rows for point in points] == [30, 60]
        assert all(abs(point.error) < 4 * point.standard_error < 1 for point in points)
    # Each size and each repeat has its own seed.
    values = [value for entry in record["runs"]["SGAIS"] for value in entry["log_evidence"]]
    assert len(set(values)) == 4


def test_a_run_has_a_picture_and_a_table(record, tmp_path):
    draw(record).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    rows = {row["method"]: row for row in table(record)}
    assert rows["AIS"]["paper / SGAIS"] == 24.9 and rows["AIS"]["rows"] == 60
    assert rows["SGAIS"]["time / SGAIS"] == 1.0


def test_runs_stop_at_the_cap_and_what_is_compiled_first_does_not_count():
    calls = []

    def measure(size, repeat):
        calls.append((size, repeat))
        return {"processor_seconds": size / 100}

    plan = experiment.Plan((100, 1000, 10_000, 100_000), 2, 50.0)
    entries, reason = experiment.up_to_the_cap("nested sampling", measure, plan, Settings())
    assert calls == [(100, 0), (100, 0), (100, 1), (1000, 0), (1000, 1)]
    assert [entry["processor_seconds"] for entry in entries] == [[1.0, 1.0], [10.0, 10.0]]
    assert reason == "10,000 rows and more: a run would take 100 s, and the cap is 50 s"


def test_runs_that_are_remembered_are_not_done_again(tmp_path):
    plan = experiment.Plan((100,), 2, 50.0)
    settings = Settings(parts=tmp_path / "parts.json")
    first, _ = experiment.up_to_the_cap(
        "AIS", lambda size, repeat: {"processor_seconds": 1.0}, plan, settings
    )
    again, _ = experiment.up_to_the_cap("AIS", lambda *_: pytest.fail("done again"), plan, settings)
    assert first == again


def test_the_verdict_agrees_with_runs_that_are_as_published(as_published):
    verdict = judge(as_published)
    assert verdict.agrees
    assert "SGAIS is −1,420.0 nats off at N = 1,000,000, 0.1% of log Z (paper: 0.1%)" in verdict.measured
    assert "AIS takes 25 times as long as SGAIS" in verdict.measured


@pytest.mark.parametrize(
    "name, column, factor",
    [
        ("SGAIS", "log_evidence", 1.004),
        ("sequential", "log_evidence", 0.999),
        ("AIS", "processor_seconds", 0.04),
    ],
)
def test_the_verdict_differs_where_an_error_is_too_large_or_an_estimator_too_fast(
    as_published, name, column, factor
):
    wrong = copy.deepcopy(as_published)
    entry = wrong["runs"][name][0]
    entry[column] = [factor * value for value in entry[column]]
    verdict = judge(wrong)
    assert not verdict.agrees
    assert verdict.measured.count("which differs") == 1


def test_an_error_is_judged_by_its_own_uncertainty(as_published):
    as_published["runs"]["sequential"][0]["log_evidence"] = [TRUTH - 3000, TRUTH, TRUTH + 1500]
    (point,) = accuracy(as_published, "sequential")
    assert point.error == -500 and round(point.standard_error) == 1323  # 2291 / √3
    assert point.is_within(0.01) and not point._replace(standard_error=10.0).is_within(0.01)
    assert time_ratio(as_published, "AIS", "SGAIS") == (24.9, 1_000_000)


def test_what_the_cap_cut_off_is_extrapolated_and_says_so(as_published):
    record = copy.deepcopy(as_published)
    last = record["runs"]["nested sampling"][0]
    record["runs"]["nested sampling"] = [
        {**last, "num_observations": size, "processor_seconds": [seconds] * 3}
        for size, seconds in ((10_000, 2.0), (100_000, 30.0))
    ]
    record["sizes"], record["references"] = [10_000, 100_000, 1_000_000], record["references"] * 3
    for name in record["runs"].keys() - {"nested sampling"}:
        record["runs"][name] = [
            {**last, **entry, "num_observations": size}
            for size in record["sizes"]
            for entry in record["runs"][name]
        ]
    assert extrapolated(record, "nested sampling") == pytest.approx(30.0 * 15.0)
    assert extrapolated(record, "SGAIS") is None
    assert "extrapolated to N = 1,000,000 about 15 times" in judge(record).measured  # SGAIS takes 30 s
    rows = {row["method"]: row for row in table(record)}
    assert rows["nested sampling"]["all rows, extrapolated (s)"] == pytest.approx(450.0)
    assert rows["AIS"]["all rows, extrapolated (s)"] is None


def test_a_run_at_the_largest_size_alone_counts_though_sizes_before_it_are_missing(as_published):
    record = copy.deepcopy(as_published)
    record["sizes"], record["references"] = [1000, 1_000_000], [None, *record["references"]]
    for name in record["runs"].keys() - {"AIS"}:
        few = {**record["runs"][name][0], "num_observations": 1000}
        record["runs"][name] = [few, *record["runs"][name]]
    assert time_ratio(record, "AIS", "SGAIS") == (24.9, 1_000_000)
    assert [point.rows for point in accuracy(record, "AIS")] == [1_000_000]


def test_a_method_that_ran_only_where_there_is_no_reference(as_published):
    record = copy.deepcopy(as_published)
    record["sizes"], record["references"] = [100, 1_000_000], [None, *record["references"]]
    for name, entries in record["runs"].items():
        few = {**entries[0], "num_observations": 100}
        record["runs"][name] = [few] if name == "our default" else [few, *entries]
    assert "our default" not in judge(record).measured
    assert len(table(record)) == len(record["runs"])


def test_an_interrupted_single_run_leaves_its_seconds_and_the_runs_of_others(tmp_path):
    out = tmp_path / "runs.json"
    single.store("of another process", {"log_evidence": 1.0}, out)
    long = SimpleNamespace(run=lambda *arguments: iter(arguments))
    stages = single.Noted(long, "a long one", every=-1.0, out=out).run("first", "last")
    assert next(stages) == "first"  # and no more
    kept = single.stored(out)["runs"]
    assert kept["of another process"] == {"log_evidence": 1.0}
    assert kept["a long one"]["unfinished"] and kept["a long one"]["processor_seconds"] >= 0
