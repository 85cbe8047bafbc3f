"""Effects that vary by group in new rows, drawn given posterior draws of all other parameters.

Those of known groups are normal given the parameters: exactly for normal responses, with the
conditional means and covariances of the quadrature for others. Those of new groups are drawn from
the law of all groups, once for each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import warn
from evidentia.model.local import Integrated
from evidentia.regression.crossed import Crossed, each_of
from evidentia.regression.grouped import Grouped
from evidentia.regression.prepared import Prepared

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN = 3  # new groups that a warning names
ROUNDING = 1e-6  # of a covariance of local variables, whose prior has variance 1


@dataclass(frozen=True, eq=False)
class VaryingEffects:
    """What varies by group in the predictors of new rows.

    Attributes:
        asked: the regression's model and arrays.
        rule: of the quadrature that its evidence needed.
    """

    asked: Prepared
    rule: int = 0

    def of_rows(
        self, own: Mapping[str, ndarray], table: DataFrame, generator: np.random.Generator
    ) -> Float[ndarray, "draws rows"]:
        """Their sum over factors at posterior draws of the model's own parameters.

        Rows of groups that the regression does not know are counted in an EvidenceWarning.
        """
        assert self.asked.varying is not None
        total = np.zeros(())
        params = {name: jnp.asarray(values, jnp.float32) for name, values in own.items()}
        local = self._local(params, generator)
        for grouped in self.asked.varying.factors:
            half = self.asked.response.scale * grouped.at_zero
            roots = half @ np.asarray(jax.vmap(grouped.factor)(params), np.float64)
            if grouped.name in local:
                effects = local[grouped.name] @ np.swapaxes(roots, 1, 2)
            else:  # they are parameters
                effects = np.asarray(jax.vmap(grouped.effects)(params), np.float64) @ half.T
            codes, count = codes_of(grouped, table)
            noise = generator.standard_normal((len(effects), count, grouped.size))
            effects = np.concatenate([effects, noise @ np.swapaxes(roots, 1, 2)], axis=1)
            total = total + np.einsum("re,dre->dr", grouped.columns_of(table), effects[:, codes])
        return total

    def _local(self, params: Mapping[str, jax.Array], generator: np.random.Generator) -> dict[str, ndarray]:
        """Draws of the standardised effects u that are not parameters, by factor."""
        function, varying = self.asked.model.log_likelihood, self.asked.varying
        assert varying is not None
        if isinstance(function, Crossed):
            count = len(next(iter(params.values())))
            sizes = {one.name: (len(one.levels), one.size) for one in varying.factors}
            noise = {name: generator.standard_normal((count, *size)) for name, size in sizes.items()}
            given = function.given(self.asked.arrays)
            drawn = [given.drawn(*each) for each in zip(each_of(params), each_of(noise), strict=True)]
            return {name: np.stack([one[name] for one in drawn]) for name in sizes}
        assert isinstance(function, Integrated) and self.asked.packs is not None
        function, inner = function.at(self.rule), varying.inner
        arrays = {name: jnp.asarray(array) for name, array in self.asked.arrays.items()}
        found = jax.lax.map(lambda each: function.local_moments(each, arrays), dict(params))
        place = np.zeros(len(inner.levels), int)
        place[inner.codes] = self.asked.packs.group_of_row
        mean, covariance = (np.asarray(part, np.float64)[:, place] for part in found)
        root = np.linalg.cholesky(covariance + ROUNDING * np.eye(inner.size))
        return {inner.name: mean + np.einsum("dgab,dgb->dga", root, generator.standard_normal(mean.shape))}


def codes_of(grouped: Grouped, table: DataFrame) -> tuple[Int[ndarray, " rows"], int]:
    """The number of each row's group, and how many are new, numbered after those known."""
    import pandas as pd

    values: Any = table[list(grouped.by)].astype(object)
    if len(grouped.by) == 1:
        known, given = pd.Index(list(grouped.levels), dtype=object), pd.Index(values.iloc[:, 0])
    else:
        known, given = pd.MultiIndex.from_tuples(grouped.levels), pd.MultiIndex.from_frame(values)
    codes = known.get_indexer(given)
    new, names = pd.factorize(given[codes < 0])
    if len(names):
        listed = ", ".join(map(repr, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
        warn(
            [
                f"{len(new)} of {len(codes)} rows are of groups of {grouped.name!r} that the regression does not know ({listed}): "
                "their effects are drawn from the law of all groups."
            ]
        )
    codes[codes < 0] = len(known) + new
    return codes, len(names)
