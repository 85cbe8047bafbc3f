"""A log-likelihood of rows whose local variables are integrated out."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import ModelError
from evidentia.model.local import quadratic
from evidentia.model.local.mode import Locals, LogDensity, Matrices
from evidentia.model.local.packs import PRESENT, SIGNS
from evidentia.model.local.quadrature import (
    MOST_DIMENSIONS,
    Effects,
    Moments,
    Rule,
    local_moments,
    log_integral,
    moments,
    rule_of,
)
from evidentia.model.program import Observations, Params


@dataclass(frozen=True, eq=False)
class Integrated:
    """The pointwise log-likelihood log ∫ p(rows of g | θ, z) p(z | θ) dz.

    Attributes:
        conditional: `(params, rows) -> f`, where f(u) is the log-likelihood of each group given
            its local variables u, of shape (groups, size), that are standard normal a priori.
        effects: `(params, rows) -> g`, where g(u) has what the local variables stand for, by name,
            as results show it.
        size: the number of local variables of a group.
        groups: how many groups there can be, if the rows are packs of them (`packs.py`); None if
            each row of the data has local variables of its own.
        level: of the rule of quadrature.
        is_quadratic: whether all f are of second degree and all g linear, as with normal rows; no
            quadrature is needed then.

    Raises:
        ModelError: more local variables than can be integrated out.

    Source: as `quadrature`.
    """

    conditional: Callable[[Params, Observations], LogDensity]
    effects: Callable[[Params, Observations], Effects]
    size: int
    groups: int | None = None
    level: int = 0
    is_quadratic: bool = False

    def __post_init__(self) -> None:
        if self.size > MOST_DIMENSIONS:
            raise ModelError(
                f"there are {self.size} latent values in each row or group; at most {MOST_DIMENSIONS} are integrated out. "
                "Make them parameters like others: from_numpyro(..., pointwise=False)."
            )

    def at(self, level: int) -> "Integrated":
        """The same by another rule."""
        return replace(self, level=level)

    @property
    def _rule(self) -> Rule:
        return rule_of(self.size, self.level)

    def num_rows(self, arrays: Observations) -> int:
        """How many rows the data have, in packs or not."""
        is_packed = self.groups is not None
        return int(np.sum(arrays[PRESENT])) if is_packed else jax.tree.leaves(arrays)[0].shape[0]

    def moments(self, params: Params, rows: Observations) -> Moments:
        """Mean and variance of each group's effects given parameters and rows."""
        count, conditional, effects = (
            self.num_places(rows),
            self.conditional(params, rows),
            self.effects(params, rows),
        )
        if self.is_quadratic:
            return quadratic.moments(conditional, effects, count, self.size)
        return moments(conditional, effects, count, self._rule)

    def local_moments(self, params: Params, rows: Observations) -> tuple[Locals, Matrices]:
        """Mean and covariance of each group's local variables given parameters and rows."""
        count = self.num_places(rows)
        if self.is_quadratic:
            return quadratic.local_moments(self.conditional(params, rows), count, self.size)
        return local_moments(self.conditional(params, rows), count, self._rule)

    def __call__(self, params: Params, rows: Observations) -> Float[Array, " rows"]:
        """The log-likelihood of each row; of packs, with the signs of their groups."""
        count = self.num_places(rows)
        both = self.conditional(jax.lax.stop_gradient(params), rows), self.conditional(params, rows)
        if self.is_quadratic:
            values = quadratic.log_integral(*both, count, self.size)
        else:
            values = log_integral(*both, count, self._rule)
        return values if self.groups is None else jnp.sum(rows[SIGNS] * values.reshape(rows[SIGNS].shape), 1)

    def num_places(self, rows: Observations) -> int:
        """The number of groups, with the places in packs where none is."""
        return jax.tree.leaves(rows)[0].shape[0] if self.groups is None else rows[SIGNS].size
