"""Priors of an effect, in float64: NumPyro's and SciPy's distributions, and named scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from scipy import stats

from evidentia.errors import ConfigurationError, as_number

HALF_DECADES = 10.0 ** -np.arange(0.5, 15.5, 0.5)
SHARES = np.concatenate([HALF_DECADES[::-1] / 2, np.linspace(0.2, 0.5, 4)])  # of a tail, to 10⁻¹⁵

# Laws of NumPyro: the names of their parameters, and SciPy's law of these.
LAWS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "Cauchy": (("loc", "scale"), stats.cauchy),
    "StudentT": (("df", "loc", "scale"), stats.t),
    "Normal": (("loc", "scale"), stats.norm),
    "Laplace": (("loc", "scale"), stats.laplace),
    "Logistic": (("loc", "scale"), stats.logistic),
    "Uniform": (("low", "high"), lambda low, high: stats.uniform(low, high - low)),
    "Beta": (("concentration1", "concentration0"), stats.beta),
    "HalfCauchy": (("scale",), lambda scale: stats.halfcauchy(0, scale)),
    "HalfNormal": (("scale",), lambda scale: stats.halfnorm(0, scale)),
    "InverseGamma": (("concentration", "rate"), lambda shape, rate: stats.invgamma(shape, scale=rate)),
}


class Prior(NamedTuple):
    """The prior of an effect's coordinate.

    Attributes:
        log_density: of the coordinate, normalised.
        edges: coordinates between which the density changes little; beyond the outermost lies a
            share of 10⁻¹⁵ or less.
        label: what it is called in print.
    """

    log_density: Callable[[ndarray], ndarray]
    edges: ndarray
    label: str


def of_law(law: Any, label: str) -> Prior:
    """The prior of an effect that is its own coordinate, from a frozen distribution of SciPy."""
    edges = np.concatenate([law.support(), law.ppf(SHARES), law.isf(SHARES)])
    return Prior(law.logpdf, np.unique(edges[np.isfinite(edges)]), label)


def law_of(given: Any, what: str = "prior") -> tuple[Any, str]:
    """A frozen distribution of SciPy, and its name, from one of NumPyro or SciPy.

    Raises:
        ConfigurationError: another object, or a distribution of several numbers.
    """
    if isinstance(getattr(given, "dist", None), stats.rv_continuous):
        values = [*given.args, *given.kwds.values()]
        if all(np.ndim(value) == 0 for value in values):
            return given, f"{given.dist.name}({', '.join(f'{value:.4g}' for value in values)})"
    name = type(given).__name__
    if name not in LAWS or getattr(given, "batch_shape", None) != ():
        raise ConfigurationError(
            f"{what} must be a distribution of one number, of NumPyro ({', '.join(LAWS)}) or frozen of SciPy, such as "
            f"dist.StudentT(3, 0.35, 0.102); got {given!r}."
        )
    names, law = LAWS[name]
    values = [_number(getattr(given, parameter)) for parameter in names]
    return law(*values), f"{name}({', '.join(f'{value:.4g}' for value in values)})"


def scale_of(scale: Any, named: Mapping[str, float]) -> float:
    """The number of a scale that is given by name or as a number.

    Raises:
        ConfigurationError: another name, or no positive number.
    """
    if isinstance(scale, str) and scale in named:
        return named[scale]
    value = as_number(scale)
    if not 1e-100 <= value <= 1e100:
        names = ", ".join(f"{name!r} ({number:.4g})" for name, number in named.items())
        raise ConfigurationError(
            f"scale must be a number from 1e-100 to 1e+100 or one of {names}; got {scale!r}."
        )
    return float(value)


def _number(value: Any) -> float:
    """A number that JAX may have rounded to float32, as it was written: 0.102."""
    return float(value) if isinstance(value, float | int) else float(str(np.float32(value)))
