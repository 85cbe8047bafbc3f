"""NumPyro functions as densities: a prior on an unconstrained vector, and a pointwise log-likelihood.

A *program* is a function of named arrays (the rows of a batch) that contains `numpyro.sample` statements: a user's NumPyro
model, or the function that `program_of` makes of a mapping of distributions. Its latent sites, in the order in which they
are sampled, fill one vector u. With T NumPyro's bijector from the real numbers to the support of a site,

    θ = T(u),       log p(u) = log p(θ) + log |det ∂T/∂u|.
"""

import inspect
import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.primitives import Messenger

from evidentia.errors import EvidentiaError, ModelError

Params = dict[str, Array]
Position = Float[Array, " parameters"]
Program = Callable[..., Any]
Rows = Mapping[str, Any]
Prior = Mapping[str, dist.Distribution | Callable[[Params], dist.Distribution]]

LARGEST_LOG = 87.0  # exp(87) and exp(-87) are about the largest and the smallest float32


class Site(NamedTuple):
    """A latent site: the shape that a user sees, and its shape and slice in the unconstrained vector."""

    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]
    start: int
    stop: int

    def take(self, position: Position) -> Array:
        """The part of the unconstrained vector that belongs to this site."""
        return position[self.start : self.stop].reshape(self.unconstrained_shape)


# --- Programs as densities -------------------------------------------------------------------------------------------


def program_of(prior: Prior) -> Program:
    """The program that samples a prior given as a mapping; a function in it gets the parameters before it."""

    def program(**rows):
        params: Params = {}
        for name, value in prior.items():
            params[name] = numpyro.sample(name, _distribution(name, value, params))  # pyright: ignore

    return program


def latent_sites(program: Program, rows: Rows) -> dict[str, Site]:
    """The latent sites of a program called with `rows`, in the order of the unconstrained vector.

    Raises:
        ModelError: no latent site, or one that is discrete, improper, a point, or has no bijector.
    """
    sites: dict[str, Site] = {}
    start = 0
    for name, statement in _statements(program, rows).items():
        if not statement.observed:
            stop = start + math.prod(statement.unconstrained_shape)
            sites[name] = Site(statement.shape, statement.unconstrained_shape, start, stop)
            start = stop
    if not sites:
        raise ModelError("the model has no latent site: it needs a numpyro.sample statement without obs=.")
    return sites


def draw(program: Program, sites: Mapping[str, Site], rows: Rows, key: Array) -> Position:
    """One draw from the prior, unconstrained.

    A value that float32 rounds to the edge of its support (a Gamma(0.01) draw of 0) goes to ±87 and not to infinity.
    """
    trace = handlers.trace(handlers.seed(program, key)).get_trace(**rows)
    return _unconstrained(trace, sites, {name: trace[name]["value"] for name in sites})


def place(
    program: Program, sites: Mapping[str, Site], rows: Rows, position: Position
) -> tuple[Params, dict[str, Float[Array, ""]]]:
    """The constrained parameters at a position, and each site's log prior density there (of the unconstrained vector)."""

    def constrained(message):
        name = message["name"]
        return biject_to(message["fn"].support)(sites[name].take(position)) if name in sites else None

    trace = handlers.trace(handlers.substitute(program, substitute_fn=constrained)).get_trace(**rows)
    params = {name: trace[name]["value"] for name in sites}
    log_densities = {}
    for name, site in sites.items():
        bijector = biject_to(trace[name]["fn"].support)
        log_det = bijector.log_abs_det_jacobian(site.take(position), params[name])
        log_densities[name] = jnp.sum(_log_prob(trace[name])) + jnp.sum(log_det)
    return params, log_densities


def unplace(program: Program, sites: Mapping[str, Site], rows: Rows, params: Params) -> Position:
    """The unconstrained vector of constrained parameters; values at the edge of their support go to ±87."""
    trace = handlers.trace(handlers.substitute(program, data=params)).get_trace(**rows)
    return _unconstrained(trace, sites, params)


def log_density(program: Program, sites: Mapping[str, Site], rows: Rows, params: Params) -> Float[Array, ""]:
    """Log prior density of constrained parameters, with respect to them."""
    trace = handlers.trace(handlers.substitute(program, data=params)).get_trace(**rows)
    return sum((jnp.sum(_log_prob(trace[name])) for name in sites), start=jnp.zeros(()))


