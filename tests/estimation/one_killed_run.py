"""A run with a checkpoint, killed while it writes one of its results.

    python one_killed_run.py FOLDER NAME COUNT

`RUNS` are calls of `estimate` by name, each with quick methods and few rows.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

import evidentia as ev
from evidentia.checkpoint import steps


def table(num_rows: int) -> dict[str, np.ndarray]:
    """A feature and a response that depends on it."""
    x = np.random.default_rng(0).normal(size=num_rows)
    return {"x": x, "y": x + np.random.default_rng(1).standard_t(3, size=num_rows)}


def robust(x, y):
    """A regression with heavy tails, in NumPyro."""
    slope, scale = numpyro.sample("slope", dist.Normal(0, 1)), numpyro.sample("scale", dist.HalfNormal(1))
    numpyro.sample("y", dist.StudentT(3, slope * x, scale), obs=y)


def softmax(num_rows: int = 300) -> tuple[ev.Model, Any]:
    model = ev.models.softmax_regression(num_features=2, num_classes=3)
    return model, model.simulate(num_rows, 0)[0]


RUNS: dict[str, Callable[[str | None], ev.Evidence]] = {
    "SGAIS": lambda folder: ev.estimate(*softmax(3000), checkpoint=folder),
    "NumPyro": lambda folder: ev.estimate(ev.Model.from_numpyro(robust), table(500), checkpoint=folder),
    **{
        name: lambda folder, method=method: ev.estimate(*softmax(), method=method, checkpoint=folder)
        for name, method in {
            "published": ev.SGAIS.published(),
            "SMC": ev.SMC(num_particles=64),
            "AIS": ev.AIS(num_particles=64),
            "NestedSampling": ev.NestedSampling(num_particles=64),
            "OnlineNestedSampling": ev.OnlineNestedSampling(num_particles=64),
            "AMIS": ev.AMIS(num_particles=128),
            "BridgeSampling": ev.BridgeSampling(num_particles=400),
            "HarmonicMean": ev.HarmonicMean(num_particles=400),
            "Laplace": ev.Laplace(num_particles=400),
            "Jarzynski": ev.Jarzynski(num_particles=64),
            "Sequential": ev.Sequential(),
            "PriorSampling": ev.PriorSampling(num_particles=5000),
        }.items()
    },
    "formula": lambda folder: ev.estimate(
        ev.Regression("y ~ x", family="student-t"), table(200), checkpoint=folder
    ),
}


def killed_at(count: int) -> Callable[..., None]:
    """An `append` that leaves half of its entry of this number, as does a kill."""
    append, left = steps.Steps._append, iter(range(count, -1, -1))

    def half(self, digest, arrays):
        append(self, digest, arrays)
        if next(left) == 0:
            start, size = self._places[digest]
            self._file.truncate(start + size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    return half


if __name__ == "__main__":
    folder, name, number = sys.argv[1:]
    steps.LEAST_SECONDS, steps.MOST_BYTES = 0.0, np.inf  # all are kept, so that kills come anywhere
    steps.Steps._append = killed_at(int(number))  # type: ignore[method-assign]
    RUNS[name](folder)
