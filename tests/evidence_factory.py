"""Made-up evidence, as an estimator would return it, for tests of results."""

from dataclasses import dataclass, field

import numpy as np

from evidentia.results.result import Evidence
from evidentia.results.weighted import Weighted
from evidentia.trajectory import Trajectory


@dataclass(frozen=True)
class Kernel:
    step_size: float = 0.1


@dataclass(frozen=True)
class Method:
    num_particles: int = 64
    kernel: Kernel = field(default_factory=Kernel)


def make_trajectory(
    log_evidence: float, standard_error: float, num_observations: int, seed: int = 0
) -> Trajectory:
    """A path to the final value: constant increments, and noise that grows as the error does."""
    counts = np.unique(np.geomspace(min(500, num_observations), num_observations, 60).astype(int))
    share = counts / num_observations
    errors = standard_error * np.sqrt(share)
    noise_scale = np.diff(errors, prepend=0) if np.isfinite(standard_error) else 0.0
    noise = np.cumsum(np.random.default_rng(seed).normal(size=len(counts)) * noise_scale)
    values = log_evidence * share + (noise - noise[-1] * share) + 3 * np.log(share)
    return Trajectory(counts, values, errors, np.where(np.arange(len(counts)), 1, 9), 0.4 + 3 * share)


def make_evidence(
    log_evidence: float = -1234.5,
    standard_error: float = 0.12,
    num_observations: int = 1000,
    *,
    num_particles: int = 64,
    equal_weights: bool = False,
    model_name: str = "softmax regression",
    seed: int = 0,
    **changes,
) -> Evidence:
    """An Evidence with a scalar, a vector and a matrix parameter, or with another `posterior`."""
    rng = np.random.default_rng(seed)
    log_weights = np.zeros(num_particles) if equal_weights else rng.normal(size=num_particles)
    log_weights = log_weights - np.log(np.sum(np.exp(log_weights)))
    posterior = {
        "intercept": rng.normal(0.2, 0.1, num_particles),
        "weights": rng.normal([1.0, -1.0, 0.5], 0.1, (num_particles, 3)),
        "covariance": rng.normal(0.0, 0.3, (num_particles, 2, 2)),
    }
    values = {
        "log_evidence": log_evidence,
        "standard_error": standard_error,
        "num_observations": num_observations,
        "trajectory": make_trajectory(log_evidence, standard_error, num_observations, seed),
        "weighted": Weighted(
            changes.pop("posterior", {name: array.astype(np.float32) for name, array in posterior.items()}),
            changes.pop("log_weights", log_weights),
        ),
        "method": Method(num_particles),
        "model_name": model_name,
        "seed": seed,
        "seconds": 3.4,
        "diagnostics": {"num_moves": 41, "gradient": "control variate"},
    }
    return Evidence(**(values | changes))
