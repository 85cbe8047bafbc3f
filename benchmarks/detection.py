"""Change detection: the annotated series of TCPD, and delays at equal false alarms.

    PYTHONPATH=. python benchmarks/detection.py --data-dir FOLDER      # ten minutes on 2 cores

  tcpd    Covering and F1 (margin 5), as in experiments/change_detection_tcpd.py, which says where
          FOLDER comes from: `RunLengths` by its most likely segmentation and by its alarms,
          `ChangeDetector`, river's detectors at their defaults (a change is the row of its alarm;
          for ADWIN, the first row of the window that it keeps), and the published scores.
  shifts  Streams of normal rows whose mean or scale changes after 500. The threshold of each
          detector is set so that 5% of as many other streams without a change raise an alarm in
          500 rows; then the delays are compared. Beside this, the false alarms at the defaults.

RunLengths has the prior of the experiment, fixed before its scores were first computed, and the
hazard of the published BOCPD's default, 1/100. river is not a dependency: `pip install river`.
Results go to benchmarks/results/detection.json and into docs/benchmarks-online.md.
"""

import argparse
import datetime
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from detection_page import with_detection
from machine import describe_machine
from river import __version__ as river_version
from river import drift

import evidentia as ev
from evidentia.monitor import BetaHazard, ConjugateRegression, NormalInverseGamma, RunLengths
from experiments import change_detection_tcpd as tcpd
from experiments.conjugate import Gaussian

FOLDER = Path(__file__).resolve().parent
KEPT = FOLDER / "results" / "detection.json"
PAGE = FOLDER.parent / "docs" / "benchmarks-online.md"
PRIOR = {"rows_of_prior": tcpd.PRIOR["rows"], "shape": tcpd.PRIOR["shape"], "scale": tcpd.PRIOR["scale"]}
MODELS = {
    "Gaussian": NormalInverseGamma(**PRIOR),
    "Autoregression": ConjugateRegression(2, 3.0, PRIOR["shape"], PRIOR["scale"]),
}
HAZARDS = {"hazard 1/100": 1 / 100, "hazard learnt": BetaHazard(1, 99)}
RIVER = {"ADWIN": drift.ADWIN, "Page-Hinkley": drift.PageHinkley, "KSWIN": lambda: drift.KSWIN(seed=0)}
LENGTH, CHANGE, SHARE = 1000, 500, 0.05
SHIFTS = {"mean + 0.5": (0.5, 1.0), "mean + 1": (1.0, 1.0), "mean + 2": (2.0, 1.0), "scale × 2": (0.0, 2.0)}
GRIDS = {  # from few to many alarms
    "ADWIN": [{"delta": 10.0**-k} for k in np.arange(8, 0, -0.5)],
    "Page-Hinkley": [{"threshold": float(t)} for t in (200, 150, 100, 80, 60, 50, 40, 30, 25, 20, 15, 10)],
    "KSWIN": [{"alpha": 10.0**-k} for k in np.arange(7, 2, -0.5)],
}


def run_lengths(rows, model, hazard):
    """Change points by the most likely segmentation and by the alarms."""
    first = 0
    if isinstance(model, ConjugateRegression):  # from the second row on, each with a one and the previous one
        rows, first = np.stack([np.ones(len(rows) - 1), rows[:-1], rows[1:]], 1), 1
    runs = RunLengths(model, hazard, history=0)
    alarms = [alarm.row + first for alarm in runs.update(rows).alarms]
    return {"segmentation": (runs.most_likely_changes() + first).tolist(), "alarms": sorted({*alarms})}


def river_changes(rows, name):
    """Rows at which a detector of river reports a change."""
    detector, found = RIVER[name](), []
    for row, value in enumerate(rows):
        detector.update(float(value))
        if detector.drift_detected:
            found.append(row + 1 - int(detector.width) if name == "ADWIN" else row)
    return found


def scored(series, annotations, found):
    """Scores of the change points of each series."""
    return {
        name: {
            "change_points": found[name],
            "covering": tcpd.covering(annotations[name], found[name], len(rows)),
            "f1": tcpd.f1(annotations[name], found[name]),
        }
        for name, rows in series.items()
    }


def score_tcpd(folder):
    """Scores of all methods on the series that have published ones."""
    series, annotations = tcpd.read(folder)
    published = json.loads(tcpd.PUBLISHED.read_text())
    series = {name: rows for name, rows in series.items() if name in published["covering"]}
    methods = {}
    for model in MODELS:
        for label, hazard in HAZARDS.items():
            found = {name: run_lengths(rows, MODELS[model], hazard) for name, rows in series.items()}
            for kind in ("segmentation", "alarms"):
                one = {name: points[kind] for name, points in found.items()}
                methods[f"RunLengths, {model}, {label}, {kind}"] = scored(series, annotations, one)
    for name, model in tcpd.MODELS.items():
        methods[f"ChangeDetector, {name}"] = tcpd.scores(series, annotations, model=model)
    for name in RIVER:
        one = {key: river_changes(rows, name) for key, rows in series.items()}
        methods[f"river {name}"] = scored(series, annotations, one)
    for i, method in enumerate(published["methods"]):
        methods[f"{method} (published)"] = {
            name: {score: published[score][name][i] for score in ("covering", "f1")} for name in series
        }
    return {name: {"mean": tcpd.means(found), "series": found} for name, found in methods.items()}


def streams(number, shift, scale, seed):
    """Normal rows, changed from row 500 on."""
    for generator in np.random.default_rng((7, seed)).spawn(number):
        rows = generator.normal(size=LENGTH)
        rows[CHANGE:] = shift + scale * rows[CHANGE:]
        yield rows