def _unconstrained(trace: Mapping[str, Any], sites: Mapping[str, Site], params: Params) -> Position:
    values = [biject_to(trace[name]["fn"].support).inv(params[name]) for name in sites]
    position = jnp.concatenate([jnp.ravel(value) for value in values])
    return jnp.nan_to_num(position, nan=jnp.nan, posinf=LARGEST_LOG, neginf=-LARGEST_LOG)


def pointwise(function: Program) -> Callable[[Params, Any], Float[Array, " batch"]]:
    """The log-likelihood of each row: the sum of the log-probabilities of the function's observed sites."""

    def log_likelihood(params, batch):
        trace = handlers.trace(handlers.substitute(function, data=params)).get_trace(**batch)
        sampled = [message for message in trace.values() if message["type"] == "sample"]
        return reduce(operator.add, [_log_prob(message) for message in sampled if message["is_observed"]])

    return log_likelihood


# --- Checks ----------------------------------------------------------------------------------------------------------


def check_prior(prior: Any) -> None:
    """Raise ModelError unless `prior` maps names to NumPyro distributions, or to functions that return one."""
    if not isinstance(prior, Mapping) or not prior:
        raise ModelError(f"prior must map parameter names to NumPyro distributions; got {prior!r}.")
    for name, value in prior.items():
        if not isinstance(name, str):
            raise ModelError(f"the names in prior must be strings; got {name!r}.")
        if not isinstance(value, dist.Distribution) and (isinstance(value, type) or not callable(value)):
            raise ModelError(
                f"prior[{name!r}] must be a NumPyro distribution such as dist.Normal(0, 1), or a function of the "
                f"parameters before it that returns one; got {value!r}."
            )


def check_arguments(function: Program, data: Any) -> None:
    """Raise ModelError unless `data` is a mapping with the names of the function's arguments."""
    if not isinstance(data, Mapping):
        raise ModelError(
            "a NumPyro model is called as function(**batch): data must be a mapping from the names of its arguments "
            f"to arrays; got {type(data).__name__}."
        )
    signature = inspect.signature(function)
    try:
        signature.bind(**data)
    except TypeError as error:
        raise ModelError(
            f"the NumPyro model takes the arguments {signature}, but data holds {', '.join(data)}: {error}."
        ) from error


def check_function(function: Program, few: Rows, more: Rows) -> None:
    """Raise ModelError unless a NumPyro model splits by observation.

    `few` and `more` are different numbers of rows of the data: a shape that differs between them follows the rows.
    """
    counts = [len(next(iter(rows.values()))) for rows in (few, more)]
    first, second = _statements(function, few), _statements(function, more)
    if first.keys() != second.keys():
        names = ", ".join(sorted(first.keys() ^ second.keys()))
        raise ModelError(
            f"the sites of a model must not depend on the number of observations; these do: {names}."
        )
    for name in first:
        if first[name].observed:
            _check_observed(name, first[name], counts[0])
            _check_observed(name, second[name], counts[1])
        elif first[name].shape != second[name].shape:
            raise ModelError(
                f"site {name!r} is latent and its shape follows the number of observations: {first[name].shape} for "
                f"{counts[0]}, {second[name].shape} for {counts[1]}. Integrate it out of the model; or, if it is meant "
                f"to be observed, put its values into data (which holds {', '.join(few)})."
            )
    if not any(statement.observed for statement in first.values()):
        raise ModelError(
            "the model has no observed site: pass the data as obs= to a numpyro.sample statement "
            f"(data holds {', '.join(few)})."
        )


def attempt(what: str, function: Callable[[], Any]) -> Any:
    """Call a function; an exception that is not evidentia's own becomes a ModelError that says what failed."""
    try:
        return function()
    except EvidentiaError:
        raise
    except Exception as error:
        message = next(iter(str(error).strip().splitlines()), "")
        raise ModelError(f"{what} failed with {type(error).__name__}: {message}") from error


# --- What a program states -------------------------------------------------------------------------------------------


class _Statement(NamedTuple):
    """What is static about a `numpyro.sample` or `numpyro.factor` statement."""

    observed: bool
    is_factor: bool
    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]
    log_prob_shape: tuple[int, ...]


