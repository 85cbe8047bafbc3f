"""Effects that vary by group, such as (1 + x | g): normal around 0, with unknown deviations.

The effects of the factor with most levels are integrated out, group by group. Those of others,
nested or crossed, are parameters. With Λ = diag(sd) C, where C is the Cholesky factor of the
correlations, b = Λ u with u ~ N(0, 1); the parameters are u, or for Laplace's approximation b,
whose posterior is nearer to Gaussian where levels have many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpy import ndarray

from evidentia.errors import DataError
from evidentia.model.local import Integrated, in_packs
from evidentia.model.local.packs import Packs, packs_of
from evidentia.model.program import LogLikelihood
from evidentia.regression import crossed
from evidentia.regression.formula import Formula, Varying
from evidentia.regression.grouped import Grouped, grouped_of
from evidentia.regression.priors import check_replaced, scaled
from evidentia.regression.scaled_response import Response

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_PARAMETERS = 500  # effects of factors other than that with most levels


class RandomEffects(NamedTuple):
    """All that varies by group.

    Attributes:
        inner: the factor with most levels, whose effects are integrated out.
        outer: others, whose effects are parameters.
        is_gaussian: whether responses are.
        is_exact: whether those of others are integrated out, too (`crossed.py`).
    """

    inner: Grouped
    outer: tuple[Grouped, ...]
    is_gaussian: bool = False
    is_exact: bool = False

    @property
    def of_parameters(self) -> tuple[Grouped, ...]:
        """The factors whose effects are parameters."""
        return () if self.is_exact else self.outer

    @property
    def sd_names(self) -> tuple[str, ...]:
        """The parameters whose priors can be replaced."""
        return tuple(name for grouped in self.factors for name in grouped.sd_names)

    @property
    def factors(self) -> tuple[Grouped, ...]:
        """All of them."""
        return self.inner, *self.outer

    def priors(
        self, response: Response, replaced: Mapping[str, dist.Distribution]
    ) -> Iterator[tuple[str, Any]]:
        """Names and priors of the parameters; deviations are exponential with mean 1.

        Raises ConfigurationError for a replaced prior that is not one of one number.
        """
        for grouped in self.factors:
            for name, deviation in zip(grouped.sd_names, grouped.deviations, strict=True):
                if name in replaced:
                    check_replaced(name, replaced[name], [name], is_vector=False)
                factor = float(deviation) / response.scale
                yield name, scaled(replaced, name, factor, default=dist.Exponential(1.0))
            for name, place in grouped.correlations.items():
                yield name, dist.LKJCholesky(place.stop - place.start)
        for grouped in self.of_parameters:
            yield f"effects({grouped.name})", grouped.effects_prior

    def packed(self, rows: Mapping[str, ndarray]) -> tuple[dict[str, ndarray], Packs]:
        """Arrays of rows, with those of the random effects, in packs of groups."""
        packs = packs_of(self.inner.codes)
        own: dict[str, ndarray] = {"varying": self.inner.columns.astype(np.float32)}
        for index, grouped in enumerate(self.outer):
            own[f"varying_{index}"] = grouped.columns.astype(np.float32)
            own[f"group_{index}"] = grouped.codes.astype(np.int32)
        return packs.arrays({**rows, **own}), packs

    def log_likelihood(
        self,
        log_density: Callable[[jax.Array, Any, Any], jax.Array],
        fixed_predictor: Callable[[Any, Any], jax.Array],
    ) -> LogLikelihood:
        """The likelihood of packs of groups: that of rows, with what varies in the predictor.

        Args:
            log_density: `(predictor, params, rows) -> (rows,)`.
            fixed_predictor: `(params, rows) -> (rows,)`.
        """

        def conditional(params, rows):
            fixed = fixed_predictor(params, rows)
            for index, grouped in enumerate(self.outer):
                effects = grouped.effects(params)
                fixed = fixed + jnp.sum(rows[f"varying_{index}"] * effects[rows[f"group_{index}"]], axis=1)
            steps = rows["varying"] @ self.inner.factor(params)
            return lambda u: log_density(fixed + jnp.sum(steps * u, axis=1), params, rows)

        def effects(params, batch):
            factor = self.inner.at_zero @ self.inner.factor(params)
            return lambda u: dict(zip(self.inner.names, (u @ factor.T).T, strict=True))

        of_packs = in_packs(conditional)
        return Integrated(
            of_packs, effects, self.inner.size, len(self.inner.levels), is_quadratic=self.is_gaussian
        )

    def in_table_units(self, params: Mapping[str, ndarray], response: Response) -> dict[str, ndarray]:
        """Deviations, correlations, and the effects that are parameters, for the table's units.

        The intercept is that where all columns are 0.
        """
        found: dict[str, ndarray] = {}
        for grouped in self.factors:
            factors = np.asarray(jax.vmap(grouped.factor)(dict(params)), np.float64)
            half = response.scale * grouped.at_zero @ factors
            covariances = half @ np.swapaxes(half, 1, 2)
            sds = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
            found |= dict(zip(grouped.sd_names, sds.T, strict=True))
            for place in grouped.blocks:
                for i, j in combinations(range(place.start, place.stop), 2):
                    name = f"cor({grouped.names[i]},{grouped.names[j]}|{grouped.name})"
                    found[name] = covariances[:, i, j] / (sds[:, i] * sds[:, j])
        for grouped in self.of_parameters:
            effects = np.asarray(jax.vmap(grouped.effects)(dict(params)), np.float64)
            found[f"effects({grouped.name})"] = response.scale * effects @ grouped.at_zero.T
        return found


def random_effects_of(
    formula: Formula,
    table: DataFrame,
    *,
    is_gaussian: bool = False,
    is_centred: bool = False,
    is_eliminated: bool = False,
) -> RandomEffects:
    """What varies by group in a table; several factors are integrated out for Gaussian responses.

    Where `is_eliminated`, the effects of other factors are parameters of a method that eliminates
    them for its draws, and there may be as many.

    Raises:
        DataError: a factor with one level, an effect that does not vary, or more parameters than
            can be sampled.
    """
    by_factor: dict[str, list[Varying]] = {}
    for one in formula.varying:
        by_factor.setdefault(one.name, []).append(one)
    found = [grouped_of(terms, formula, table) for terms in by_factor.values()]
    found.sort(key=lambda one: -len(one.levels))
    inner, outer = found[0], tuple(found[1:])
    if is_gaussian and crossed.is_feasible(inner, outer):
        return RandomEffects(inner, outer, is_gaussian, is_exact=True)
    most = crossed.MOST_OTHER_EFFECTS if is_eliminated else MOST_PARAMETERS
    if sum(one.count for one in outer) > most:
        listed = ", ".join(f"{one.name} has {len(one.levels):,} levels" for one in outer)
        raise DataError(
            f"the effects of {inner.name} are integrated out, those of other factors are parameters, at most "
            f"{most:,} in all; {listed}. Leave one out, or make it coarser."
        )
    outer = tuple(one._replace(is_centred=is_centred) for one in outer)
    return RandomEffects(inner, outer, is_gaussian)
