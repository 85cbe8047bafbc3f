"""A PyMC model as a NumPyro program: a function of named arrays with NumPyro statements."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.distributions import constraints

from evidentia.model.pymc.cholesky import LKJCholeskyCov
from evidentia.model.pymc.graphs import Graph, prepare_jax
from evidentia.model.pymc.known import Ordered, known
from evidentia.model.pymc.variables import Variable


class Known(NamedTuple):
    """A free variable with a NumPyro distribution: which, its parameters, and its shape."""

    kind: str
    parameters: Graph
    shape: tuple[int, ...]
    is_ordered: bool = False

    def given(self, values: Mapping[str, Any]) -> dist.Distribution:
        """Its distribution given the values of the variables before it."""
        distribution = known(self.kind, self.parameters(values), self.shape)
        return Ordered(distribution) if self.is_ordered else distribution


class Cholesky(NamedTuple):
    """A free LKJCholeskyCov: its concentration, and its standard deviations."""

    concentration: Graph
    deviations: "Known | Variable"

    def given(self, values: Mapping[str, Any]) -> dist.Distribution:
        """Its distribution given the values of the variables before it."""
        return LKJCholeskyCov(self.concentration(values)[0], self.deviations.given(values))


@dataclass(frozen=True, eq=False)
class PyMCProgram:
    """The statements of a PyMC model, called as `program(**data)`.

    Attributes:
        name: the model's name.
        arguments: names of the data.
        free: distributions of the free variables, in an order in which each follows those that it
            depends on.
        observed: log-likelihoods by name, with rows on the leading axis.
        potentials: the model's Potential terms.
    """

    name: str
    arguments: Sequence[str]
    free: Mapping[str, Known | Cholesky | Variable]
    observed: Mapping[str, Graph]
    potentials: Mapping[str, Graph]

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.arguments])

    def __call__(self, **data: Array) -> None:
        prepare_jax()
        values = {name: jnp.asarray(data[name]) for name in self.arguments}
        for name, variable in self.free.items():
            values[name] = jnp.asarray(numpyro.sample(name, variable.given(values)))
        for name, graph in self.observed.items():
            numpyro.sample(name, _Likelihood(graph, values), obs=jnp.zeros(()))
        for name, graph in self.potentials.items():
            numpyro.factor(name, _by_row(graph(values)[0]))


class _Likelihood(dist.Distribution):
    """An observed variable with its data: one log-probability for each row."""

    support: Any = constraints.real  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(self, graph: Graph, values: Mapping[str, Any]):
        self._graph, self._values = graph, dict(values)
        super().__init__()

    def log_prob(self, value: Array) -> Array:
        return _by_row(self._graph(self._values)[0])


def _by_row(terms: Any) -> Array:
    """Log-probabilities, summed over all axes but the first."""
    terms = jnp.asarray(terms)
    return jnp.sum(terms, axis=tuple(range(1, terms.ndim)))
