"""NumPyro programs as densities of unconstrained values: the only path from NumPyro to a density.

A *program* is a function of named arrays with NumPyro statements: a user's model, or the function
that `program_of` makes from a mapping of distributions. A *site* is one of its random variables.
With T NumPyro's bijector from the real numbers to the support of a site,

    θ = T(u),       log p(u) = log p(θ) + log |det ∂T/∂u|.

`Site` gives a latent site's slice of one flat vector, which holds the sites in sampling order.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro import handlers
from numpyro.distributions import biject_to, constraints

from evidentia.errors import ModelError, attempt
from evidentia.model.enumeration import AtValues
from evidentia.model.recentred import Recentred, base_name

Params = dict[str, Array]
Position = Float[Array, " parameters"]
Program = Callable[..., Any]
Observations = Any  # a pytree of arrays with observations on the leading axis
LogLikelihood = Callable[[Params, Observations], Float[Array, " batch"]]
Prior = Mapping[str, dist.Distribution | Callable[[Params], dist.Distribution]]

LARGEST_LOG = 87.0  # exp(87) and exp(-87) are about the largest and the smallest float32


class Site(NamedTuple):
    """A latent site: its constrained and unconstrained shapes and its slice of the vector."""

    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]
    start: int
    stop: int

    def take(self, position: Position) -> Array:
        """This site's part of the unconstrained vector, in its own shape."""
        return position[self.start : self.stop].reshape(self.unconstrained_shape)


_running = threading.RLock()  # of all programs, as one may call another

# --- Any program ---------------------------------------------------------------------------------


