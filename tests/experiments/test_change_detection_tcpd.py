"""Scores are those of the benchmark, and the series are scored where they are available."""

import json

import pytest

from experiments import change_detection_tcpd as experiment

pytestmark = pytest.mark.experiments


def test_scores_are_those_of_the_benchmark():
    """The worked examples of the benchmark's own code (TCPDBench, analysis/scripts/metrics.py)."""
    assert experiment.f1([[10, 20], [11, 20], [10], [0, 5]], [10, 20]) == pytest.approx(1.0)
    assert experiment.f1([[], [10], [50]], [10]) == pytest.approx(0.9090909090909091)
    assert experiment.f1([[], [10], [50]], []) == pytest.approx(0.8)
    assert experiment.covering([[10, 20], [10], [0, 5]], [10, 20], 45) == pytest.approx(0.7962962962962963)
    assert experiment.covering([[], [10], [40]], [10], 45) == pytest.approx(0.7954144620811286)
    assert experiment.covering([[], [10], [40]], [], 45) == pytest.approx(0.8189300411522634)


def test_series_are_scored_beside_the_published_ones(shared_data, tmp_path, monkeypatch):
    folder = shared_data / "tcpd"
    if not folder.is_dir():
        pytest.skip(f"needs the annotated series in {folder}")
    series, annotations = experiment.read(folder)
    published = json.loads(experiment.PUBLISHED.read_text())
    zero = published["methods"].index("zero")
    for name in published["f1"]:  # the method "zero" finds no change
        scores = (
            experiment.covering(annotations[name], [], len(series[name])),
            experiment.f1(annotations[name], []),
        )
        assert scores == pytest.approx(
            (published["covering"][name][zero], published["f1"][name][zero]), abs=5e-5
        )
    # The Nile's flow changed in 1898; row 28 is the first one after it.
    assert experiment.change_points(series["nile"]) == [28]
    small = ("nile", "ozone", "rail_lines")
    content = {kind: {name: published[kind][name] for name in small} for kind in ("covering", "f1")}
    (tmp_path / "published.json").write_text(json.dumps({**published, **content}))
    monkeypatch.setattr(experiment, "PUBLISHED", tmp_path / "published.json")
    arguments = ["tcpd", "--quick", "--data-dir", str(folder), "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    experiment.main()
    result = json.loads((tmp_path / "change_detection_tcpd.json").read_text())
    assert result["num_series"] == 3 and result["models"]["Gaussian"]["series"]["nile"]["f1"] == 1.0
    assert "| pelt (published) |" in (tmp_path / "change_detection_tcpd.md").read_text()


def test_without_the_series_it_says_where_to_get_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tcpd", "--data-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        experiment.main()
    assert stop.value.code == 2
    assert f"No annotations.json in {tmp_path}: get the Turing change point" in capsys.readouterr().err
