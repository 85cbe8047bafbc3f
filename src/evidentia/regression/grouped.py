"""What varies by the groups of one factor: its levels, columns and deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import block_diag
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import DataError
from evidentia.regression.design import Design, learn
from evidentia.regression.formula import INTERCEPT, Formula, Varying
from evidentia.regression.plain import labels

if TYPE_CHECKING:
    from pandas import DataFrame


class Part(NamedTuple):
    """One term: whether its intercept varies, and the design of its slopes, if it has some."""

    has_intercept: bool
    design: Design | None

    def columns(self, table: DataFrame) -> Float[ndarray, "rows effects"]:
        """The columns of any rows, as they are in the table."""
        ones = np.ones((len(table), int(self.has_intercept)))
        return ones if self.design is None else np.column_stack([ones, self.design.columns(table)])


class Grouped(NamedTuple):
    """What varies by a factor, in a table.

    Attributes:
        name: of the factor.
        levels: its names of groups.
        codes: of each row, the number of its group.
        names: of the columns whose effects vary.
        means, deviations: of these columns, by which they are standardised; 0 and 1 for the
            intercept. A mean is 0 unless the intercept varies in the same term.
        columns: standardised.
        blocks: the places of the effects of each term, which are correlated; those of different
            terms, as in (1 | g) + (0 + x | g), are not.
        parts: what makes the columns of other rows, of each term.
        by: the columns of the table whose values make a group.
        is_centred: whether effects that are parameters are so themselves; otherwise, as multiples
            of their deviations.
    """

    name: str
    levels: tuple[Any, ...]
    codes: Int[ndarray, " rows"]
    names: tuple[str, ...]
    means: Float[ndarray, " effects"]
    deviations: Float[ndarray, " effects"]
    columns: Float[ndarray, "rows effects"]
    blocks: tuple[slice, ...]
    parts: tuple[Part, ...]
    by: tuple[str, ...]
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

    @property
    def correlations(self) -> dict[str, slice]:
        """The parameters that are Cholesky factors of correlations, and the effects of each."""
        several = [place for place in self.blocks if place.stop - place.start > 1]
        if len(self.blocks) == 1:
            return {f"cholesky({self.name})": place for place in several}
        return {f"cholesky({','.join(self.names[place])}|{self.name})": place for place in several}

    @property
    def at_zero(self) -> Float[ndarray, "effects effects"]:
        """The matrix that makes effects of the columns as they are of those of standardised ones.

        The slopes become those of one unit, and the intercept that where all columns are 0, which
        is where the `Intercept` of the regression is.
        """
        found = np.diag(1 / self.deviations)
        if INTERCEPT in self.names:
            found[self.names.index(INTERCEPT)] -= self.means / self.deviations
        return found

    def factor(self, params: Mapping[str, Any]) -> jax.Array:
        """Λ, for the units of the model."""
        sds = jnp.stack([params[name] for name in self.sd_names])
        if not self.correlations:
            return jnp.diag(sds)
        name_of = {place.start: name for name, place in self.correlations.items()}
        parts = (
            params[name_of[place.start]] if place.start in name_of else jnp.eye(1) for place in self.blocks
        )
        return sds[:, None] * block_diag(*parts)

    def columns_of(self, table: DataFrame) -> Float[ndarray, "rows effects"]:
        """The columns of other rows, which are not standardised."""
        return np.concatenate([part.columns(table) for part in self.parts], axis=1)

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


def grouped_of(terms: Sequence[Varying], formula: Formula, table: DataFrame) -> Grouped:
    """What varies by a factor, in a table; `terms` are all those of the factor.

    Raises:
        DataError: one level only, or an effect that does not vary.
    """
    name, by = terms[0].name, list(terms[0].columns)
    groups = table[by].apply(lambda column: labels(str(column.name), column))
    codes = groups.groupby(by, observed=True).ngroup().to_numpy()
    first = np.unique(codes, return_index=True)[1]
    named = list(groups.iloc[first].itertuples(index=False, name=None))
    levels = tuple(one[0] for one in named) if len(by) == 1 else tuple(named)
    if len(levels) < 2:
        raise DataError(f"{name!r} has one level in the rows used: effects cannot vary by it.")
    parts = [_columns_of(one, formula, table) for one in terms]
    ends = np.cumsum([len(one.names) for one in parts]).tolist()
    return Grouped(
        name,
        levels,
        codes,
        tuple(name for one in parts for name in one.names),
        np.concatenate([one.means for one in parts]),
        np.concatenate([one.deviations for one in parts]),
        np.concatenate([one.columns for one in parts], axis=1),
        tuple(slice(end - len(one.names), end) for one, end in zip(parts, ends, strict=True)),
        tuple(one.part for one in parts),
        tuple(by),
    )


class _Columns(NamedTuple):
    """Standardised columns of one term."""

    names: tuple[str, ...]
    means: Float[ndarray, " effects"]
    deviations: Float[ndarray, " effects"]
    columns: Float[ndarray, "rows effects"]
    part: Part


def _columns_of(term: Varying, formula: Formula, table: DataFrame) -> _Columns:
    names = (INTERCEPT,) if term.has_intercept else ()
    count = len(names)
    part = Part(term.has_intercept, None)
    found = _Columns(names, np.zeros(count), np.ones(count), part.columns(table), part)
    if not term.terms:
        return found
    design = learn(term.formula(formula), term.terms, table)
    slopes = design.columns(table)
    means = slopes.mean(axis=0) if term.has_intercept else np.zeros(slopes.shape[1])
    widths = np.sqrt(np.mean((slopes - means) ** 2, axis=0))
    if flat := [name for name, width in zip(design.names, widths, strict=True) if width == 0]:
        raise DataError(f"{flat[0]!r} has the same value in all rows used: its effect cannot vary.")
    return _Columns(
        (*names, *design.names),
        np.append(found.means, means),
        np.append(found.deviations, widths),
        np.column_stack([found.columns, (slopes - means) / widths]),
        part._replace(design=design),
    )