def run_length_path(rows):
    """Probability of a change after each row."""
    runs = RunLengths(
        NormalInverseGamma(0.0, 1.0, 3.0, 2.0), 1 / 1000, max_runs=100, history=0, threshold=1 - 1e-9
    )
    return np.array([runs.update([row]).change_probability for row in rows])


def e_detector_path(rows):
    """log Mₙ after each row, without alarms."""
    detector = ev.ChangeDetector(Gaussian(rows=1.0, shape=3.0, scale=2.0), 1e-300)
    return np.array([detector.update(rows[i : i + 1]).log_e_value for i in range(len(rows))])


def first_passage(path, threshold):
    """Row after which the path is first at the threshold; the length if it never is."""
    above = np.flatnonzero(path >= threshold)
    return int(above[0]) if len(above) else len(path)


def first_alarm(rows, detector):
    """Row of the first alarm of a detector of river; the number of rows if there is none."""
    for row, value in enumerate(rows):
        detector.update(float(value))
        if detector.drift_detected:
            return row
    return len(rows)


def delays(name, shift, settings, number):
    """Delays of streams without an earlier alarm; None if half of them have none later."""
    firsts = np.array([alarm_of(name, rows, settings) for rows in streams(number, *SHIFTS[shift], 1)])
    late = firsts[firsts >= CHANGE]
    median = float(np.median(np.where(late < LENGTH, late - CHANGE + 1, np.inf)))
    return {
        "early_share": float(np.mean(firsts < CHANGE)),
        "median_delay": median if np.isfinite(median) else None,
        "missed_share": float(np.mean(late == LENGTH)),
    }


def alarm_of(name, rows, settings):
    """Row of the first alarm with given settings."""
    if name in PATHS:
        return first_passage(PATHS[name](rows), settings["threshold"])
    seed = {"seed": 0} if name == "KSWIN" else {}
    return first_alarm(rows, getattr(drift, name.replace("-", ""))(**settings, **seed))


PATHS = {"RunLengths": run_length_path, "ChangeDetector": e_detector_path}
DEFAULTS = {"RunLengths": {"threshold": 0.9}, "ChangeDetector": {"threshold": float(np.log(1000))}}


def calibrated(name, number):
    """Settings with false alarms in at most 5% of streams, and the share that they have."""
    rows = [one[:CHANGE] for one in streams(number, 0.0, 1.0, 2)]
    if name in PATHS:
        highest = np.array([PATHS[name](one).max() for one in rows])
        threshold = float(np.quantile(highest, 1 - SHARE, method="higher")) * (1 + 1e-9)
        return {"threshold": threshold}, float(np.mean(highest >= threshold))
    best, best_share = GRIDS[name][0], np.nan
    for settings in GRIDS[name]:
        share = float(np.mean([alarm_of(name, one, settings) < CHANGE for one in rows]))
        if share > SHARE:
            break
        best, best_share = settings, share
    return best, best_share


def sensitivity(folder):
    """Mean scores of the autoregression's segmentation with other priors and hazards."""
    series, annotations = tcpd.read(folder)
    series = {name: series[name] for name in json.loads(tcpd.PUBLISHED.read_text())["covering"]}
    default, found = MODELS["Autoregression"], []
    for change in (
        {"scale": 0.01},
        {"scale": 1.0},
        {"spread": 1.0},
        {"spread": 10.0},
        {"hazard": 1 / 50},
        {"hazard": 1 / 250},
    ):
        prior = {name: value for name, value in change.items() if name != "hazard"}
        hazard = change.get("hazard", 1 / 100)
        points = {
            name: run_lengths(rows, replace(default, **prior), hazard)["segmentation"]
            for name, rows in series.items()
        }
        found.append({**change, **tcpd.means(scored(series, annotations, points))})
    return found


def compare_shifts(number):
    """Thresholds, false alarms and delays of every detector."""
    found = {}
    for name in (*PATHS, *RIVER):
        settings, share = calibrated(name, number)
        rows = [one[:CHANGE] for one in streams(number, 0.0, 1.0, 3)]
        default = DEFAULTS.get(name, {})
        found[name] = {
            "settings": settings,
            "calibrated_share": share,
            "false_alarms_of_defaults": float(
                np.mean([alarm_of(name, one, default) < CHANGE for one in rows])
            ),
            "shifts": {shift: delays(name, shift, settings, number) for shift in SHIFTS},
        }
        print(name, json.dumps(found[name]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["tcpd", "shifts"], choices=["tcpd", "shifts"])
    parser.add_argument("--data-dir", type=Path, default=Path("tcpd"), help="the folder of series")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--out", type=Path, default=KEPT)
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    results |= {"machine": describe_machine(), "date": str(datetime.date.today()), "river": river_version}
    if "tcpd" in arguments.parts:
        results["tcpd"] = score_tcpd(arguments.data_dir)
        results["sensitivity"] = sensitivity(arguments.data_dir)
        for name, entry in results["tcpd"].items():
            print(f"{name:60} {entry['mean']['covering']:.3f} {entry['mean']['f1']:.3f}", flush=True)
    if "shifts" in arguments.parts:
        results |= {"streams": arguments.streams, "shifts": compare_shifts(arguments.streams)}
    arguments.out.write_text(json.dumps(results, indent=1, default=float) + "\n")
    if arguments.out == KEPT:
        PAGE.write_text(with_detection(PAGE.read_text(), results))


if __name__ == "__main__":
    main()