def _statements(program: Program, rows: Rows) -> dict[str, _Statement]:
    """The sample statements of a program, found by tracing it: no number is computed."""
    statements: dict[str, _Statement] = {}

    def run(key, rows):
        checked = _Checked(handlers.seed(program, key))
        for name, message in handlers.trace(checked).get_trace(**rows).items():
            if message["type"] == "sample":
                statements[name] = _statement(message)

    attempt("the model", lambda: jax.eval_shape(run, jax.random.key(0), dict(rows)))
    return statements


def _statement(message: Any) -> _Statement:
    distribution, shape = message["fn"], jnp.shape(message["value"])
    if message["is_observed"]:
        is_factor = isinstance(_base(distribution), dist.Unit)
        return _Statement(True, is_factor, shape, (), jnp.shape(_log_prob(message)))
    unconstrained_shape = biject_to(distribution.support).inverse_shape(shape)
    return _Statement(False, False, shape, unconstrained_shape, ())


class _Checked(Messenger):
    """Looks at every statement of a program before it is executed, and changes nothing."""

    def process_message(self, msg: Any) -> None:
        if msg["type"] in ("param", "mutable", "control_flow", "prng_key"):
            raise ModelError(
                f"the model uses numpyro's {msg['type']} ({msg.get('name')!r}); only sample, deterministic, factor and "
                "plate statements are possible."
            )
        if msg["type"] == "plate":
            _check_plate(msg)
        if msg["type"] == "sample" and msg["value"] is None:
            _check_latent(msg)


def _check_plate(message: Any) -> None:
    size, subsample_size = message["args"]
    if subsample_size is not None and subsample_size != size:
        raise ModelError(
            f"plate {message['name']!r} takes {subsample_size} of {size} rows: a subsample is not the model. Drop "
            "subsample_size; evidentia draws the mini-batches itself."
        )


def _check_latent(message: Any) -> None:
    name, distribution = message["name"], message["fn"]
    kind = type(_base(distribution)).__name__
    if kind in ("ImproperUniform", "Delta"):
        raise ModelError(
            f"site {name!r} has the prior {kind}, which is not a probability density: the evidence needs a proper one."
        )
    if distribution.is_discrete:
        raise ModelError(
            f"site {name!r} is a discrete latent ({kind}); parameters must be continuous. Sum it out of the "
            "likelihood; or, if it is meant to be observed, put its values into data."
        )
    try:
        biject_to(distribution.support)
    except NotImplementedError as error:
        raise ModelError(
            f"site {name!r} ({kind}) has the support {distribution.support}, which NumPyro cannot map from the real "
            "numbers. Write it with another parametrisation."
        ) from error


def _check_observed(name: str, statement: _Statement, rows: int) -> None:
    shape = statement.log_prob_shape
    if shape == (rows,):
        return
    what = f"numpyro.factor {name!r}" if statement.is_factor else f"observed site {name!r}"
    if len(shape) > 1 and shape[0] == rows and rows not in shape[1:]:
        hint = f"Add .to_event({len(shape) - 1}) to its distribution"
    else:
        hint = "Rows belong on the leading axis and must be independent given the latent sites"
    raise ModelError(
        f"{what} must have one log-probability per observation: for {rows} observations shape ({rows},) is needed, "
        f"got {shape}. {hint}."
    )


def _distribution(name: str, value: Any, params: Params) -> dist.Distribution:
    if not isinstance(value, dist.Distribution):
        known = ", ".join(params) or "none"
        value = attempt(
            f"prior[{name!r}] (a function of the parameters before it: {known})", lambda: value(params)
        )
        if not isinstance(value, dist.Distribution):
            raise ModelError(
                f"prior[{name!r}] must return a NumPyro distribution; got {type(value).__name__}."
            )
    return value


def _base(distribution: Any) -> Any:
    while isinstance(distribution, dist.ExpandedDistribution | dist.Independent | dist.MaskedDistribution):
        distribution = distribution.base_dist
    return distribution


def _log_prob(message: Any) -> Array:
    log_prob = message["fn"].log_prob(message["value"])
    return log_prob if message["scale"] is None else message["scale"] * log_prob
