"""The log-likelihood of a model as JAX calls it, if it is a function outside JAX."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from scipy.special import ndtr

from evidentia import weights
from evidentia.errors import ModelError, check_count
from evidentia.model.outside.evaluations import Evaluations
from evidentia.model.outside.function import Function, Layout, Points

CUBE = "standard normal"  # the site from which the unit cube is made
NUM_CENTRING = 256  # points of the prior that show where a periodic parameter is
CENTRING_ESS = 32.0


class OutsideLikelihood:
    """The log-likelihood `(params, batch) -> ()` of a function outside JAX.

    With a `prior_transform`, the parameters are standard normal variables z, and Φ(z) is the place
    in the unit cube: the prior is a Gaussian, whatever the transform. The cube is rotated along
    periodic parameters, so that their edges are far from the posterior.

    JAX has no derivatives of it: asking for one is a ModelError.
    """

    def __init__(self, evaluations: Evaluations, periodic: tuple[int, ...], name: str):
        self.evaluations: Evaluations = evaluations
        self.name: str = name
        self.identity: str = (
            f"outside JAX, {uuid4().hex}"  # what it computes is not known; no other computes the same
        )
        self._periodic = periodic
        function = jax.custom_jvp(self._called)
        function.defjvp(self._refuse)
        self._function = function

    def __call__(self, params: Mapping[str, Array], batch: Any) -> Float[Array, ""]:
        """The log-likelihood at constrained parameters, in nats; `batch` is not used."""
        function = self.evaluations.function
        names = [CUBE] if function.prior_transform else [name for name, _ in function.layout]
        return self._function(jnp.concatenate([jnp.zeros(0), *(jnp.ravel(params[name]) for name in names)]))

    def arguments(self, params: Mapping[str, np.ndarray]) -> Points | Mapping[str, np.ndarray]:
        """The parameters as the function gets them, for draws on the leading axis."""
        function = self.evaluations.function
        if function.prior_transform is None:
            return params
        cube = self._in_cube(np.asarray(params[CUBE], np.float64))
        if function.vectorized:
            return np.asarray(function.arguments(cube))
        return np.stack([np.asarray(function.arguments(point)) for point in cube])

    def _called(self, flat: Float[Array, " coordinates"]) -> Float[Array, ""]:
        result = jax.ShapeDtypeStruct((), flat.dtype)
        return jax.pure_callback(self._on_host, result, flat, vmap_method="broadcast_all")

    def _on_host(self, flat: Float[Array, "*points coordinates"]) -> Float[np.ndarray, "*points"]:
        given = np.asarray(flat)
        points = given.reshape(math.prod(given.shape[:-1]), given.shape[-1]).astype(np.float64)
        return self._values(points).reshape(given.shape[:-1]).astype(given.dtype)

    def _values(self, points: Points) -> Float[np.ndarray, " points"]:
        """NaN after a failure, which ends the run; JAX would lose the type of an exception."""
        if self.evaluations.failure is not None:
            return np.full(len(points), np.nan)
        try:
            transformed = self.evaluations.function.prior_transform is not None
            return self.evaluations.at(self._in_cube(points) if transformed else points)
        except BaseException as error:
            self.evaluations.failure = error
            return np.full(len(points), np.nan)

    def _in_cube(self, normal: Points) -> Points:
        cube = ndtr(normal)
        if self._periodic:
            cube[..., self._periodic] = (cube[..., self._periodic] + self._shift) % 1.0
        return cube

    @cached_property
    def _shift(self) -> Float[np.ndarray, " periodic"]:
        """Where the unit cube begins: opposite to the mean of each periodic parameter."""
        from scipy.stats import qmc  # slow to import

        size = len(self.evaluations.names)
        points = qmc.Sobol(size, rng=0).random(NUM_CENTRING)
        values = np.maximum(self.evaluations.at(points), np.finfo(float).min / 2)
        power = weights.next_temperature(np.zeros(NUM_CENTRING), values, 0.0, CENTRING_ESS)
        share = np.exp(weights.normalise(power * values))
        means = share @ np.exp(2j * np.pi * points[:, self._periodic])
        return np.angle(means) / (2 * np.pi) - 0.5

    def _refuse(self, primals: Any, tangents: Any) -> Any:
        raise ModelError(self.without_gradient)

    @property
    def without_gradient(self) -> str:
        """What to do about gradients that are asked for: a sentence."""
        return (
            f"the log-likelihood of {self.name!r} is not written in JAX and has no gradient: use method=AMIS(), "
            "NestedSampling(), SMC(), AIS() or PriorSampling()."
        )


def outside_likelihood(
    log_likelihood: Callable[[Any], Any],
    prior_transform: Callable[[Any], Any] | None,
    prior: Mapping[str, dist.Distribution] | None,
    *,
    num_parameters: int | None,
    names: Sequence[str] | None,
    vectorized: bool,
    periodic: Sequence[str | int],
    executor: Executor | None,
    name: str,
) -> tuple[Any, OutsideLikelihood, Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]] | None]:
    """The prior, the log-likelihood, and what results show, of `Model.from_callable`."""
    _check_functions(log_likelihood, prior_transform, prior)
    if prior is not None:
        if num_parameters is not None or names is not None or periodic != ():
            raise ModelError(
                "num_parameters, names and periodic belong to a prior_transform; a prior has names of its own."
            )
        layout = _layout(prior)
        function = Function(log_likelihood, None, layout, vectorized)
        return prior, OutsideLikelihood(Evaluations(function, _coordinates(layout), executor), (), name), None
    names = _names(names, num_parameters)
    evaluations = Evaluations(Function(log_likelihood, prior_transform, (), vectorized), names, executor)
    likelihood = OutsideLikelihood(evaluations, _indices(periodic, names), name)
    cube = {CUBE: dist.Normal(0.0, 1.0).expand([len(names)]).to_event(1)}
    return cube, likelihood, partial(_by_name, likelihood, names)


def _by_name(
    likelihood: OutsideLikelihood, names: tuple[str, ...], params: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The parameters of draws by name."""
    columns = np.asarray(likelihood.arguments(params), np.float64)
    return {name: columns[:, index] for index, name in enumerate(names)}


