"""Hidden Markov chains: the forward algorithm, with states that have no fixed order."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, DataError, check_count
from evidentia.model.built_in.checks import check_size
from evidentia.model.built_in.sequences import LENGTH, check_values, drawn_from
from evidentia.model.model import Model
from evidentia.model.program import Prior
from evidentia.system.sharing import check_not_forked


@dataclass(frozen=True)
class Emission:
    """The distribution of an observation given the state.

    Attributes:
        prior: of its parameters, with states on the leading axis.
        log_prob: the log density of one value in each state, (states,).
        draw: values given the parameters and an array of states, by a NumPy generator; parameters
            and states share their leading axes.
        check: raises DataError for values (without NaN) that it cannot have.
    """

    prior: Prior
    log_prob: Callable[[Mapping[str, Array], Array], Float[Array, " states"]]
    draw: Callable[[np.random.Generator, Mapping[str, np.ndarray], np.ndarray], np.ndarray]
    check: Callable[[np.ndarray], None]


def hidden_markov(
    num_states: int,
    emission: str = "categorical",
    *,
    num_categories: int | None = None,
    many_sequences: bool = False,
) -> Model:
    """A hidden Markov chain with K states.

        initial ~ Dirichlet(1, …, 1),   transition_k ~ Dirichlet(1, …, 1),
        p(s_1 = k) = initial_k,         p(s_t = l | s_{t-1} = k) = transition_kl,

    and given its state, an observation y_t is

        categorical:    emission_k ~ Dirichlet(1, …, 1),    p(y_t = c | s_t = k) = emission_kc,
        normal:         variances_k ~ InverseGamma(1, 1),   means_k ~ N(0, 4 variances_k),
                        y_t ~ N(means_k, variances_k),
        poisson:        rates_k ~ Gamma(1, 0.1), of mean 10,   y_t ~ Poisson(rates_k).

    Data are `{"y": (T,)}`; with `many_sequences`, `{"y": (sequences, T)}`. NaN is a missing
    observation: the chain moves on, and nothing is learnt. Shorter sequences are filled up with
    NaN at the end, which leaves their likelihood as it is.

    States have no fixed order: the posterior has K! copies of each mode, and the evidence counts
    them all. One state is independent observations, without `initial` and `transition`.

    Args:
        num_states: K, at least one.
        emission: "categorical", "normal" or "poisson".
        num_categories: of categorical observations, which are the integers from 0.
        many_sequences: whether data hold many sequences, independent given the parameters.

    Raises:
        ConfigurationError: an argument is out of range, or needs more memory than there is.

    Example:
        >>> model = hidden_markov(num_states=2, num_categories=3)
        >>> data, params = model.simulate(num_observations=100, seed=0)
        >>> {name: value.shape for name, value in params.items()}
        {'initial': (2,), 'transition': (2, 2), 'emission': (2, 3)}

    Source: Rabiner (1989), Proceedings of the IEEE 77, 257, section V.A (the scaled forward
    algorithm).
    """
    check_not_forked()  # the prior takes JAX
    check_count("num_states", num_states, 1)
    if emission not in EMISSIONS:
        known = ", ".join(map(repr, EMISSIONS))
        raise ConfigurationError(f"emission must be one of {known}; got {emission!r}.")
    if emission == "categorical":
        check_count("num_categories", num_categories, 1)
        check_size(f"num_categories={num_categories:,}", int(num_states) * int(num_categories or 1))
    elif num_categories is not None:
        raise ConfigurationError(
            f"num_categories={num_categories!r} needs emission='categorical'; got {emission!r}."
        )
    check_size(f"num_states={num_states:,}", int(num_states) ** 2)
    return _model(int(num_states), emission, num_categories and int(num_categories), bool(many_sequences))


@cache
def _model(num_states: int, emission: str, num_categories: int | None, many_sequences: bool) -> Model:
    of_state = EMISSIONS[emission](num_states, num_categories)
    rows = dist.Dirichlet(jnp.ones((num_states, num_states))).to_event(1)
    chain = {"initial": dist.Dirichlet(jnp.ones(num_states)), "transition": rows} if num_states > 1 else {}
    names = ("initial", ("transition", 0, 1), *of_state.prior)
    model = Model.from_recursion(
        {**chain, **of_state.prior},
        _first,
        partial(_step, of_state.log_prob),
        many_sequences=many_sequences,
        missing=("y",),
        exchangeable=names if num_states > 1 else (),
        name=f"hidden Markov chain, {num_states} {'states' if num_states > 1 else 'state'}",
    )
    return replace(
        model,
        check_data=partial(check_values, many_sequences, of_state.check),
        simulate=partial(_simulate, model.prior, of_state, many_sequences),
        predict=partial(_predict, of_state),
    )


def _first(params):
    return params["initial"] if "initial" in params else jnp.ones(1)


def _step(log_prob, params, probabilities, row):
    """Forward algorithm: from p(s_t | y_1, …, y_{t-1}) to p(s_{t+1} | y_1, …, y_t), with

        p(y_t | y_1, …, y_{t-1}) = Σ_k p(s_t = k | y_1, …, y_{t-1}) p(y_t | s_t = k).

    Sums are scaled by their largest term, so that nothing underflows; NaN has the likelihood 1.
    """
    y, is_missing = row["y"], jnp.isnan(row["y"])
    likelihoods: Any = jnp.where(is_missing, 0.0, log_prob(params, jnp.where(is_missing, 0.0, y)))
    terms = jnp.log(probabilities) + likelihoods
    largest = jax.lax.stop_gradient(terms.max())
    joint = jnp.exp(terms - largest)
    total = joint.sum()
    filtered = joint / total
    # The product as a sum of elements, which is faster than small matrices for many particles.
    predicted = (filtered[:, None] * params["transition"]).sum(0) if "transition" in params else filtered
    return predicted, jnp.log(total) + largest


# --- Emissions -----------------------------------------------------------------------------------


def _categorical(num_states, num_categories):
    def check(values):
        if not np.array_equal(values, np.floor(values)) or ((values < 0) | (values >= num_categories)).any():
            raise DataError(
                f"data['y'] must hold the integers 0 to {num_categories - 1}, as num_categories={num_categories}; got values from "
                f"{values.min():g} to {values.max():g}."
            )

    def draw(generator, params, states):
        below = np.cumsum(_of_states(params["emission"], states), axis=-1)[..., :-1]
        return (generator.random((*states.shape, 1)) > below).sum(-1)

    def log_prob(params, y):
        return jnp.log(params["emission"][:, y.astype(int)])

    prior = {"emission": dist.Dirichlet(jnp.ones((num_states, num_categories))).to_event(1)}
    return Emission(prior, log_prob, draw, check)


def _normal(num_states, _):
    def log_prob(params, y):
        return dist.Normal(params["means"], jnp.sqrt(params["variances"])).log_prob(y)

    def draw(generator, params, states):
        deviations = np.sqrt(_of_states(params["variances"], states))
        return generator.normal(_of_states(params["means"], states), deviations)

    prior = {
        "variances": dist.InverseGamma(1.0, 1.0).expand([num_states]).to_event(1),
        "means": lambda params: dist.Normal(0.0, 2.0 * jnp.sqrt(params["variances"])).to_event(1),
    }
    return Emission(prior, log_prob, draw, lambda values: None)


def _poisson(num_states, _):
    def check(values):
        if not np.array_equal(values, np.floor(values)) or (values < 0).any():
            raise DataError(
                f"data['y'] must hold counts, integers from 0; got values from {values.min():g} to {values.max():g}."
            )

    def log_prob(params, y):
        return dist.Poisson(params["rates"]).log_prob(y)

    def draw(generator, params, states):
        return generator.poisson(_of_states(params["rates"], states))

    return Emission({"rates": dist.Gamma(1.0, 0.1).expand([num_states]).to_event(1)}, log_prob, draw, check)


EMISSIONS = {"categorical": _categorical, "normal": _normal, "poisson": _poisson}


def _of_states(values: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Parameters (draws, states, …) at the states (draws, …) of each draw."""
    draws = np.arange(len(states)).reshape(-1, *[1] * (states.ndim - 1))
    return values[draws, states]


