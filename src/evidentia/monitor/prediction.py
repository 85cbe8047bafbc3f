"""Combined predictions of several models, from their probabilities and weighted particles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, check_count, check_seed
from evidentia.monitor.protocols import OnlineLike
from evidentia.system.sharing import check_not_forked

Function = Callable[..., Any]


class Prediction(NamedTuple):
    """The combined prediction of several models.

    Attributes:
        mean: mean of the function over models and particles, weighted by both.
        draws: (draws, ...): one value of the function per draw of a model and a particle of it.
        models: the model of each draw.
    """

    mean: ndarray
    draws: Float[ndarray, "draws ..."]
    models: tuple[str, ...]


def predict(
    onlines: Mapping[str, OnlineLike],
    probabilities: Float[ndarray, " models"],
    functions: Function | Mapping[str, Function],
    num_draws: int,
    seed: int,
) -> Prediction:
    """Draw models by probability and particles by weight; see `ModelAverage.predict`.

    Raises:
        ConfigurationError: names that do not match the models, functions with other arguments, or
            results of different shapes.
    """
    check_count("num_draws", num_draws, 1)
    check_not_forked()
    check_seed(seed)
    by_name, draws_itself = _checked(functions, list(onlines))
    shares = probabilities / probabilities.sum()
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.choice(len(shares), num_draws, p=shares))
    keys = jax.random.split(jax.random.key(seed), num_draws)
    draws, means = dict[str, ndarray](), list[ndarray]()
    for k, (name, online) in enumerate(onlines.items()):
        places = np.flatnonzero(chosen == k)
        weighted = online.weighted
        weights = np.exp(np.asarray(weighted.log_weights, np.float64))
        weights /= weights.sum()
        particles = generator.choice(len(weights), len(places), p=weights)
        posterior = {site: np.asarray(values) for site, values in weighted.items()}
        function = jax.vmap(by_name[name])
        if not draws_itself:
            values = np.asarray(function(posterior))
            draws[name] = values[particles]
            means.append(np.tensordot(weights, values.astype(np.float64), 1))
        elif len(places):
            params = {site: values[particles] for site, values in posterior.items()}
            draws[name] = np.asarray(function(keys[places], params))
    _check_shapes(draws)
    joined = np.concatenate(list(draws.values()))
    mean = joined.mean(0) if draws_itself else np.tensordot(shares, np.stack(means), 1)
    order, names = generator.permutation(num_draws), list(onlines)
    return Prediction(mean, joined[order], tuple(names[int(k)] for k in chosen[order]))


def _checked(functions: Any, names: list[str]) -> tuple[Mapping[str, Function], bool]:
    """One function per model, and whether the functions take a key."""
    by_name = _mapping(dict.fromkeys(names, functions) if callable(functions) else functions)
    if by_name is None or set(by_name) != set(names):
        given = type(functions).__name__ if by_name is None else ", ".join(sorted(by_name))
        raise ConfigurationError(
            f"functions must be one function, or one for each of {', '.join(sorted(names))}; got {given}."
        )
    counts = {name: _num_required(function) for name, function in by_name.items()}
    if len(set(counts.values())) > 1 or not set(counts.values()) <= {1, 2}:
        listed = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
        raise ConfigurationError(
            f"functions must all take (params), or all (key, params); got numbers of arguments: {listed}."
        )
    return by_name, 2 in counts.values()


def _mapping(given: Any) -> Mapping[str, Function] | None:
    return cast("Mapping[str, Function]", given) if isinstance(given, Mapping) else None


def _num_required(function: Function) -> int:
    """How many arguments must be given by position."""
    by_position = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = inspect.signature(function).parameters.values()
    return sum(one.kind in by_position and one.default is one.empty for one in parameters)


def _check_shapes(draws: Mapping[str, ndarray]) -> None:
    if len({drawn.shape[1:] for drawn in draws.values()}) > 1:
        listed = ", ".join(f"{drawn.shape[1:]} for {name!r}" for name, drawn in draws.items())
        raise ConfigurationError(f"functions must return arrays of the same shape; got {listed}.")
