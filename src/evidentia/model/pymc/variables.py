"""PyMC's variables as NumPyro distributions: density, support and transform from PyMC's graphs."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints

from evidentia.model.pymc.graphs import Graph

OWN = "its own value"  # the input of a variable's graphs that holds a value of it
FREE = "its unconstrained value"


@dataclass(frozen=True, eq=False)
class Variable:
    """What PyMC computes of a free variable, as functions of the variables before it.

    Attributes:
        shape: of its values.
        log_density: log density at `OWN`, with any shape; the terms are summed.
        transform: PyMC's transform to the real numbers, from `OWN`; back from `FREE`; and the
            latter's log |det|. None if the variable is real.
        draw: draws of it.
    """

    shape: tuple[int, ...]
    log_density: Graph
    transform: "tuple[Graph, Graph, Graph] | None"
    draw: "Draw"

    def given(self, values: Mapping[str, Any]) -> dist.Distribution:
        """Its distribution given the values of the variables before it."""
        return FromGraphs(self, values)


class FromGraphs(dist.Distribution):
    """A variable of PyMC given the values of those before it, as one event."""

    def __init__(self, variable: Variable, values: Mapping[str, Any]):
        self._variable, self._values = variable, dict(values)
        super().__init__((), variable.shape)

    @property
    def support(self) -> Any:
        """What PyMC's own transform maps the real numbers to."""
        if self._variable.transform is None:
            return constraints.independent(constraints.real, len(self.event_shape))
        return TransformedSupport(self._variable.transform, self._values, self.event_shape)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws by PyMC, on the host."""
        if sample_shape:
            keys = jax.random.split(key, sample_shape)
            return self._variable.draw(keys, self._values, self.event_shape)
        return self._variable.draw(key, self._values, self.event_shape)

    def log_prob(self, value: Array) -> Float[Array, ""]:
        """PyMC's log density."""
        [terms] = self._variable.log_density({**self._values, OWN: value})
        return jnp.sum(terms)


class TransformedSupport(constraints.Constraint):
    """The values of a PyMC transform, which may depend on other variables."""

    def __init__(self, graphs: tuple[Graph, Graph, Graph], values: Mapping[str, Any], shape: tuple[int, ...]):
        self.graphs, self.values, self.shape = graphs, values, shape
        super().__init__()

    @property
    def event_dim(self) -> int:
        """All axes of the variable."""
        return len(self.shape)


@biject_to.register(TransformedSupport)
class _Transform:
    """PyMC's transform, with the methods of NumPyro's."""

    def __init__(self, support: TransformedSupport):
        self._forward, self._backward, self._log_det = support.graphs
        self._values, self._shape = support.values, support.shape

    def __call__(self, free: Array) -> Array:
        return self._backward({**self._values, FREE: free})[0]

    def inv(self, value: Array) -> Array:
        return self._forward({**self._values, OWN: value})[0]

    def log_abs_det_jacobian(self, free: Array, value: Array) -> Array:
        return self._log_det({**self._values, FREE: free})[0]

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return jax.eval_shape(self.inv, jax.ShapeDtypeStruct(shape, jnp.result_type(float))).shape


@dataclass(frozen=True, eq=False)
class Draw:
    """Draws of a variable given those before it, by PyMC's own generator, seeded by JAX's key.

    PyMC's generators are Python: JAX calls back to the host for each draw, which takes 0.1 ms.
    """

    inputs: Mapping[str, Any]
    output: Any
    _compiled: dict[str, Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def __call__(self, keys: Array, values: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
        """One draw for each key."""
        is_typed = jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
        seeds = jax.random.key_data(keys) if is_typed else keys
        result = jax.ShapeDtypeStruct((*seeds.shape[:-1], *shape), jnp.result_type(float))

        def draw(seeds, *given):
            return self.on_host(np.asarray(seeds), [np.asarray(one) for one in given], shape, result.dtype)

        given = [jnp.asarray(values[name]) for name in self.inputs]
        if seeds.ndim > 1:
            given = [jnp.broadcast_to(one, (*seeds.shape[:-1], *one.shape)) for one in given]
        return jax.pure_callback(draw, result, seeds, *given, vmap_method="broadcast_all")

    def on_host(
        self, seeds: np.ndarray, given: list[np.ndarray], shape: tuple[int, ...], dtype: Any
    ) -> np.ndarray:
        """One draw for each pair of seeds, given values with the same leading axes."""
        batch = seeds.shape[:-1]
        drawn = np.empty((*batch, *shape), dtype)
        with self._lock:
            function, generators = self._function()
            for place in np.ndindex(batch):
                seed = np.random.SeedSequence(seeds[place].tolist())
                for generator, state in zip(generators, seed.spawn(len(generators)), strict=True):
                    generator.set_value(np.random.default_rng(state), borrow=True)
                drawn[place] = function(*(one[place] for one in given))
        return drawn

    def _function(self) -> tuple[Any, list[Any]]:
        if not self._compiled:
            from pymc import compile as compiled
            from pymc.pytensorf import find_rng_nodes, replace_rng_nodes

            [output] = replace_rng_nodes([self.output])  # PyMC's model keeps its own generators
            generators = find_rng_nodes([output])
            inputs = list(self.inputs.values())
            options = {"mode": "FAST_COMPILE", "on_unused_input": "ignore", "allow_input_downcast": True}
            self._compiled["function"] = compiled(inputs, output, **options)
            self._compiled["generators"] = generators
        return self._compiled["function"], self._compiled["generators"]

    def __reduce__(self) -> tuple[Any, ...]:
        return Draw, (self.inputs, self.output)