def _check_functions(log_likelihood: Any, prior_transform: Any, prior: Any) -> None:
    if not callable(log_likelihood):
        raise ModelError(f"log_likelihood must be a function of the parameters; got {log_likelihood!r}.")
    if (prior_transform is None) == (prior is None):
        raise ModelError(
            "a model from a callable needs either prior_transform, from the unit cube to the parameters, or prior, NumPyro "
            f"distributions by name; got {'neither' if prior is None else 'both'}."
        )
    if prior is None and not callable(prior_transform):
        raise ModelError(
            f"prior_transform must be a function from the unit cube to the parameters; got {prior_transform!r}. Bounds go into "
            "prior= instead: prior={'mean': dist.Uniform(-5, 5), ...}, with NumPyro's distributions by name."
        )


def _names(names: Sequence[str] | None, num_parameters: int | None) -> tuple[str, ...]:
    if names is None:
        if num_parameters is None:
            raise ModelError(
                "num_parameters or names is needed with a prior_transform: how many parameters there are."
            )
        check_count("num_parameters", num_parameters, 0)
        return tuple(f"x{index}" for index in range(num_parameters))
    are_texts = isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)
    if not are_texts or len(set(names)) < len(names):
        raise ModelError(f"names must be a tuple of different texts, one for each parameter; got {names!r}.")
    if num_parameters not in (None, len(names)):
        raise ModelError(
            f"names must be as many as num_parameters; got {len(names)} names and {num_parameters}."
        )
    return tuple(names)


def _indices(periodic: Sequence[str | int], names: tuple[str, ...]) -> tuple[int, ...]:
    def is_known(one: Any) -> bool:
        is_index = isinstance(one, int) and not isinstance(one, bool) and 0 <= one < len(names)
        return is_index or (isinstance(one, str) and one in names)

    if not isinstance(periodic, tuple | list) or not all(map(is_known, periodic)):
        raise ModelError(
            f"periodic must hold names of parameters ({', '.join(names)}) or their indices; got {periodic!r}."
        )
    return tuple(one if isinstance(one, int) else names.index(one) for one in periodic)


def _layout(prior: Mapping[str, dist.Distribution]) -> Layout:
    if not isinstance(prior, Mapping) or not all(
        isinstance(each, dist.Distribution) for each in prior.values()
    ):
        raise ModelError(
            f"prior must map names to NumPyro distributions for a model from a callable; got {prior!r}."
        )
    return tuple((name, tuple(each.batch_shape + each.event_shape)) for name, each in prior.items())


def _coordinates(layout: Layout) -> tuple[str, ...]:
    """The names of the coordinates of a point."""
    return tuple(
        name + "".join(f"[{index}]" for index in indices)
        for name, shape in layout
        for indices in itertools.product(*map(range, shape))
    )
