"""Families: the law of a response given its linear predictor η, in nats and for float32.

A likelihood near its peak is a small difference of large terms. The log-gamma functions are
therefore written as Stirling's formula plus its remainder, so that the large terms cancel on paper
(Loader, Fast and accurate computation of binomial probabilities, 2000).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from numpy import ndarray
from scipy.special import expit, ndtr

from evidentia.errors import ConfigurationError
from evidentia.regression import censored, inflated
from evidentia.regression.foreign import family_advice

MEANS = {"identity": np.asarray, "logit": expit, "probit": ndtr, "log": np.exp}  # of predictors, by link
CATEGORIES = "binary", "category", "ordered"  # kinds of response that are not numbers
HALF_LOG_2PI = 0.9189385332046727
SERIES_FROM = 4.0  # Stirling's series has an error below 1e-8 above


class Family(NamedTuple):
    """The law of a response.

    Attributes:
        log_density: `(predictor, batch, extra) -> (rows,)`: one number per row in nats; `batch`
            has the response `y` and what else `response.py` computes of it, `extra` the parameters
            that are not coefficients.
        kind: what the response must be: "real", "positive", "share", "half-open share" (or 0),
            "closed share" (or 0 or 1), "count", "trials", "binary", "category" or "ordered";
            "time" with an event, or "estimate" with a standard error.
        link: of the mean, or of what stands for it.
        extra: names of the parameters besides the coefficients.
        own_mean: the mean by predictors and `extra` where it is not the link's.
    """

    log_density: Callable[[jax.Array, Mapping[str, jax.Array], Mapping[str, Any]], jax.Array]
    kind: str
    link: str
    extra: tuple[str, ...] = ()
    own_mean: inflated.Mean | None = None

    @property
    def of_mean(self) -> tuple[str, ...]:
        """The parameters in `extra` that the mean depends on."""
        return () if self.own_mean is None else self.extra

    def mean(self, predictor: Any, extra: Mapping[str, Any]) -> ndarray:
        """The mean of the response, or what stands for it, by predictors and `extra`."""
        return MEANS[self.link](predictor) if self.own_mean is None else self.own_mean(predictor, extra)


def family(name: str, link: str | None = None) -> Family:
    """The family of a name, with its usual link if none is given.

    Raises:
        ConfigurationError: an unknown name, or a link that the family does not have.
    """
    name = IN_BRMS.get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or name not in FAMILIES:
        raise ConfigurationError(
            f"family must be one of {', '.join(FAMILIES)}; got {name!r}.{family_advice(name, FAMILIES)}"
        )
    links = FAMILIES[name]
    if link is not None and (not isinstance(link, str) or link not in links):
        raise ConfigurationError(
            f"link of the family {name} must be one of {', '.join(links)}; got {link!r}."
        )
    return links[link or next(iter(links))]


def gaussian(predictor, batch, extra):
    """log N(y; η, σ²)."""
    return -0.5 * ((batch["y"] - predictor) / extra["scale"]) ** 2 - jnp.log(extra["scale"]) - HALF_LOG_2PI


def known_errors(predictor, batch, extra):
    """log N(y; η, s²) with the known standard error s of each row."""
    error = batch["error"]
    return -0.5 * ((batch["y"] - predictor) / error) ** 2 - jnp.log(error) - HALF_LOG_2PI


def student_t(predictor, batch, extra):
    """Log density of Student's t with ν degrees of freedom, location η and scale σ."""
    nu, scale = extra["degrees_of_freedom"], extra["scale"]
    half = nu / 2
    # log Γ((ν+1)/2) - log Γ(ν/2) - ½ log ν, with both functions by Stirling's formula
    constant = (
        half * jnp.log1p(0.5 / half) + _remainder(half + 0.5) - _remainder(half) - 0.5 - 0.5 * jnp.log(2.0)
    )
    squares = ((batch["y"] - predictor) / scale) ** 2
    return constant - 0.5 * jnp.log(jnp.pi) - jnp.log(scale) - (half + 0.5) * jnp.log1p(squares / nu)


def bernoulli_logit(predictor, batch, extra):
    """y η - log(1 + e^η)."""
    return batch["y"] * predictor - jax.nn.softplus(predictor)


def bernoulli_probit(predictor, batch, extra):
    """log Φ(η) where y is 1, log Φ(-η) where it is 0."""
    return log_ndtr((2 * batch["y"] - 1) * predictor)


