"""What varies by the groups of one factor: its levels, columns and deviations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import DataError
from evidentia.regression.design import learn
from evidentia.regression.formula import INTERCEPT, Formula, Varying

if TYPE_CHECKING:
    from pandas import DataFrame


class Grouped(NamedTuple):
    """What varies by a factor, in a table.

    Attributes:
        name: of the factor.
        levels: its names of groups.
        codes: of each row, the number of its group.
        names, deviations: of the columns whose effects vary; the intercept's deviation is 1.
        columns: standardised.
        is_centred: whether effects that are parameters are so themselves; otherwise, as multiples
            of their deviations.
    """

    name: str
    levels: tuple[Any, ...]
    codes: Int[ndarray, " rows"]
    names: tuple[str, ...]
    deviations: Float[ndarray, " effects"]
    columns: Float[ndarray, "rows effects"]
    is_centred: bool = False

    @property
    def size(self) -> int:
        """The number of effects of a group."""
        return len(self.names)

    @property
    def count(self) -> int:
        """The number of effects of all levels."""
        return len(self.levels) * self.size

    @property
    def sd_names(self) -> tuple[str, ...]:
        """The parameters that are standard deviations."""
        return tuple(f"sd({name}|{self.name})" for name in self.names)

    def factor(self, params: Mapping[str, Any]) -> jax.Array:
        """Λ, for the units of the model."""
        sds = jnp.stack([params[name] for name in self.sd_names])
        correlated = f"cholesky({self.name})"
        return jnp.diag(sds) @ params[correlated] if correlated in params else jnp.diag(sds)

    @property
    def effects_prior(self) -> Any:
        """The prior of effects that are parameters."""
        count = len(self.levels)
        if not self.is_centred:
            return dist.Normal(0.0, 1.0).expand((count, self.size)).to_event(2)

        def given(params: Mapping[str, Any]) -> dist.Distribution:
            law = dist.MultivariateNormal(jnp.zeros(self.size), scale_tril=self.factor(params))
            return law.expand((count,)).to_event(1)

        return given

    def effects(self, params: Mapping[str, Any]) -> jax.Array:
        """Effects that are parameters, (levels, effects)."""
        given = params[f"effects({self.name})"]
        return given if self.is_centred else given @ self.factor(params).T


def grouped_of(varying: Varying, formula: Formula, table: DataFrame) -> Grouped:
    """What varies by a factor, in a table.

    Raises:
        DataError: one level only, or an effect that does not vary.
    """
    groups = table[list(varying.columns)]
    codes = groups.groupby(list(varying.columns), observed=True).ngroup().to_numpy()
    first = np.unique(codes, return_index=True)[1]
    named = list(groups.iloc[first].itertuples(index=False, name=None))
    levels = tuple(one[0] for one in named) if len(varying.columns) == 1 else tuple(named)
    if len(levels) < 2:
        raise DataError(f"{varying.name!r} has one level in the rows used: effects cannot vary by it.")
    names = (INTERCEPT,) if varying.has_intercept else ()
    columns, deviations = np.ones((len(table), len(names))), np.ones(len(names))
    if varying.terms:
        design = learn(varying.formula(formula), varying.terms, table)
        slopes = design.columns(table)
        means = slopes.mean(axis=0) if varying.has_intercept else np.zeros(slopes.shape[1])
        widths = np.sqrt(np.mean((slopes - means) ** 2, axis=0))
        if flat := [name for name, width in zip(design.names, widths, strict=True) if width == 0]:
            raise DataError(f"{flat[0]!r} has the same value in all rows used: its effect cannot vary.")
        names = (*names, *design.names)
        columns = np.column_stack([columns, (slopes - means) / widths])
        deviations = np.append(deviations, widths)
    return Grouped(varying.name, levels, codes, names, deviations, columns)
