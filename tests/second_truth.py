"""The evidence of a drawn problem, a second time, from the densities of its model.

The families' truths are formulas. Here the model's own prior and log-likelihood, in float64, are
integrated or looked up at one point; a formula that belongs to another model disagrees.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

# The programs in benchmarks/ import each other as scripts do.
sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from fresh_families import Candidate, Drawn
from gauntlet_problems.problem import log_integral

from evidentia.model.program import Densities

BATCH = 500_000  # rows times points at a time
EDGE = 60.0  # of the unconstrained scale, unless a family says more


def second_truth(problem: Drawn) -> float:
    """The log evidence by the second way that the problem names."""
    if callable(problem.second):
        return problem.second()
    densities = _densities(problem)
    with jax.enable_x64(True):
        if problem.second is None:
            return _by_quadrature(problem, densities)
        return _by_chib(problem, problem.second, densities)


def _densities(problem: Drawn):
    model, data = problem.model, problem.data
    if model.pointwise is False:
        return model.bind_whole({name: np.asarray(value)[None] for name, value in data.items()}).densities
    return model.bind(data).densities


def _in_float64(data):
    return {
        name: jnp.asarray(value, jnp.float64 if np.asarray(value).dtype.kind == "f" else None)
        for name, value in data.items()
    }


def _by_chib(problem: Drawn, candidate: Candidate, densities: Densities) -> float:
    params = {name: jnp.asarray(value, jnp.float64) for name, value in candidate.params.items()}
    log_likelihood = jnp.sum(problem.model.log_likelihood(params, _in_float64(problem.data)))
    return float(densities.log_prior_of(params) + log_likelihood - candidate.log_posterior)


def _by_quadrature(problem: Drawn, densities: Densities) -> float:
    assert densities.size <= 2, "quadrature is for one or two parameters"
    data = _in_float64(problem.data)

    @jax.jit
    def log_joint(position):
        params, log_prior = densities.place(position)
        return sum(log_prior.values()) + jnp.sum(problem.model.log_likelihood(params, data))

    many = jax.jit(jax.vmap(log_joint))
    rows = max(np.size(value) for value in problem.data.values())
    size = max(1, BATCH // rows)

    def log_density(points):
        parts = [np.asarray(many(points[start : start + size])) for start in range(0, len(points), size)]
        return np.nan_to_num(np.concatenate(parts), nan=-np.inf)

    edge = problem.drawn.get("edge", EDGE)
    return log_integral(log_density, *[(-edge, edge)] * densities.size)
