"""Do nested samplers agree with each other, and with annealed importance sampling? The two figures of the appendix.

    python experiments/nested_sampling_agreement.py                 # hours on 2 cores
    python experiments/nested_sampling_agreement.py --quick --out somewhere

On rows simulated from a one-dimensional mixture of three Gaussians (9 parameters):

  rejection   reflecting against rejection nested sampling, which is exact and slow, from 20 to 250 rows;
  annealing   nested sampling against annealed importance sampling, from 20 to 1000 rows in steps of 20.

Each writes its runs as JSON and a figure as PNG. Error bars are two standard errors of the mean of the runs, from what the
runs report.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Appendix B.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import evidentia as ev
from evidentia.kernels import Rejection
from evidentia.plot import COLORS
from evidentia.rows import Rows

MODEL = ev.models.gaussian_mixture(num_components=3, num_features=1)
# Of six seeds tried, the data with the least information: rejection needs e^H draws a point. For the same reason that
# comparison stops at a tenth of the evidence, and rejection has four live points.
DATA_SEED, NUM_ROWS = 5, 1000
REFLECTING = ev.NestedSampling(remaining=0.1)
REJECTION = ev.NestedSampling(num_particles=4, kernel=Rejection(max_draws=10**7), remaining=0.1)
NAME = "reflecting nested sampling"
FIGURES = {
    "rejection": ({NAME: REFLECTING, "rejection nested sampling": REJECTION}, (20, 50, 100, 150, 200, 250)),
    "annealing": (
        {NAME: ev.NestedSampling(num_particles=64), "annealed importance sampling": ev.AIS()},
        range(20, 1001, 20),
    ),
}


def runs(name, method, bound, arrays, size, num_runs):
    """Results of several runs over the first `size` rows; a window of the same arrays, so that nothing compiles anew.

    Seeds differ from size to size: else a nested sampler's luck with the volumes is the same at all of them.
    """
    found = []
    for seed in range(1000 * size, 1000 * size + num_runs):
        started = time.perf_counter()
        *_, end = method.run(bound, Rows(arrays, 0, size), jax.random.key(seed))
        found.append(
            {
                "method": name,
                "num_observations": size,
                "seed": seed,
                "log_evidence": float(end.log_evidence),
                "standard_error": float(end.standard_error),
                "seconds": round(time.perf_counter() - started, 2),
                "signs": list(end.diagnose().signs),
            }
        )
    print(f"{size:5} rows, {name}: {mean_and_error(found)}", flush=True)
    return found


def mean_and_error(found):
    """Mean of the runs, and its standard error from what they report."""
    variance = np.mean([run["standard_error"] ** 2 for run in found]) / len(found)
    return float(np.mean([run["log_evidence"] for run in found])), float(np.sqrt(variance))


def compare(methods, sizes, num_runs, path):
    """All runs of two methods at each number of rows, written after each of these."""
    data, _ = MODEL.simulate(NUM_ROWS, DATA_SEED)
    bound, arrays = MODEL.bind(data), jax.tree.map(jnp.asarray, data)
    found = []
    for size in sizes:
        for name, method in methods.items():
            found += runs(name, method, bound, arrays, size, num_runs)
        path.write_text(json.dumps(found, indent=1) + "\n")
    return found


def summarise(found, name):
    """Numbers of rows, means and their standard errors of one method."""
    sizes = sorted({run["num_observations"] for run in found})
    of_size = [[r for r in found if (r["num_observations"], r["method"]) == (size, name)] for size in sizes]
    means, errors = np.array([mean_and_error(part) for part in of_size]).T
    return np.array(sizes), means, errors


def draw(found, path):
    """Log evidence per row of both methods, and below how far the second is from the first."""
    import matplotlib.pyplot as plt

    first, second = dict.fromkeys(run["method"] for run in found)
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, layout="constrained")
    sizes, means, errors = summarise(found, first)
    _, other_means, other_errors = summarise(found, second)
    shift = 0.12 * np.min(np.diff(sizes)) if len(sizes) > 1 else 0.0
    for name, at, mean, error, color, marker in (
        (first, sizes - shift, means, errors, COLORS[0], "o"),
        (second, sizes + shift, other_means, other_errors, COLORS[1], "s"),
    ):
        top.errorbar(
            at, mean / sizes, 2 * error / sizes, fmt=marker, color=color, markersize=4, capsize=2, label=name
        )
    top.set_ylabel("log evidence per row (nats)")
    top.legend(frameon=False)
    difference = other_means - means
    bottom.axhline(0, color=COLORS[6], linewidth=1)
    bottom.errorbar(
        sizes,
        difference,
        2 * np.hypot(errors, other_errors),
        fmt="s",
        color=COLORS[1],
        markersize=4,
        capsize=2,
    )
    bottom.set_ylabel(f"{second} minus\n{first} (nats)")
    bottom.set_xlabel("number of rows")
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    scores = difference / np.hypot(errors, other_errors)
    print(
        f"differences in standard errors: mean {scores.mean():.2f}, root mean square {np.mean(scores**2) ** 0.5:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two runs at three numbers of rows: a minute")
    parser.add_argument("--figures", nargs="+", default=list(FIGURES), choices=FIGURES)
    parser.add_argument("--out", type=Path, default=Path("results/nested_sampling_agreement"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    num_runs = 2 if arguments.quick else 5
    for name in arguments.figures:
        methods, sizes = FIGURES[name]
        sizes = (20, 40, 60) if arguments.quick else sizes
        found = compare(methods, sizes, num_runs, arguments.out / f"{name}.json")
        draw(found, arguments.out / f"{name}.png")


if __name__ == "__main__":
    main()
