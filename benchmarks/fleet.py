"""A fleet against a loop: 10,000 series of 200 rows, three models each, in one process.

    python benchmarks/fleet.py                  # some minutes
    python benchmarks/fleet.py --series 1000    # fewer

Prints tasks per second of a loop over `evidentia.estimate` (a sample of the series, after a
warm-up) and of `evidentia.estimate_many`, the ratio, seconds of compilation, the share of tasks
that left their batch, and the root mean square difference of the two in units of their joint
standard errors.
Wanted: a ratio of at least 20, and a difference of about one.
"""

import argparse
import collections
import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import evidentia as ev

NUM_ROWS, NUM_FEATURES, NUM_SAMPLED = 200, 3, 30


def location(params, batch):
    """The linear predictor."""
    return params["intercept"] + batch["x"] @ params["slopes"]


def linear(params, batch):
    """Gaussian noise of unknown scale."""
    return dist.Normal(location(params, batch), params["scale"]).log_prob(batch["y"])


def student_t(params, batch):
    """Student's t noise of unknown scale and degrees of freedom."""
    return dist.StudentT(params["freedom"], location(params, batch), params["scale"]).log_prob(batch["y"])


def autoregressive(params, batch):
    """Gaussian noise about a multiple of the previous value."""
    previous = params["memory"] * batch["previous"]
    return dist.Normal(location(params, batch) + previous, params["scale"]).log_prob(batch["y"])


def make_models() -> dict[str, ev.Model]:
    """The three models."""
    prior = {
        "intercept": dist.Normal(0, 5),
        "slopes": dist.Normal(0, 1).expand([NUM_FEATURES]).to_event(1),
        "scale": dist.HalfNormal(2),
    }
    return {
        "linear": ev.Model(prior, linear, name="linear"),
        "student-t": ev.Model({**prior, "freedom": dist.Gamma(2, 0.1)}, student_t, name="student-t"),
        "autoregressive": ev.Model(
            {**prior, "memory": dist.Normal(0, 0.5)}, autoregressive, name="autoregressive"
        ),
    }


def series(count: int):
    """Series of the three kinds in turn."""
    generator = np.random.default_rng(0)
    for index in range(count):
        x = generator.standard_normal((NUM_ROWS, NUM_FEATURES))
        noise = generator.standard_t(3, NUM_ROWS) if index % 3 == 1 else generator.standard_normal(NUM_ROWS)
        y = 1 + x @ generator.standard_normal(NUM_FEATURES) + generator.uniform(0.5, 2) * noise
        for row in range(1, NUM_ROWS if index % 3 == 2 else 0):
            y[row] += 0.5 * y[row - 1]
        yield {"x": x, "y": y, "previous": np.concatenate([[0.0], y[:-1]])}


def loop(models: dict[str, ev.Model], data: list) -> tuple[float, list[dict[str, ev.Evidence]]]:
    """Tasks per second of a loop over `estimate`, and its evidences."""
    for seed, model in enumerate(models.values()):
        for one in data[:2]:
            ev.estimate(model, one, seed=seed)  # compiles
    started = time.perf_counter()
    found = [
        {name: ev.estimate(model, one, seed=1 + index) for name, model in models.items()}
        for index, one in enumerate(data)
    ]
    return len(models) * len(data) / (time.perf_counter() - started), found


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=0, help="0 for none but the calling one")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ev.DiagnosticWarning)
    models = make_models()
    sample = list(series(NUM_SAMPLED))
    speed_of_loop, expected = loop(models, sample)
    print(f"loop over estimate: {speed_of_loop:.2f} tasks/s ({3 * NUM_SAMPLED} tasks)", flush=True)

    executor = ThreadPoolExecutor(options.threads) if options.threads else None
    started = time.perf_counter()
    list(ev.estimate_many(models, sample, executor=executor))
    print(f"first batch, mostly compilation: {time.perf_counter() - started:.1f} s", flush=True)
    reasons, differences, num_tasks = collections.Counter(), [], 0
    started = time.perf_counter()
    for record in ev.estimate_many(models, series(options.series), executor=executor, progress=True):
        for name, evidence in record.evidences.items():
            num_tasks += 1
            reasons[evidence.diagnostics.get("reason", "batched")] += 1
            if int(record.name) < NUM_SAMPLED:
                other = expected[int(record.name)][name]
                joint = math.hypot(evidence.standard_error, other.standard_error)
                differences.append((evidence.log_evidence - other.log_evidence) / joint)
    speed = num_tasks / (time.perf_counter() - started)
    print(f"estimate_many: {speed:.1f} tasks/s ({num_tasks} of {3 * options.series} tasks)")
    print(f"ratio: {speed / speed_of_loop:.1f}")
    print(f"ways: {dict(reasons)}")
    print(f"left their batch: {1 - reasons['batched'] / num_tasks:.2%}")
    print(f"RMS difference: {np.sqrt(np.mean(jnp.square(jnp.array(differences)))):.2f} joint standard errors")


if __name__ == "__main__":
    main()
