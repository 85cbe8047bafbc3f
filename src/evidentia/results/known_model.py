"""The model and data of a result, as long as the session has them: densities at its particles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError
from evidentia.model.bound import BoundModel, Shown
from evidentia.model.local import Integrated
from evidentia.model.model import Model
from evidentia.posterior.units import Units, bound_to
from evidentia.system.sharing import check_not_forked

AT_ONCE = 2**22  # numbers of a block, rows times particles


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A model with the particles of a result.

    Attributes:
        bound: the model bound to the shapes of its data.
        draws: constrained parameters by name, in the model's own units.
        model: as it was estimated; None if the data are not at hand.
        data: of `model`, in the order of the user.
        rule: the rule of quadrature that the run needed for local variables.
        per_row: what is added to the log-likelihood of each row, for other units of the response.
        shown: from the model's parameters to those of results; None if they are the same.
        response: what was observed by name, in the units of results; None if it is all data.
    """

    bound: BoundModel
    draws: dict[str, ndarray]
    model: Model | None = None
    data: Any = None
    rule: int = 0
    per_row: float = 0.0
    shown: Shown | None = None
    response: Mapping[str, ndarray] | None = None

    @cached_property
    def _units(self) -> Units:
        if self.model is None:
            raise ConfigurationError(
                "the log-likelihood needs the data in memory; got those of a stream, a source or a cluster. Estimate with the rows "
                "as arrays."
            )
        return bound_to(self.model, self.data)

    @property
    def observed(self) -> Mapping[str, ndarray]:
        """The data by name, or the response; empty if they are not at hand."""
        if self.response is not None or self.model is None:
            return self.response or {}
        data = self._units.data
        named = data if isinstance(data, Mapping) else dict(enumerate(jax.tree.leaves(data)))
        return {
            f"data_{name}" if isinstance(name, int) else name: np.asarray(one) for name, one in named.items()
        }

    def log_prior(self) -> Float[ndarray, " particles"]:
        """The log prior density of the parameters at each particle, in nats."""
        check_not_forked()
        return np.asarray(jax.jit(jax.vmap(self.bound.densities.log_prior_of))(self.draws), np.float64)

    def log_likelihood(self) -> Float[ndarray, " particles"]:
        """The log-likelihood of all data at each particle, in nats."""
        found = np.sum([block.sum(1) for block in self._blocks(self.draws)], axis=0)
        return found + self.per_row * self._units.num_rows

    def pointwise(self, chosen: ndarray) -> Float[ndarray, "draws units"]:
        """The log-likelihood of each row at some particles, in the order of the data.

        A unit is a row; a pack of groups where these share latents, and all data where rows depend
        on each other.
        """
        some = {name: values[chosen] for name, values in self.draws.items()}
        found = np.concatenate(list(self._blocks(some)), axis=1)
        return found + self.per_row * self._units.num_rows / found.shape[1]

    def prior_draws(self, count: int, seed: int) -> dict[str, ndarray]:
        """Draws from the prior, by the names of results."""
        check_not_forked()
        positions = self.bound.sample_prior(jax.random.key(seed), count)
        drawn = {name: np.asarray(values) for name, values in self.bound.constrain(positions).items()}
        return drawn if self.shown is None else self.shown(drawn)

    def _blocks(self, draws: Mapping[str, ndarray]):
        """Log-likelihoods (draws, units), some units at a time, float64."""
        check_not_forked()
        units = self._units
        function = units.model.densities.pointwise
        function = function.at(self.rule) if isinstance(function, Integrated) else function
        params = {name: jnp.asarray(values) for name, values in draws.items()}
        at_draws = jax.jit(jax.vmap(function, (0, None)))
        leaves = jax.tree.leaves(units.arrays)
        count = leaves[0].shape[0]
        size = max(1, AT_ONCE // max(1, len(next(iter(draws.values()), ()))))
        for start in range(0, count, size):
            rows = slice(start, start + size)
            block = jax.tree.map(lambda array, rows=rows: jnp.asarray(array[rows]), units.arrays)
            yield np.asarray(at_draws(params, block), np.float64)
