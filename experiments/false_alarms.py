"""False alarms, delay and interval coverage of the change detector.

    python -m experiments.false_alarms                 # ten minutes on 2 cores
    python -m experiments.false_alarms --quick --out somewhere

The models have exact evidence (a Gaussian with unknown mean and variance, a Bernoulli with unknown
probability), so only the detector is measured. Streams without a change:

  prior             parameters drawn from the prior for every stream, as the guarantee assumes;
  fixed, centre     parameters fixed where the prior is high;
  fixed, tail       the mean fixed three prior standard deviations off;
  Bernoulli         fixed probability of 0.3;
  Student t         rows from a Student t with three degrees of freedom: the Gaussian is wrong;
  AR(1)             rows with an autocorrelation of 0.5: the model is wrong again;

the last two also with `tempering`, and the Student t with `DensityHistogram` around the wrong
model. The results are the share of streams with an alarm within the horizon, and the mean run
length, truncated at the horizon, to compare with 1 / rate. The truncated mean is below the mean,
so a value above 1 / rate confirms the claim. Then follow streams with a change at a random row,
and the picture of one, which is `docs/images/change-detection.png`.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import evidentia as ev
from evidentia.display.plots import COLORS
from evidentia.monitor import DensityHistogram
from experiments.conjugate import Bernoulli, Gaussian

GAUSSIAN = {"rows": 1.0, "shape": 3.0, "scale": 2.0}  # prior mean variance of 1
CREDIBILITY = 0.95


def from_prior(generator, size):
    variance = GAUSSIAN["scale"] / generator.standard_gamma(GAUSSIAN["shape"])
    mean = generator.normal(0, np.sqrt(variance / GAUSSIAN["rows"]))
    return generator.normal(mean, np.sqrt(variance), size)


def autocorrelated(generator, size):
    rows = generator.normal(size=size)
    for i in range(1, size):
        rows[i] = 0.5 * rows[i - 1] + np.sqrt(0.75) * rows[i]
    return rows


def gaussian(_generator=None):
    return Gaussian(**GAUSSIAN)


def histogram(generator):
    """A histogram fitted to 200 rows of the stream, with the Gaussian that is wrong for them."""
    return DensityHistogram.fit(gaussian(), generator.standard_t(3, 200))


STATIONARY = {
    "prior": (gaussian, from_prior, {}),
    "fixed, centre": (gaussian, lambda generator, size: generator.normal(0, 0.8, size), {}),
    "fixed, tail": (gaussian, lambda generator, size: generator.normal(3, 1, size), {}),
    "Bernoulli": (lambda _: Bernoulli(), lambda generator, size: generator.binomial(1, 0.3, size), {}),
    "Student t": (gaussian, lambda generator, size: generator.standard_t(3, size), {}),
    "Student t, tempering=0.5": (
        gaussian,
        lambda generator, size: generator.standard_t(3, size),
        {"tempering": 0.5},
    ),
    "Student t, histogram": (histogram, lambda generator, size: generator.standard_t(3, size), {}),
    "AR(1)": (gaussian, autocorrelated, {}),
    "AR(1), tempering=0.3": (gaussian, autocorrelated, {"tempering": 0.3}),
}


def run_length(online, rows, batch_size, horizon, rate, **settings):
    """Batch of the first alarm within the horizon, and whether there was one."""
    detector = ev.ChangeDetector(online, rate, **settings)
    for n in range(horizon):
        if detector.update(rows[n * batch_size : (n + 1) * batch_size]).alarm:
            return n + 1, True
    return horizon, False


def false_alarms(name, rate, batch_size, horizon, num_streams, seed=0):
    """Run lengths on streams without a change."""
    make, draw, settings = STATIONARY[name]
    found = []
    for generator in np.random.default_rng((seed, len(name))).spawn(num_streams):
        rows = draw(generator, horizon * batch_size)
        found.append(run_length(make(generator), rows, batch_size, horizon, rate, **settings))
    lengths, alarms = np.array(found).T
    return {
        "stream": name,
        "false_alarm_rate": rate,
        "batch_size": batch_size,
        "horizon": horizon,
        "num_streams": num_streams,
        "share_with_alarm": float(alarms.mean()),
        "mean_run_length_cut_at_horizon": float(lengths.mean()),
        "standard_error": float(lengths.std(ddof=1) / np.sqrt(num_streams)),
        "needed": 1 / rate,
    }


def detection(shift, batch_size, rate, num_streams, max_candidates=8, seed=0):
    """Delay, interval and coverage if the mean shifts by `shift` deviations at a random row."""
    delays, covered, widths, early, missed = [], [], [], 0, 0
    for generator in np.random.default_rng((seed, 1)).spawn(num_streams):
        row = int(generator.integers(100, 300))
        rows = generator.normal(size=800)
        rows[row:] += shift
        detector = ev.ChangeDetector(gaussian(), rate, max_candidates=max_candidates)
        for start in range(0, len(rows), batch_size):
            alarm = detector.update(rows[start : start + batch_size]).alarm
            if alarm:
                break
        if not alarm:
            missed += 1
        elif alarm.num_observations <= row:
            early += 1
        else:
            delays.append(alarm.num_observations - row)
            covered.append(alarm.interval[0] <= row <= alarm.interval[1])
            widths.append(alarm.interval[1] - alarm.interval[0] + 1)
    return {
        "shift": shift,
        "batch_size": batch_size,
        "false_alarm_rate": rate,
        "max_candidates": max_candidates,
        "num_streams": num_streams,
        "num_before_the_change": early,
        "num_missed": missed,
        "median_delay_in_rows": float(np.median(delays)),
        "share_within_one_batch": float(np.mean(np.array(delays) <= batch_size)),
        "coverage_of_interval": float(np.mean(covered)),
        "nominal_coverage": CREDIBILITY,
        "median_width_in_rows": float(np.median(widths)),
    }


def draw(path, seed=0):
    """Plot the rows of one stream with a change; below, log Mₙ, threshold, alarm and interval."""
    import matplotlib.pyplot as plt

    change, batch_size, rate = 300, 5, 1e-3
    rows = np.random.default_rng(seed).normal(size=340)
    rows[change:] += 1.5
    detector = ev.ChangeDetector(gaussian(), rate)
    at, values = [], []
    for start in range(0, len(rows), batch_size):
        report = detector.update(rows[start : start + batch_size])
        at.append(report.num_observations)
        values.append(report.log_e_value)
        if report.alarm:
            break
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5), sharex=True, layout="constrained")
    top.plot(np.arange(at[-1]), rows[: at[-1]], ".", color=COLORS[6], markersize=4)
    top.set_ylabel("observation")
    bottom.plot(at, values, color=COLORS[0], label="log e-value")
    bottom.axhline(-np.log(rate), color=COLORS[1], linestyle="--", label="threshold: 1 / rate = 1,000")
    bottom.plot(at[-1], values[-1], "v", color=COLORS[1], markersize=8, label="alarm")
    bottom.set_ylabel("log e-value (nats)")
    bottom.set_xlabel("number of observations")
    first, last = report.alarm.interval
    for axes in (top, bottom):
        axes.axvspan(first, last, color=COLORS[5], alpha=0.3, linewidth=0, label="interval of the change")
        axes.axvline(change, color="black", linestyle=":", linewidth=1.2, label="true change")
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = bottom.get_legend_handles_labels()
    top.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return report.alarm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 streams of each kind: seconds")
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    num_streams = 20 if arguments.quick else 400
    found = {"false_alarms": [], "detection": []}

    def keep(kind, entry):
        found[kind].append(entry)
        print(entry, flush=True)
        (arguments.out / "false_alarms.json").write_text(json.dumps(found, indent=1) + "\n")

    for name in STATIONARY:
        for rate, batch_size, horizon in ((0.05, 1, 200), (0.01, 1, 500), (0.01, 10, 500)):
            horizon = 40 if arguments.quick else horizon
            keep("false_alarms", false_alarms(name, rate, batch_size, horizon, num_streams))
    for shift in (1.0, 2.0, 4.0):
        for batch_size, candidates in ((1, 8), (1, 400), (20, 8)):
            keep("detection", detection(shift, batch_size, 1e-3, num_streams, candidates))
    draw(arguments.out / "false_alarms.png")


if __name__ == "__main__":
    main()