def binomial(predictor, batch, extra):
    """log (n choose y) + y η - n log(1 + e^η)."""
    return batch["constant"] + batch["y"] * predictor - batch["trials"] * jax.nn.softplus(predictor)


def poisson(predictor, batch, extra):
    """y η - e^η - log y!, as a distance from its peak.

    With d = η - log y, it is y log y - y - log y! - y (e^d - 1 - d), and -e^η for y = 0. The
    constant and log y (0 for y = 0) come with the batch.
    """
    y, distance = batch["y"], predictor - batch["log_y"]
    return batch["constant"] + jnp.where(y > 0, -y * (jnp.expm1(distance) - distance), -jnp.exp(distance))


def negative_binomial(predictor, batch, extra):
    """Negative binomial with mean μ = e^η and variance μ + δ μ², where δ is the dispersion.

    With φ = 1/δ, d = η - log y and r(z) the remainder of Stirling's formula, the log density is
    for y > 0 r(φ+y) - r(φ) - r(y) + ½ log(φ / (2π y (φ+y))) - (φ+y) log((φ+μ)/(φ+y)) + y d; for y
    = 0 it is -φ log(1 + μ/φ).
    """
    y, size, distance = batch["y"], 1 / extra["dispersion"], predictor - batch["log_y"]
    positive = jnp.maximum(y, 1)  # μ = positive e^d
    total = size + positive
    change = positive * jnp.expm1(distance) / total  # of φ + y to φ + μ; log1p loses digits near -1
    log_ratio = jnp.where(
        jnp.abs(change) < 0.5,
        jnp.log1p(jnp.clip(change, -0.5, 0.5)),
        jnp.log((size + positive * jnp.exp(distance)) / total),
    )
    some = (
        _remainder(total)
        - _remainder(size)
        - _remainder(positive)
        + 0.5 * (jnp.log(size) - jnp.log(positive) - jnp.log(total))
        - HALF_LOG_2PI
        - total * log_ratio
        + positive * distance
    )
    return jnp.where(y > 0, some, -size * jnp.log1p(jnp.exp(distance) / size))


def gamma(predictor, batch, extra):
    """Gamma with mean μ = e^η and variance δ μ², where δ is the dispersion.

    With shape k = 1/δ: -k (y/μ - 1 - log(y/μ)) - log y + ½ log k - ½ log 2π - r(k).
    """
    shape, ratio = 1 / extra["dispersion"], batch["log_y"] - predictor
    constant = 0.5 * jnp.log(shape) - HALF_LOG_2PI - _remainder(shape)
    return constant - batch["log_y"] - shape * (jnp.expm1(ratio) - ratio)


def beta(predictor, batch, extra):
    """Beta with mean μ = 1/(1 + e^-η) and precision φ = 1/δ: shapes a = μφ and b = (1-μ)φ.

    -φ KL(μ, y) + ½ log(a b / (2π φ)) + r(φ) - r(a) - r(b) - log y - log(1-y), where KL is the
    divergence of two Bernoulli distributions.
    """
    precision = 1 / extra["dispersion"]
    log_mean, log_rest = jax.nn.log_sigmoid(predictor), jax.nn.log_sigmoid(-predictor)
    mean, log_y, log_1y = jnp.exp(log_mean), batch["log_y"], batch["log_1y"]
    divergence = mean * (log_mean - log_y) + jnp.exp(log_rest) * (log_rest - log_1y)
    a, b = precision * mean, precision * jnp.exp(log_rest)
    constant = 0.5 * (log_mean + log_rest + jnp.log(precision)) - HALF_LOG_2PI
    return (
        constant
        - precision * divergence
        + _remainder(precision)
        - _remainder(a)
        - _remainder(b)
        - log_y
        - log_1y
    )


def categorical(predictor, batch, extra):
    """Log softmax of (0, η₁, …) at the category y; the first category is the reference."""
    logits = jnp.concatenate([jnp.zeros_like(predictor[:, :1]), predictor], axis=1)
    return jnp.take_along_axis(jax.nn.log_softmax(logits), batch["y"][:, None], axis=1)[:, 0]


