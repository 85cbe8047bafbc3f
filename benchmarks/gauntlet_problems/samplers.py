"""Problems with which nested samplers test themselves, in JAX and as plain functions.

Feroz, Hobson, Bridges (2009), Monthly Notices of the Royal Astronomical Society 398, 1601,
sections 6.1 (egg box) and 6.2 (shells, Table 1). The truth of Rosenbrock's function is a chain of
integrals over one variable each.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import evidentia as ev

from .problem import Problem


def shells(x: Any, at: Any) -> Any:
    """Two Gaussian shells of radius 2 and width 0.1, 3.5 to either side; `at` is NumPy or JAX."""

    def shell(side):
        squares = (x[..., 0] - side) ** 2 + at.sum(x[..., 1:] ** 2, -1)
        return -0.5 * ((at.sqrt(squares) - 2.0) / 0.1) ** 2 - np.log(0.1 * np.sqrt(2 * np.pi))

    return at.logaddexp(shell(3.5), shell(-3.5))


def egg_box(x: Any, at: Any) -> Any:
    """Eighteen peaks in two dimensions."""
    return (2 + at.cos(x[..., 0] / 2) * at.cos(x[..., 1] / 2)) ** 5


def rosenbrock(x: Any, at: Any) -> Any:
    """A thin curved ridge."""
    return -at.sum((1 - x[..., :-1]) ** 2 + 100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2, -1)


def in_jax(log_likelihood: Callable, size: int, low: float, high: float, truth: float) -> Problem:
    """The problem as a model with gradients, whose data are one observation."""
    prior = {"x": dist.Uniform(low, high).expand([size]).to_event(1)}
    model = ev.Model(prior, lambda params, _: log_likelihood(params["x"], jnp), pointwise=False)
    return Problem(model, {"no_data": np.zeros(1)}, truth)


def plain(log_likelihood: Callable, size: int, low: float, high: float, truth: float) -> Problem:
    """The problem as a function without gradients."""
    model = ev.Model.from_callable(
        lambda x: log_likelihood(x, np),
        lambda cube: low + (high - low) * cube,
        num_parameters=size,
        vectorized=True,
    )
    return Problem(model, {}, truth)


SAMPLED = {
    "shells, 2": (shells, 2, -6.0, 6.0, -1.746),
    "shells, 5": (shells, 5, -6.0, 6.0, -5.673),
    "shells, 10": (shells, 10, -6.0, 6.0, -14.59),
    "peaks of an egg box, 2": (egg_box, 2, 0.0, 10 * np.pi, 235.856),
    "Rosenbrock, 2": (rosenbrock, 2, -5.0, 5.0, -5.8041),
    "Rosenbrock, 5": (rosenbrock, 5, -5.0, 5.0, -19.7324),
}
PROBLEMS = {
    **{name: partial(in_jax, *arguments) for name, arguments in SAMPLED.items()},
    **{
        f"{name}, no gradient": partial(plain, *arguments)
        for name, arguments in SAMPLED.items()
        if name != "shells, 10"  # a quarter of a minute each
    },
}