# --- Simulation ----------------------------------------------------------------------------------


def _simulate(prior, emission, many_sequences, num_observations, seed):
    params, count = drawn_from(prior, seed), num_observations if many_sequences else 1
    alike = {name: np.repeat(value[None], count, axis=0) for name, value in params.items()}
    length = LENGTH if many_sequences else num_observations
    y = _observations(emission, alike, count, length, np.random.default_rng(seed))
    return {"y": y if many_sequences else y[0]}, params


def _predict(emission, params, data, seed):
    """Sequences of the lengths of `data["y"]`, whose values are not used."""
    generator, shape = np.random.default_rng(seed), np.shape(data["y"])
    draws = len(next(iter(params.values())))
    found = [
        _observations(emission, params, draws, shape[-1], generator) for _ in range(int(np.prod(shape[:-1])))
    ]
    return {"y": np.stack(found, axis=1).reshape(draws, *shape)}


def _observations(emission, params, draws, length, generator):
    """Observations (draws, length) of a chain for each draw of the parameters."""
    states = np.zeros((draws, length), int)
    if "initial" in params:
        states[:, 0] = _chosen(params["initial"], generator)
        for row in range(1, length):
            states[:, row] = _chosen(params["transition"][np.arange(draws), states[:, row - 1]], generator)
    return emission.draw(generator, params, states)


def _chosen(probabilities, generator):
    """A state for each draw, with the probabilities (draws, states)."""
    below = np.cumsum(probabilities, axis=-1)[:, :-1]
    return (generator.random((len(below), 1)) > below).sum(-1)
