"""Change detection on the Turing change point dataset, compared with published scores.

    python -m experiments.change_detection_tcpd --data-dir FOLDER     # a minute

FOLDER holds one JSON file per series and `annotations.json`, from
github.com/alan-turing-institute/TCPD. Univariate series without missing values are standardised,
as in the benchmark, and read one row at a time by `ev.ChangeDetector` with its default settings
and on_change="forget", around two models with exact evidence:

  Gaussian          rows are independent given mean and variance: the published BOCPD's model;
  Autoregression    each row is a linear function of the previous one plus noise: most of these
                    series drift.

The priors were fixed before any scores were computed; the second model was added after the first
had been scored. The sensitivity of the scores to prior, false-alarm rate and tempering is reported
too. Published scores are those of the default settings, for the same series.

The detector is online: it raises alarms and places changes using only the rows so far. PELT,
binary segmentation and AMOC read the whole series first. BOCPD is scored on its final answer.

Source: van den Burg and Williams (2020), "An evaluation of change point detection algorithms",
arXiv:2003.06222, section 4 for the scores.
"""

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np

import evidentia as ev
from experiments.conjugate import Autoregression, Gaussian

REPOSITORY = Path(__file__).resolve().parents[1]
PUBLISHED = Path(__file__).with_name("tcpd_published.json")
PRIOR = {"rows": 0.1, "shape": 1.0, "scale": 0.1}  # for a standardised series
RATE = 1e-3
MODELS = {"Gaussian": Gaussian, "Autoregression": Autoregression}
SENSITIVITY = (
    {"prior": {**PRIOR, "scale": 0.01}},
    {"prior": {**PRIOR, "scale": 1.0}},
    {"prior": {**PRIOR, "rows": 0.01}},
    {"prior": {**PRIOR, "rows": 1.0}},
    {"rate": 1e-2},
    {"rate": 1e-4},
    {"tempering": 0.5},
)


def read(folder):
    """Univariate series without missing values, standardised, and their annotations, by name."""
    annotations = json.loads((folder / "annotations.json").read_text())
    series = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        if "series" not in content or content["n_dim"] != 1:
            continue
        rows = np.array(content["series"][0]["raw"], float)  # None becomes NaN
        if np.isfinite(rows).all():
            series[content["name"]] = (rows - rows.mean()) / rows.std()
    return series, {name: list(annotations[name].values()) for name in series}


def change_points(rows, model=Gaussian, prior=PRIOR, rate=RATE, **settings):
    """Rows at which a new segment begins."""
    first = 0
    if model is Autoregression:  # from the second row on, each with the previous one
        rows, first = np.stack([rows[:-1], rows[1:]], 1), 1
    detector = ev.ChangeDetector(model(**prior), rate, on_change="forget", **settings)
    alarms = [detector.update(rows[i : i + 1]).alarm for i in range(len(rows))]
    return [alarm.row + first for alarm in alarms if alarm]


def matches(true, found, margin=5):
    """Count true change points with a found one within the margin, using each found one once."""
    left, count = set(found), 0
    for row in sorted(true):
        near = [(abs(row - other), other) for other in left if abs(row - other) <= margin]
        if near:
            left.remove(min(near)[1])
            count += 1
    return count


def f1(annotations, found, margin=5):
    """F1 with row 0 as a trivial change point; recall is averaged over the annotators."""
    found = {0, *found}
    sets = [{0, *rows} for rows in annotations]
    precision = matches(set.union(*sets), found, margin) / len(found)
    recall = np.mean([matches(true, found, margin) / len(true) for true in sets])
    return float(2 * precision * recall / (precision + recall))


def segments(rows, length):
    edges = [0, *sorted({row for row in rows if 0 < row < length}), length]
    return list(itertools.pairwise(edges))


def covering(annotations, found, length):
    """Length-weighted best Jaccard index of each annotated segment with a found one.

    The result is the mean over the annotators.
    """

    def jaccard(one, other):
        shared = max(0, min(one[1], other[1]) - max(one[0], other[0]))
        return shared / (one[1] - one[0] + other[1] - other[0] - shared)

    predicted = segments(found, length)
    return float(
        np.mean(
            [
                sum((part[1] - part[0]) * max(jaccard(part, other) for other in predicted) for part in true)
                / length
                for true in (segments(rows, length) for rows in annotations)
            ]
        )
    )


def scores(series, annotations, **settings):
    """Change points, covering and F1 of each series."""
    found = {}
    for name, rows in series.items():
        points = change_points(rows, **settings)
        found[name] = {
            "change_points": points,
            "covering": covering(annotations[name], points, len(rows)),
            "f1": f1(annotations[name], points),
        }
    return found


def means(found):
    return {score: float(np.mean([entry[score] for entry in found.values()])) for score in ("covering", "f1")}


def table(ours, published, names):
    """Mean scores as Markdown, ours last."""
    lines = ["| method | covering | F1 |", "|---|---|---|"]
    for i, method in enumerate(published["methods"]):
        of_method = [np.mean([published[score][name][i] for name in names]) for score in ("covering", "f1")]
        lines.append(f"| {method} (published) | {of_method[0]:.3f} | {of_method[1]:.3f} |")
    for name, entry in ours.items():
        lines.append(
            f"| ChangeDetector, {name} | {entry['mean']['covering']:.3f} | {entry['mean']['f1']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def run(series, annotations, sensitivity):
    """Scores with each model, and mean scores with other settings."""
    ours = {}
    for name, model in MODELS.items():
        found = scores(series, annotations, model=model)
        others = [
            {**settings, **means(scores(series, annotations, model=model, **settings))}
            for settings in sensitivity
        ]
        ours[name] = {"mean": means(found), "sensitivity": others, "series": found}
    return ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = REPOSITORY.parent / "shared" / "data" / "tcpd"
    parser.add_argument("--data-dir", type=Path, default=default, help="the folder of series")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--quick", action="store_true", help="the default settings only")
    arguments = parser.parse_args()
    if not (arguments.data_dir / "annotations.json").is_file():
        print(
            f"No annotations.json in {arguments.data_dir}: get the Turing change point dataset from "
            "github.com/alan-turing-institute/TCPD and name its folder with --data-dir.",
            file=sys.stderr,
        )
        sys.exit(2)
    series, annotations = read(arguments.data_dir)
    published = json.loads(PUBLISHED.read_text())
    names = [name for name in series if name in published["covering"]]
    series = {name: series[name] for name in names}
    ours = run(series, annotations, () if arguments.quick else SENSITIVITY)
    result = {"prior": PRIOR, "false_alarm_rate": RATE, "num_series": len(names), "models": ours}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "change_detection_tcpd.json").write_text(json.dumps(result, indent=1) + "\n")
    text = table(ours, published, names)
    (arguments.out / "change_detection_tcpd.md").write_text(text)
    print(f"{len(names)} series\n{text}")


if __name__ == "__main__":
    main()
