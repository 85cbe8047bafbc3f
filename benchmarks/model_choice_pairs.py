"""Pairs of models from which data are drawn, for `model_choice`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats

import evidentia as ev

X = np.random.default_rng(0).standard_normal((30, 2)).astype(np.float32)
CENTRED = X.astype(float) - X.astype(float).mean(0)
JZS_SCALE = np.sqrt(2) / 4
PRIORS = {"Intercept": dist.Normal(0.0, 1.0), "a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)}
GROUP = np.repeat(np.arange(6), 5)

Data = dict[str, np.ndarray]


class Pair(NamedTuple):
    """Two models, and a function that draws data of the first (True) or the second."""

    name: str
    first: Any
    second: Any
    simulate: Callable[[bool, np.random.Generator], Data]


def model(prior: dict, law: Callable[[dict, dict], dist.Distribution]) -> ev.Model:
    """A model whose rows `y` have a law given parameters and the other columns."""
    return ev.Model(prior, lambda params, batch: law(params, batch).log_prob(batch["y"]))


def pair_of(name: str, first: tuple, second: tuple, columns: Data, count: int) -> Pair:
    """A pair of models that are given by priors and laws, from which data are drawn, too."""
    models = model(*first), model(*second)

    def simulate(is_first, generator):
        prior, law = first if is_first else second
        keys = jax.random.split(jax.random.key(int(generator.integers(2**32))), len(prior) + 1)
        params = {key: each.sample(one) for (key, each), one in zip(prior.items(), keys[1:], strict=True)}
        drawn = law(params, columns)
        shape = () if drawn.batch_shape == (count,) else (count,)
        return {**columns, "y": np.asarray(drawn.sample(keys[0], shape))}

    return Pair(name, *models, simulate)


def pairs() -> list[Pair]:
    """The twelve pairs: eight of plain models, two of NumPyro's, two of formulas."""
    normal, x = dist.Normal(0.0, 1.0), {"x": X}
    slopes = dist.Normal(0.0, 1.0).expand([2]).to_event(1)
    return [
        pair_of(
            "mean zero or not",
            ({"scale": dist.HalfNormal(1.0)}, lambda p, _: dist.Normal(0.0, p["scale"])),
            (
                {"mean": normal, "scale": dist.HalfNormal(1.0)},
                lambda p, _: dist.Normal(p["mean"], p["scale"]),
            ),
            {},
            10,
        ),
        pair_of(
            "Poisson or negative binomial",
            ({"rate": dist.Gamma(2.0, 0.5)}, lambda p, _: dist.Poisson(p["rate"])),
            (
                {"rate": dist.Gamma(2.0, 0.5), "shape": dist.Exponential(0.5)},
                lambda p, _: dist.GammaPoisson(p["shape"], p["shape"] / p["rate"]),
            ),
            {},
            30,
        ),
        pair_of(
            "one feature or two",
            ({"slope": normal}, lambda p, b: dist.Normal(b["x"][:, 0] * p["slope"], 1.0)),
            ({"slopes": slopes}, lambda p, b: dist.Normal(b["x"] @ p["slopes"], 1.0)),
            x,
            30,
        ),
        pair_of(
            "logistic, with a feature or not",
            ({"level": normal}, lambda p, b: dist.Bernoulli(logits=p["level"] + 0 * b["x"][:, 0])),
            (
                {"level": normal, "slope": normal},
                lambda p, b: dist.Bernoulli(logits=p["level"] + p["slope"] * b["x"][:, 0]),
            ),
            x,
            30,
        ),
        pair_of(
            "normal or Student-t",
            (
                {"mean": normal, "scale": dist.HalfNormal(1.0)},
                lambda p, _: dist.Normal(p["mean"], p["scale"]),
            ),
            (
                {"mean": normal, "scale": dist.HalfNormal(1.0)},
                lambda p, _: dist.StudentT(2.0, p["mean"], p["scale"]),
            ),
            {},
            30,
        ),
        pair_of(
            "one normal or two",
            ({"mean": dist.Normal(0.0, 2.0)}, lambda p, _: dist.Normal(p["mean"], 1.0)),
            (
                {"share": dist.Uniform(), "means": dist.Normal(0.0, 2.0).expand([2]).to_event(1)},
                lambda p, _: dist.MixtureSameFamily(
                    dist.Categorical(jnp.stack([p["share"], 1 - p["share"]])), dist.Normal(p["means"], 1.0)
                ),
            ),
            {},
            20,
        ),
        pair_of(
            "exponential or gamma",
            ({"rate": dist.Gamma(2.0, 2.0)}, lambda p, _: dist.Gamma(1.0, p["rate"])),
            (
                {"rate": dist.Gamma(2.0, 2.0), "shape": dist.LogNormal(0.0, 0.5)},
                lambda p, _: dist.Gamma(p["shape"], p["rate"]),
            ),
            {},
            20,
        ),
        pair_of(
            "change of the mean or not",
            ({"mean": normal}, lambda p, b: dist.Normal(p["mean"] + 0 * b["time"], 1.0)),
            (
                {"mean": normal, "step": normal, "when": dist.Uniform()},
                lambda p, b: dist.Normal(p["mean"] + p["step"] * (b["time"] > p["when"]), 1.0),
            ),
            {"time": np.linspace(0.01, 0.99, 20).astype(np.float32)},
            20,
        ),
        of_numpyro("groups or not (NumPyro)", _pooled, _grouped, {"group": GROUP}),
        of_numpyro("Poisson slope or not (NumPyro)", _level, _slope, {"z": X[:, 0]}),
        Pair("one column or two (formula, exact)", *of_formulas("gaussian"), draw_of_jzs),
        Pair("logistic, one column or two (formula)", *of_formulas("bernoulli", PRIORS), draw_of_logistic),
    ]


