"""Change detection on the annotated series of TCPD, with one setting for all and by the oracle.

The settings of the first protocol were fixed before its scores were first computed. In the
second, the benchmark's "oracle", each series has the settings with the highest score on it, from
the grids below; that of the Gaussian is a part of the grid of the published BOCPD, 108 of its 500
settings of the same model. A third number has no published counterpart: the score of
each series with the settings whose mean over all *other* series is highest.
"""

import itertools
import json
from dataclasses import replace
from functools import partial

import numpy as np
from detection_choice import SCORES, chosen
from detection_river import GRIDS, RIVER, changes

from evidentia.monitor import BetaHazard, ConjugateRegression, NormalInverseGamma, RunLengths
from experiments import change_detection_tcpd as tcpd

PRIOR = {"rows_of_prior": tcpd.PRIOR["rows"], "shape": tcpd.PRIOR["shape"], "scale": tcpd.PRIOR["scale"]}
MODELS = {
    "Gaussian": NormalInverseGamma(**PRIOR),
    "Autoregression": ConjugateRegression(2, 3.0, PRIOR["shape"], PRIOR["scale"]),
}
HAZARDS = {"hazard 1/100": 1 / 100, "hazard learnt": BetaHazard(1, 99)}
RATES, FAR = (1 / 10, 1 / 50, 1 / 100, 1 / 200), (0.01, 1.0, 100.0)
NEAR = 0.01, 0.1, 1.0
SETTINGS = {  # of the oracle, for each model: hazards, and fields of the prior
    "Gaussian": {"hazard": RATES, "rows_of_prior": FAR, "shape": FAR, "scale": FAR},
    "Autoregression": {"hazard": RATES, "spread": (1.0, 3.0, 10.0), "scale": NEAR},
}
DETECTORS = [
    {"prior": {**tcpd.PRIOR, "scale": scale}, "rate": rate, "tempering": tempering}
    for scale, rate, tempering in itertools.product(NEAR, (1e-2, 1e-3, 1e-4), (0.5, 1.0))
]


def run_lengths(rows, model, hazard):
    """Change points by the most likely segmentation and by the alarms."""
    first = 0
    if isinstance(model, ConjugateRegression):  # from the second row on, each with a one and the previous one
        rows, first = np.stack([np.ones(len(rows) - 1), rows[:-1], rows[1:]], 1), 1
    runs = RunLengths(model, hazard, history=0)
    alarms = [alarm.row + first for alarm in runs.update(rows).alarms]
    return {"segmentation": (runs.most_likely_changes() + first).tolist(), "alarms": sorted({*alarms})}


def read(folder):
    """The series that have published scores, their annotations, and these scores."""
    series, annotations = tcpd.read(folder)
    published = json.loads(tcpd.PUBLISHED.read_text())
    return {name: series[name] for name in published["covering"]}, annotations, published


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


def as_published(published, series):
    """The published scores in the form of ours, by method."""
    return {
        f"{method} (published)": {
            name: {score: published[score][name][i] for score in SCORES} for name in series
        }
        for i, method in enumerate(published["methods"])
    }


def default_scores(folder):
    """Scores of all methods with one setting for all series."""
    series, annotations, published = read(folder)
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
        one = {key: changes(rows, name) for key, rows in series.items()}
        methods[f"river {name}"] = scored(series, annotations, one)
    methods |= as_published(published, series)
    return {name: {"mean": tcpd.means(found), "series": found} for name, found in methods.items()}


def sensitivity(folder):
    """Mean scores of the autoregression's segmentation with other priors and hazards."""
    series, annotations, _ = read(folder)
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


def combinations(grid):
    """All settings of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def searches():
    """Name, settings, and change points of rows with a setting, of each method."""
    for model, grid in SETTINGS.items():
        yield f"RunLengths, {model}", combinations(grid), partial(_run_lengths_changed, MODELS[model])
    for name, model in tcpd.MODELS.items():
        yield (
            f"ChangeDetector, {name}",
            DETECTORS,
            partial(_one_kind, partial(tcpd.change_points, model=model)),
        )
    for name in RIVER:
        yield f"river {name}", GRIDS[name], partial(_one_kind, partial(changes, name=name))


def _run_lengths_changed(model, rows, hazard, **prior):
    return run_lengths(rows, replace(model, **prior), hazard)


def _one_kind(changes_of, rows, **setting):
    return {"": changes_of(rows, **setting)}


def searched(name, settings, changes_of, series, annotations):
    """Scores of a method, of each kind of change points that `changes_of` returns."""
    methods = {}
    for setting in settings:
        found = {key: changes_of(rows, **setting) for key, rows in series.items()}
        for kind in next(iter(found.values())):
            points = {key: one[kind] for key, one in found.items()}
            label = f"{name}, {kind}" if kind else name
            methods.setdefault(label, []).append(scored(series, annotations, points))
    return {label: chosen(tables) for label, tables in methods.items()}


def oracle_scores(folder):
    """Scores of all methods by the oracle, beside the published ones."""
    series, annotations, published = read(folder)
    found = {}
    for search in searches():
        found |= searched(*search, series, annotations)
    oracle = as_published(published["oracle"], series)
    return found | {name: {"mean": tcpd.means(one), "series": one} for name, one in oracle.items()}
