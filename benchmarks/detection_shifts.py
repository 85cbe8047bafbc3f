"""Streams of normal rows that change: delays of all detectors at equal false alarms.

The threshold of each detector is set so that 5% of as many streams without a change raise an alarm
in 500 rows; then the delays are compared. Beside this, the false alarms at the defaults.
"""

import json

import numpy as np
from detection_river import GRIDS, RIVER, first_alarm

import evidentia as ev
from evidentia.monitor import NormalInverseGamma, RunLengths
from experiments.conjugate import Gaussian

LENGTH, CHANGE, SHARE = 1000, 500, 0.05
SHIFTS = {"mean + 0.5": (0.5, 1.0), "mean + 1": (1.0, 1.0), "mean + 2": (2.0, 1.0), "scale × 2": (0.0, 2.0)}


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
    return first_alarm(rows, name, **settings)


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