def ordinal(predictor, batch, extra):
    """log (σ(c_k - η) - σ(c_{k-1} - η)): cumulative logit with the cutpoints c of the categories.

    The cutpoints are the logits of the cumulated `probabilities` at η = 0. With a > b,
    σ(a) - σ(b) = σ(a) σ(-b) (1 - e^(b-a)).
    """
    shares = extra["probabilities"]
    below, above = jnp.cumsum(shares)[:-1], jnp.cumsum(shares[::-1])[::-1][1:]
    ends = jnp.concatenate([jnp.array([-FAR]), jnp.log(below) - jnp.log(above), jnp.array([FAR])])
    high, low = ends[batch["y"] + 1], ends[batch["y"]]
    above_low, below_high = jax.nn.log_sigmoid(predictor - low), jax.nn.log_sigmoid(high - predictor)
    return below_high + above_low + jnp.log(-jnp.expm1(low - high))


FAR = 1e4  # a cutpoint that no predictor reaches

ESTIMATES = Family(known_errors, "estimate", "identity")  # gaussian with known standard errors
FAMILIES: dict[str, dict[str, Family]] = {
    "gaussian": {"identity": Family(gaussian, "real", "identity", ("scale",))},
    "student-t": {"identity": Family(student_t, "real", "identity", ("scale", "degrees_of_freedom"))},
    "bernoulli": {
        "logit": Family(bernoulli_logit, "binary", "logit"),
        "probit": Family(bernoulli_probit, "binary", "probit"),
    },
    "binomial": {"logit": Family(binomial, "trials", "logit")},
    "poisson": {"log": Family(poisson, "count", "log")},
    "negative-binomial": {"log": Family(negative_binomial, "count", "log", ("dispersion",))},
    "gamma": {"log": Family(gamma, "positive", "log", ("dispersion",))},
    "beta": {"logit": Family(beta, "share", "logit", ("dispersion",))},
    "exponential": {"log": Family(censored.exponential, "time", "log")},
    "weibull": {"log": Family(censored.weibull, "time", "log", ("scale",), censored.mean_of_weibull)},
    "lognormal": {"log": Family(censored.lognormal, "time", "log", ("scale",), censored.mean_of_lognormal)},
    "categorical": {"softmax": Family(categorical, "category", "softmax")},
    "ordinal": {"logit": Family(ordinal, "ordered", "logit", ("probabilities",))},
}
INFLATED = {
    "zero-inflated-poisson": Family(
        partial(inflated.zero_inflated, poisson), "count", "log", ("zi",), inflated.mean_of_inflated
    ),
    "zero-inflated-negative-binomial": Family(
        partial(inflated.zero_inflated, negative_binomial),
        "count",
        "log",
        ("dispersion", "zi"),
        inflated.mean_of_inflated,
    ),
    "hurdle-poisson": Family(
        partial(inflated.hurdle, poisson), "count", "log", ("hu",), inflated.mean_of_hurdle
    ),
    "hurdle-negative-binomial": Family(
        partial(inflated.hurdle, negative_binomial),
        "count",
        "log",
        ("dispersion", "hu"),
        inflated.mean_of_hurdle,
    ),
    "zero-inflated-beta": Family(
        partial(inflated.zero_inflated_beta, beta),
        "half-open share",
        "logit",
        ("dispersion", "zi"),
        inflated.mean_of_shares_or_zero,
    ),
    "zero-one-inflated-beta": Family(
        partial(inflated.zero_one_inflated_beta, beta),
        "closed share",
        "logit",
        ("dispersion", "zoi", "coi"),
        inflated.mean_of_shares_or_ends,
    ),
}
FAMILIES |= {name: {law.link: law} for name, law in INFLATED.items()}
IN_BRMS = {  # names with underscores
    other: name
    for name in INFLATED
    for other in (name.replace("-", "_"), name.replace("-", "_").replace("negative_binomial", "negbinomial"))
}


def _remainder(z: jax.Array) -> jax.Array:
    """r(z) = log Γ(z) - (z - ½) log z + z - ½ log 2π, by its series (DLMF 5.11.1) for large z.

    For small z, by Γ(z + 4) = z (z + 1) (z + 2) (z + 3) Γ(z): its derivatives compile in less time
    than those of the log-gamma function.
    """
    small = jnp.minimum(z, SERIES_FROM)
    rise = (small + 3.5) * jnp.log(small + 4) - (small + 0.5) * jnp.log(small)
    rise = rise - jnp.log((small + 1) * (small + 2) * (small + 3)) - 4
    series = _series(jnp.where(z >= SERIES_FROM, z, small + 4))
    return jnp.where(z >= SERIES_FROM, series, rise + series)


def _series(z: jax.Array) -> jax.Array:
    square = 1 / z**2
    return (1 / 12 - (1 / 360 - (1 / 1260 - square / 1680) * square) * square) / z