def _pooled(group, y=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(group)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def _grouped(group, y=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    deviation = numpyro.sample("deviation", dist.HalfNormal(1.0))
    effects = numpyro.sample("effects", dist.Normal(0.0, 1.0).expand([6]).to_event(1))
    with numpyro.plate("rows", len(group)):
        numpyro.sample("y", dist.Normal(mean + deviation * effects[group], 1.0), obs=y)


def _level(z, y=None):
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(z)):
        numpyro.sample("y", dist.Poisson(jnp.exp(level + 0 * z)), obs=y)


def _slope(z, y=None):
    level, slope = (numpyro.sample(name, dist.Normal(0.0, 1.0)) for name in ("level", "slope"))
    with numpyro.plate("rows", len(z)):
        numpyro.sample("y", dist.Poisson(jnp.exp(level + slope * z)), obs=y)


def of_numpyro(name: str, first: Callable, second: Callable, columns: Data) -> Pair:
    """A pair of NumPyro models of the same columns."""

    def simulate(is_first, generator):
        seeded = numpyro.handlers.seed(first if is_first else second, int(generator.integers(2**31)))
        return {**columns, "y": np.asarray(_traced(seeded, columns))}

    return Pair(name, ev.Model.from_numpyro(first), ev.Model.from_numpyro(second), simulate)


def _traced(program: Callable, columns: Data) -> Any:
    return numpyro.handlers.trace(program).get_trace(**columns)["y"]["value"]


def of_formulas(family: str, priors: dict | None = None) -> tuple[ev.Regression, ev.Regression]:
    """Regressions on one column, and on two."""
    return tuple(
        ev.Regression(
            formula,
            family,
            priors={
                key: prior for key, prior in (priors or {}).items() if key in formula or key == "Intercept"
            },
        )
        for formula in ("y ~ a", "y ~ a + b")
    )


def draw_of_jzs(is_first: bool, generator: np.random.Generator) -> Data:
    """Data of the Zellner-Siow prior.

    Those of the intercept and of the deviation are improper, and shared: the Bayes factor does not
    depend on their values, and is calibrated at each (Berger, Pericchi and Varshavsky 1998).
    """
    columns, intercept, deviation = CENTRED[:, : 1 if is_first else 2], 3.0, 0.7
    g = stats.invgamma(0.5, scale=len(columns) * JZS_SCALE**2 / 2).rvs(random_state=generator)
    root = np.linalg.cholesky(np.linalg.inv(columns.T @ columns))
    effects = deviation * np.sqrt(g) * root @ generator.standard_normal(columns.shape[1])
    y = intercept + columns @ effects + deviation * generator.standard_normal(len(columns))
    return {"a": CENTRED[:, 0], "b": CENTRED[:, 1], "y": y}


def draw_of_logistic(is_first: bool, generator: np.random.Generator) -> Data:
    """Binary responses of the priors; those of one category are drawn again in neither model."""
    intercept, *effects = (
        np.asarray(prior.sample(jax.random.key(int(generator.integers(2**32))))) for prior in PRIORS.values()
    )
    columns = CENTRED[:, : 1 if is_first else 2]
    log_odds = intercept + columns @ np.array(effects[: columns.shape[1]])
    y = (generator.random(len(columns)) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return {"a": CENTRED[:, 0], "b": CENTRED[:, 1], "y": y}
