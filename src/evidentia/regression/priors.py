"""Prior distributions of a regression, in the units of its model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy import ndarray
from numpyro.distributions.transforms import AffineTransform

from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.families import Family
from evidentia.regression.frame import Frame
from evidentia.regression.g_prior import SAME
from evidentia.regression.scaled_response import Response

JZS_SCALE = math.sqrt(2) / 4  # "medium" in BayesFactor's regressions
WIDTH = 2.5  # of the normal prior of an effect, for one standard deviation of its column


def extra_prior(name: str) -> dist.Distribution:
    """The default prior of a parameter besides the effects, of standardised responses.

    Example:
        >>> extra_prior("scale").rate
        1.0
    """
    if name in ("scale", "dispersion"):
        return dist.Exponential(1.0)
    return dist.Gamma(2.0, 0.1) if name == "degrees_of_freedom" else dist.Beta(1.0, 1.0)


def in_words(choice: str, scale: float | None, instead: str = "") -> str:
    """The prior of the effects, for results.

    Args:
        choice: of the effects: "jzs", "unit-information" or "normal".
        scale: its scale; None if not given.
        instead: why the prior is not JZS, the default of the family: what has none.

    Example:
        >>> in_words("normal", None, "effects that vary by group")
        'normal, 2.5 standard deviations (not jzs, which has no effects that vary by group)'
    """
    words = {
        "jzs": f"jzs, scale {scale or JZS_SCALE:.3g}",
        "unit-information": "unit-information",
        "normal": f"normal, {scale or WIDTH:.3g} standard deviations",
    }[choice]
    return f"{words} (not jzs, which has no {instead})" if instead else words


def priors_of(
    family: Family,
    response: Response,
    frame: Frame,
    replaced: Mapping[str, dist.Distribution],
    choice: str,
    width: float,
) -> dict[str, dist.Distribution]:
    """NumPyro distributions by the names of the model's parameters, in its units.

    Args:
        family: the law of the response.
        response: in units of the model.
        frame: the columns' names, deviations and correlations.
        replaced: priors of the user by name, in the units of the table.
        choice: of the effects: "normal" or "unit-information".
        width: the deviation of the normal prior.

    Raises:
        ConfigurationError: a replaced prior for a name that does not exist, or not of one number;
            the unit-information prior for a family without one.
    """
    frame.check_names("effects", "cutpoints", *family.extra)
    names, deviations = frame.names, frame.deviations
    sizes = (len(response.levels) - 1,) if family.kind == "category" else ()
    has_location = frame.formula.has_intercept and family.kind != "ordered"  # whose cutpoints stand for it
    known = [*(["Intercept"] if has_location else []), *names, *family.extra]
    for name, given in replaced.items():
        if name in frame.aliased:
            raise ConfigurationError(
                f"priors names {name!r}, which is left out, as it is {frame.aliased[name].total}. Replace the prior of what it "
                "is made of, or leave that out of the formula."
            )
        check_replaced(name, given, known, is_vector=bool(sizes))
        if name == "probabilities" and given.event_shape != (len(response.levels),):
            raise ConfigurationError(
                f"priors['probabilities'] must be a distribution of {len(response.levels)} probabilities, one for each category, "
                f"such as a dist.Dirichlet; got {given!r}."
            )
    priors: dict[str, dist.Distribution] = {}
    if has_location:
        default = dist.Normal(0.0, WIDTH).expand(sizes).to_event(len(sizes))
        priors["Intercept"] = scaled(
            replaced, "Intercept", 1 / response.scale, -response.location / response.scale, default
        )
    free = [place for place, name in enumerate(names) if name not in replaced]
    if free:
        priors["effects"] = _effects(frame.correlations[np.ix_(free, free)], response, choice, width, sizes)
    for name, deviation in zip(names, deviations, strict=True):
        if name in replaced:
            priors[name] = scaled(replaced, name, float(deviation) / response.scale)
    for name in family.extra:
        default = (
            dist.Dirichlet(np.ones(len(response.levels))) if name == "probabilities" else extra_prior(name)
        )
        factor = 1 / response.scale if name == "scale" else 1.0
        priors[name] = scaled(replaced, name, factor, default=default)
    return priors


def _effects(
    correlations: ndarray, response: Response, choice: str, width: float, sizes: tuple[int, ...]
) -> Any:
    count = len(correlations)
    if choice == "normal":
        return dist.Normal(0.0, width).expand((*sizes, count)).to_event(1 + len(sizes))
    if response.information is None:
        raise ConfigurationError("prior='unit-information' is not known for this family; use prior='normal'.")
    root = root_of_information(correlations, response.information)
    return dist.MultivariateNormal(
        np.zeros(count, np.float32), scale_tril=np.linalg.cholesky(root @ root.T).astype(np.float32)
    )


def root_of_information(
    correlations: Float[ndarray, "columns columns"], information: float
) -> Float[ndarray, "columns columns"]:
    """The matrix R whose R Rᵀ is the covariance of the effects: (XᵀX i / n)⁻¹, with i of a row.

    Raises:
        DataError: it is infinite, as with more columns than rows, or a response without variation.
    """
    if not information > 0:
        raise DataError(
            "prior='unit-information' is not defined where all rows have the same response, which tell nothing. Use "
            "prior='normal'."
        )
    if len(correlations) and np.linalg.eigvalsh(correlations)[0] <= SAME * len(correlations):
        raise DataError(
            "prior='unit-information' needs columns of which none is determined by the others, and so more rows than "
            f"columns; the formula has {len(correlations)}. Use prior='normal'."
        )
    return np.linalg.inv(np.linalg.cholesky(correlations * information)).T


def scaled(
    replaced: Mapping[str, Any], name: str, factor: float, shift: float = 0.0, default: Any = None
) -> Any:
    """The law of shift + factor · parameter, for a prior in the units of the table."""
    if name not in replaced:
        return default
    if factor == 1 and shift == 0:
        return replaced[name]
    given = replaced[name]
    return dist.TransformedDistribution(given, AffineTransform(shift, factor, domain=given.support))


def check_replaced(name: str, given: Any, known: list[str], *, is_vector: bool) -> None:
    """Raise ConfigurationError unless a prior is one of one number for a name that is known."""
    if name not in known:
        raise ConfigurationError(
            f"priors names {name!r}, which is not a parameter; there are {', '.join(known)}."
        )
    if not isinstance(given, dist.Distribution) or given.event_shape or given.batch_shape:
        wanted = "a NumPyro distribution of one number, such as dist.Normal(0, 1)"
        if not (name == "probabilities" and isinstance(given, dist.Distribution)):
            raise ConfigurationError(f"priors[{name!r}] must be {wanted}; got {given!r}.")
    if is_vector:
        raise ConfigurationError(
            f"priors cannot be replaced for the family categorical; got one for {name!r}."
        )
