"""The programs for a GPU, for slow work and for the ablation: truths, ratios and messages."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from evidentia.errors import EstimationError
from evidentia.evidence.method import Estimate, Snapshot

# The programs in benchmarks/ import each other as scripts do.
sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
import ablation  # isort: skip
import detection_choice  # isort: skip
import detection_page  # isort: skip
import gpu  # isort: skip
import slow_cases  # isort: skip
import slow_work  # isort: skip
from gpu_problems import exact_linear, works  # isort: skip


@pytest.mark.parametrize("in_block", [64, 100, 1000])
def test_exact_evidence_on_the_device(in_block):
    work = works()["linear"]
    arrays = work.draw(jax.random.key(1), 200)
    exact = work.model.exact_log_evidence({name: np.asarray(array) for name, array in arrays.items()})
    assert exact_linear(arrays, in_block) == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("name", ["linear", "softmax", "mixture"])
def test_rows_fit_their_model(name):
    work = works()[name]
    arrays = jax.eval_shape(lambda: work.draw(jax.random.key(0), 10))
    given, _ = work.model.simulate(10, seed=0)
    assert {key: (array.shape, array.dtype) for key, array in arrays.items()} == {
        key: (array.shape, array.dtype) for key, array in given.items()
    }


def method_with(snapshots: int) -> SimpleNamespace:
    def run(model, rows, key):
        for index in range(snapshots):
            seen = rows.size if index == snapshots - 1 else 1
            yield Snapshot(Estimate(-3.0, 0.25, is_unbiased=False), seen, np.zeros((1, 1)), np.zeros(1))

    return SimpleNamespace(run=run)


def test_a_run_in_time():
    found = gpu.run_over(method_with(2), None, SimpleNamespace(size=5), 0, np.inf)
    assert (found["log_evidence"], found["standard_error"], found["signs"]) == (-3.0, 0.5, [])


def test_a_run_that_is_stopped():
    found = gpu.run_over(method_with(2), None, SimpleNamespace(size=5), 0, 0.0)
    assert found["unfinished"] == "stopped, as the time was over"
    assert "log_evidence" not in found


def test_seconds_wanted_grow_with_rows():
    before = {"rows": 10, "seconds": 2.0, "first_seconds": 5.0, "bare_pass_seconds": 1.0}
    assert gpu.seconds_wanted(before, 100) == 3.0 + 10 * 3.0
    assert gpu.seconds_wanted({**before, "seconds": None}, 100) == 50.0
    assert gpu.seconds_wanted({"rows": 10, "unfinished": "stopped"}, 100) == np.inf
    assert gpu.seconds_wanted(None, 100) == 0.0


def test_work_without_time_is_not_started(monkeypatch):
    monkeypatch.setattr(gpu, "small_problem", lambda: iter(()))
    records = list(gpu.records_of([100, 10], 50, bandwidth=1e9, deadline=0.0))
    assert [(each["work"], each["rows"]) for each in records] == [
        ("linear", 10),
        ("softmax", 10),
        ("linear, full float32", 10),
        ("linear", 100),
        ("softmax", 100),
        ("mixture", 50),
    ]
    assert all(each["unfinished"] == "not started: about 0 s wanted, 0 s left" for each in records)
    assert gpu.line_of(records[0]).startswith("| linear | 10 |")


def test_an_error_is_a_record(monkeypatch):
    def measure(*_):
        raise EstimationError("no mode\nat all")

    monkeypatch.setattr(gpu, "measure", measure)
    found = gpu.attempt(works()["softmax"], 10, 1e9, 0.0)
    assert found == {"work": "softmax", "rows": 10, "unfinished": "no mode"}


def test_a_line_of_the_table():
    record = {"work": "linear", "rows": 1000, "seconds": 0.5, "first_seconds": 2.0, "bandwidth_share": 0.1}
    record |= {"log_evidence": -1.0, "standard_error": 0.01, "signs": ["low_ess"]}
    record |= {"reference": "exact", "reference_log_evidence": -1.5}
    expected = "| linear | 1,000 | 2.00 | 0.500 |  | 0.1 | -1.000 (low_ess) | 0.010 | exact: +0.500 |"
    assert gpu.line_of(record) == expected


def test_bandwidth_is_positive():
    assert 0 < gpu.measured_bandwidth(1 << 16) < 1e13


@pytest.mark.slow
def test_nested_slice_sampling_finds_the_exact_evidence():
    import peers
    from small_problems import linear

    problem = linear()
    found = peers.nss(problem)(0)
    assert found.standard_error is not None and found.standard_error < 0.5
    assert abs(found.log_evidence - problem.truth(problem.data)[0]) < 4 * found.standard_error


def test_an_unknown_case():
    with pytest.raises(SystemExit, match=r"--cases must be among mixture-5-0, .*stream; got nothing\."):
        slow_work.cases_of("rebuilt,nothing")
    assert slow_work.cases_of(None) == list(slow_cases.CASES)
    assert slow_work.cases_of("smc,stream") == ["smc", "stream"]


def test_passes_only_of_a_pass_that_can_be_measured():
    assert slow_cases.with_passes({"seconds": 3.0}, 1.5)["passes"] == 2.0
    assert slow_cases.with_passes({"seconds": 3.0}, 1e-4)["passes"] is None


def test_errors_at_equal_seconds(monkeypatch):
    """Four times as long for the same error is twice the error at equal seconds."""
    import estimators

    def measure_all(problems, methods, seeds, limit):
        for _method, seconds in zip(methods, (4.0, 1.0), strict=True):
            runs = [{"log_evidence": -1.0 + shift, "seconds": seconds} for shift in (9.0, 0.1, -0.1)]
            stopped = "stopped after 225 s" if problems == ["scale"] else ""
            yield {"runs": runs[:1] if stopped else runs, "truth": {"log_evidence": -1.0}, "stopped": stopped}

    monkeypatch.setattr(estimators, "measure_all", measure_all)
    found = {record["run"]: record for record in slow_cases.smc()}
    assert found["linear"]["ratio"] == pytest.approx(2.0)
    assert found["linear"]["error"] == pytest.approx(0.1)
    assert found["scale"]["unfinished"] == "stopped after 225 s; stopped after 225 s"


def test_a_case_that_fails_is_a_record(monkeypatch):
    monkeypatch.setattr(slow_work, "__file__", "/nowhere.py")
    (record,) = slow_work.measure("rebuilt")
    assert record == {"case": "rebuilt", "run": "", "unfinished": "the process ended with 2"}


def test_a_line_of_slow_work():
    record = {"case": "stream", "run": "stream", "seconds": 1.0, "passes": 2.0, "log_evidence": -5.0}
    record |= {"standard_error": 0.1, "verdict": "trusted", "apart": -1.5}
    assert slow_work.line_of(record).split() == (
        ["stream", "stream", "1.00", "2", "-5.000", "0.100", "trusted", "apart", "-1.50"]
    )


@pytest.mark.slow
def test_a_model_built_again():
    first, second = slow_cases.rebuilt(num_rounds=2)
    assert second["seconds"] < first["seconds"]
    assert (first["verdict"], second["verdict"]) == ("trusted", "trusted")


def test_the_page_has_one_section_of_change_detection():
    """It replaces an earlier one, and counts the series on which a method is best."""
    scores = {"covering": 0.5, "f1": 0.5}
    entry = {"mean": scores, "series": {"nile": scores, "ozone": {"covering": 0.7, "f1": 0.2}}}
    better = {"mean": scores, "series": {"nile": {"covering": 0.6, "f1": 0.5}, "ozone": scores}}
    delays = {"early_share": 0.0, "median_delay": None, "missed_share": 0.6}
    results = {
        "date": "2026-01-01",
        "river": "0.1",
        "tcpd": {"a": entry, "b": better},
        "sensitivity": [{"f1": 0.4}, {"f1": 0.6}],
        "streams": 100,
        "shifts": {
            "KSWIN": {
                "settings": {"alpha": 0.001},
                "calibrated_share": 0.04,
                "false_alarms_of_defaults": 0.4,
                "shifts": {"mean": delays},
            }
        },
    }
    page = detection_page.with_detection("# Streams\n\ntext\n", results)
    assert "oracle" not in page and detection_page.with_detection(page, results) == page
    assert page.startswith("# Streams\n\ntext\n\n## Change detection\n")
    assert "| a | 0.500 | 0.500 | 1 | 1 |" in page and "| b | 0.500 | 0.500 | 1 | 2 |" in page
    assert "| KSWIN | alpha 0.001 | 0.04 | – (60%) | 0.40 |" in page and "0.400 to 0.600" in page


def test_the_page_tells_the_oracle_from_the_settings_of_others():
    """And names the series on which the best of ours and of the published ones differ."""
    low, high = {"covering": 0.5, "f1": 0.4}, {"covering": 0.7, "f1": 0.9}
    ours = {
        "num_settings": 9,
        "mean": high,
        "series": {"nile": high, "well_log": low},
        "elsewhere": {"mean": low, "well_log": low},
    }
    published = {"mean": low, "series": {"nile": low, "well_log": low}}
    names = "bocpd", "binseg", "pelt"
    results = {
        "date": "2026-01-01",
        "river": "0.1",
        "tcpd": {f"{name} (published)": published for name in names},
        "sensitivity": [{"f1": 0.4}],
        "oracle": {"RunLengths": ours, "bocpd (published)": published},
    }
    page = detection_page.detection_section(results)
    assert "| RunLengths | 9 | 0.700 | 0.900 | 2 | 2 | 0.500 | 0.400 |" in page
    assert "| bocpd (published) |  | 0.500 | 0.400 | 1 | 1 | – | – |" in page
    assert "| nile | RunLengths | 0.900 | bocpd | 0.400 |" in page and "| well_log | RunLengths" not in page
    assert "RunLengths 0.400. Published, at" in page and "bocpd 0.400, binseg 0.400, pelt 0.400." in page


def test_settings_by_the_oracle_and_by_the_other_series():
    """Of three settings on two series and the well-log; none is chosen by the series itself."""
    f1 = {"nile": (0.1, 0.9, 0.5), "ozone": (0.8, 0.2, 0.5), "well_log": (0.3, 0.1, 0.7)}
    tables = [
        {name: {"f1": values[at], "covering": 1 - values[at]} for name, values in f1.items()}
        for at in range(3)
    ]
    found = detection_choice.chosen(tables)
    assert found["num_settings"] == 3
    assert {name: one["f1"] for name, one in found["series"].items()} == {
        "nile": 0.9,
        "ozone": 0.8,
        "well_log": 0.7,
    }
    # Sums over the others are highest for the third setting (nile, ozone), the second (well-log).
    assert found["elsewhere"]["well_log"]["f1"] == 0.1
    assert found["elsewhere"]["mean"]["f1"] == pytest.approx((0.5 + 0.5 + 0.1) / 3)
    assert found["series"]["nile"]["covering"] == pytest.approx(0.9)


@pytest.mark.parametrize("name", ablation.MECHANISMS)
def test_a_mechanism_that_is_switched_off_exists(name):
    module, _, attribute = ablation.MECHANISMS[name][1].rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)
    assert ablation.replacement_of(name) is not None
