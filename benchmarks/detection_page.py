"""The section of change detection on the page of benchmarks of streams."""

import textwrap

HEADING = "## Change detection\n"
OURS = "RunLengths", "ChangeDetector"


def with_detection(page: str, results: dict) -> str:
    """The page with its last section, that of change detection, replaced or appended."""
    return page.split(HEADING)[0].rstrip() + "\n\n" + detection_section(results)


def detection_section(results: dict) -> str:
    """Markdown of the parts that were run."""
    return HEADING + "".join(
        make(results)
        for name, make in (("tcpd", _tcpd), ("oracle", _oracle), ("shifts", _shifts))
        if name in results
    )


def _tcpd(results: dict) -> str:
    methods = results["tcpd"]
    num_series = len(next(iter(methods.values()))["series"])
    order = sorted(methods.items(), key=lambda one: -one[1]["mean"]["f1"])
    rows = "".join(
        f"| {name} | {entry['mean']['covering']:.3f} | {entry['mean']['f1']:.3f} | "
        f"{_wins(methods, name, 'covering')} | {_wins(methods, name, 'f1')} |\n"
        for name, entry in order
    )
    best = {
        score: max(methods, key=lambda name: methods[name]["mean"][score]) for score in ("covering", "f1")
    }
    f1 = [one["f1"] for one in results["sensitivity"]]
    return f"""
Measured on {results["date"]} with river {results["river"]}; `python benchmarks/detection.py` repeats it.

**Annotated series.** {num_series} univariate series of the Turing change point dataset (van den Burg and Williams, 2020),
standardised, with their scores: covering, and F1 with a margin of 5. All settings are defaults or were fixed before the
first scores; the autoregression was added after the Gaussian had been scored. The last two columns count the series on
which a method is best or equal to the best. Segmentations and the published PELT, binary segmentation, AMOC and BOCPD
use the whole series; alarms, `ChangeDetector` and river's detectors only the rows so far. The method "zero" finds no
change.

| method | covering | F1 | best in covering | best in F1 |
|---|--:|--:|--:|--:|
{rows}
Highest in F1: {best["f1"]}; in covering: {best["covering"]}.
With the autoregression, F1 of the segmentation is {min(f1):.3f} to {max(f1):.3f} if the prior's scale is ten times
smaller or larger, its spread 1 or 10, or the hazard 1/50 or 1/250. So the differences in the upper half of the table
are within what a prior changes. The model matters more: with independent normal rows, `RunLengths` and
`ChangeDetector` score below "zero".

"""


def _oracle(results: dict) -> str:
    methods = results["oracle"]
    order = sorted(methods.items(), key=lambda one: -one[1]["mean"]["f1"])
    rows = "".join(
        f"| {name} | {entry.get('num_settings', '')} | {entry['mean']['covering']:.3f} | "
        f"{entry['mean']['f1']:.3f} | {_wins(methods, name, 'covering')} | {_wins(methods, name, 'f1')} | "
        f"{_elsewhere(entry)} |\n"
        for name, entry in order
    )
    return f"""**The benchmark's other protocol, the oracle.** Each series has the settings with the highest score on it, so
this bounds what tuning could reach and is no score of a method that somebody could use. Our settings are grids of
prior, hazard and threshold; those of the Gaussian are 108 of the 500 of the published BOCPD, which is the same model.
PELT, binary segmentation and the like searched hundreds of penalties and costs. The last two columns have no published
counterpart: each series with the settings that are best on average over all other series.

| method | settings | covering | F1 | best in covering | best in F1 | covering, settings of the others | F1, settings of the others |
|---|--:|--:|--:|--:|--:|--:|--:|
{rows}
Where the best F1 of `RunLengths` and `ChangeDetector` and that of the published ones differ by more than 0.05:

| series | ours | | published | |
|---|---|--:|---|--:|
{_differences(methods)}
{_well_log(results)}
"""


def _elsewhere(entry: dict) -> str:
    if "elsewhere" not in entry:
        return "– | –"
    return " | ".join(f"{entry['elsewhere']['mean'][score]:.3f}" for score in ("covering", "f1"))


def _differences(methods: dict) -> str:
    """Lines of the series on which our best method and the best published one differ, by F1."""
    lines = []
    for key in next(iter(methods.values()))["series"]:
        best = []
        for kind in OURS, ("(published)",):
            scores = {
                name.removesuffix(" (published)"): entry["series"][key]["f1"]
                for name, entry in methods.items()
                if any(word in name for word in kind)
            }
            name = max(scores, key=lambda one: scores[one])
            best.append((name, scores[name]))
        (ours, mine), (theirs, other) = best
        if abs(mine - other) > 0.05:
            lines.append((other - mine, f"| {key} | {ours} | {mine:.3f} | {theirs} | {other:.3f} |\n"))
    return "".join(line for _, line in sorted(lines))


def _well_log(results: dict) -> str:
    """One series by itself: no setting was chosen by it."""
    parts = [
        f"{name} {entry['elsewhere']['well_log']['f1']:.3f}"
        for name, entry in results["oracle"].items()
        if "elsewhere" in entry
    ]
    published = [
        f"{method} {results['tcpd'][f'{method} (published)']['series']['well_log']['f1']:.3f}"
        for method in ("bocpd", "binseg", "pelt")
    ]
    text = (
        f"**The well-log** (675 rows), F1 with the settings that are best on the other series: {'; '.join(parts)}. "
        f"Published, at the defaults: {', '.join(published)}."
    )
    return textwrap.fill(text, 118) + "\n"


def _wins(methods: dict, name: str, score: str) -> int:
    series = methods[name]["series"]
    return sum(
        entry[score] >= max(other["series"][key][score] for other in methods.values()) - 5e-5
        for key, entry in series.items()
    )


def _shifts(results: dict) -> str:
    detectors = results["shifts"]
    shifts = list(next(iter(detectors.values()))["shifts"])
    rows = "".join(
        f"| {name} | {_settings(entry['settings'])} | {entry['calibrated_share']:.2f} | "
        + "".join(f"{_delay(entry['shifts'][shift])} | " for shift in shifts)
        + f"{entry['false_alarms_of_defaults']:.2f} |\n"
        for name, entry in detectors.items()
    )
    return f"""**Delays at equal false alarms.** {results["streams"]} streams of normal rows of mean 0 and standard deviation 1, of
which the mean or the scale changes after 500. Settings are the most sensitive (for river, of a grid) with a false alarm
within 500 rows in at most 5% of as many other streams. Median delay in rows, and in brackets the share of streams
without an alarm in the 500 rows after the change; a dash where this is half or more. The last column is the share of
streams with a false alarm within 500 rows at the defaults.

| detector | setting | false alarms | {" | ".join(shifts)} | at defaults |
|---|---|--:|{"--:|" * len(shifts)}--:|
{rows}
`RunLengths` and `ChangeDetector` know that rows are normal, with a prior of mean and variance about the truth; river's
detectors know neither.
"""


def _settings(settings: dict) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in settings.items())


def _delay(entry: dict) -> str:
    median = "–" if entry["median_delay"] is None else f"{entry['median_delay']:.0f}"
    return f"{median} ({entry['missed_share']:.0%})" if entry["missed_share"] else median