def run_traced(program: Program, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """NumPyro's trace of a program.

    All threads share NumPyro's stack of handlers: two programs at once would be in each other's
    traces. Compiled programs do not come here.
    """
    with _running:
        return handlers.trace(program).get_trace(**data)


def trace_at(
    program: Program, free: Mapping[str, Array], data: Mapping[str, Any]
) -> tuple[Mapping[str, Any], dict[str, Float[Array, ""]]]:
    """Run a program with the sites named in `free` at unconstrained values.

    Returns:
        NumPyro's trace, and log |det ∂T/∂u| of each of these sites.
    """

    def constrained(message):
        name = message["name"]
        return bijector(message)(free[name]) if name in free else None

    trace = run_traced(handlers.substitute(program, substitute_fn=constrained), data)
    log_dets = {
        name: jnp.sum(bijector(trace[name]).log_abs_det_jacobian(value, trace[name]["value"]))
        for name, value in free.items()
        if name in trace
    }
    return trace, log_dets


def bijector(message: Mapping[str, Any]) -> Any:
    """T of a `sample` or `param` statement. Raises ModelError if its support has no bijector."""
    is_sample = message["type"] == "sample"
    support = message["fn"].support if is_sample else message["kwargs"].get("constraint", constraints.real)
    try:
        return biject_to(support)
    except NotImplementedError as error:
        raise ModelError(
            f"site {message['name']!r} must be continuous; its support is {support}, to which NumPyro cannot map the "
            "real numbers. Sum it out of the model, or choose another parametrisation."
        ) from error


def log_prob(message: Mapping[str, Any]) -> Array:
    """Log-probability of a sample statement's value, scaled by `numpyro.handlers.scale`."""
    value = message["fn"].log_prob(message["value"])
    return value if message["scale"] is None else message["scale"] * value


# --- A prior on one flat vector ------------------------------------------------------------------


def program_of(prior: Prior) -> Program:
    """The program that samples `prior`, whose functions receive the preceding parameters."""
    narrow = {
        name: _narrowed(value) if isinstance(value, dist.Distribution) else value
        for name, value in prior.items()
    }

    def program(**rows):
        params: Params = {}
        for name, value in narrow.items():
            params[name] = numpyro.sample(name, _distribution(name, value, params))  # pyright: ignore

    return program


def _narrowed(distribution: dist.Distribution) -> dist.Distribution:
    """The distribution with NumPy arrays of 32 bits.

    JAX keeps one canonical copy of a NumPy array, so a 64-bit array cannot be in programs of both
    precisions.
    """

    def narrow(leaf):
        is_wide = isinstance(leaf, np.ndarray) and leaf.dtype.itemsize == 8
        return leaf.astype({"f": np.float32, "i": np.int32}[leaf.dtype.kind]) if is_wide else leaf

    return jax.tree.map(narrow, distribution)


class Densities(NamedTuple):
    """A model's functions of one unconstrained vector, as JAX traces them.

    Attributes:
        prior: the program that samples the prior.
        sites: its latent sites.
        pointwise: the log-likelihood of each row as a function of the constrained parameters.
        rows: the prior's arguments: a few rows, used only for their shapes, or nothing.
        runs_in_float64: whether all of them can be traced in 64 bits, too.
        recentred: the coordinates of effects, by site.
    """

    prior: Program
    sites: Mapping[str, Site]
    pointwise: LogLikelihood
    rows: Mapping[str, Any]
    runs_in_float64: bool = True
    recentred: Mapping[str, Recentred] = {}

    @property
    def size(self) -> int:
        """The length of the unconstrained vector."""
        return max((site.stop for site in self.sites.values()), default=0)

    def draw(self, key: Array) -> Position:
        """One draw from the prior, unconstrained.

        A value that float32 rounds to the edge of its support (a Gamma(0.01) draw of 0) becomes
        ±87 instead of infinity.
        """
        trace = run_traced(handlers.seed(self._of_bases(), key), self.rows)
        return _flat([(trace[base], trace[base]["value"]) for base in map(self._base, self.sites)])

    def place(
        self, position: Position, rows: Mapping[str, Any] | None = None
    ) -> tuple[Params, dict[str, Float[Array, ""]]]:
        """Constrained parameters at a position, and the log prior density of each.

        If other `rows` change the result, the prior depends on the data.
        """
        bases = {name: self._base(name) for name in self.sites}
        free = {bases[name]: site.take(position) for name, site in self.sites.items()}
        trace, log_dets = trace_at(AtValues(self._of_bases()), free, self.rows if rows is None else rows)
        params = {name: trace[name]["value"] for name in self.sites}
        return params, {name: jnp.sum(log_prob(trace[base])) + log_dets[base] for name, base in bases.items()}

    def unplace(self, params: Params) -> Position:
        """The unconstrained vector of constrained parameters, ±87 at the edge of a support."""
        trace = trace_of(self.prior, self.rows, params)
        own = {name: each.inverse(trace[name]["fn"], params[name]) for name, each in self.recentred.items()}
        return _flat([(trace[name], own.get(name, params[name])) for name in self.sites])

    def log_prior_of(self, params: Params) -> Float[Array, ""]:
        """Log prior density of constrained parameters, without a Jacobian."""
        trace = trace_of(self.prior, self.rows, params)
        return sum((jnp.sum(log_prob(trace[name])) for name in self.sites), start=jnp.zeros(()))

    def log_likelihood(self, position: Position, batch: Observations) -> Array:
        """Log-likelihood of each row, (batch,): binding checks that a user's function gives it."""
        return self.pointwise(self.place(position)[0], batch)

    def _of_bases(self) -> Program:
        """The prior, with effects as functions of their own sites."""
        return handlers.reparam(self.prior, config=dict(self.recentred)) if self.recentred else self.prior

    def _base(self, name: str) -> str:
        return base_name(name) if name in self.recentred else name


def trace_of(program: Program, rows: Mapping[str, Any], params: Params) -> Mapping[str, Any]:
    """NumPyro's trace of a program with sites at constrained values.

    Discrete latent sites are at their first values, unless the program has others.
    """
    return run_traced(AtValues(handlers.substitute(program, data=params)), rows)


def _flat(values: Sequence[tuple[Mapping[str, Any], Array]]) -> Position:
    """One unconstrained vector of the values of some sites, each with its statement."""
    unconstrained = [jnp.ravel(bijector(message).inv(value)) for message, value in values]
    position = jnp.concatenate([jnp.zeros(0), *unconstrained])
    return jnp.nan_to_num(position, nan=jnp.nan, posinf=LARGEST_LOG, neginf=-LARGEST_LOG)


def _distribution(name: str, value: Any, params: Params) -> dist.Distribution:
    if not isinstance(value, dist.Distribution):
        known = ", ".join(params) or "none"
        value = attempt(
            f"prior[{name!r}] (a function of the preceding parameters: {known})", lambda: value(params)
        )
        if not isinstance(value, dist.Distribution):
            raise ModelError(
                f"prior[{name!r}] must return a NumPyro distribution; got {type(value).__name__}."
            )
    return value
