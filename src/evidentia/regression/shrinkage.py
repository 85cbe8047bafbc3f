"""The effects of each group: posterior means and deviations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.errors import ConfigurationError
from evidentia.model.local import Integrated
from evidentia.posterior.reweighting import ModelWidths
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.regression import Regression
from evidentia.regression.streamed import Streamed, rows_of
from evidentia.result import Evidence

if TYPE_CHECKING:
    from pandas import DataFrame

NUM_DRAWS = 32  # of the parameters
AT_ONCE = 4096  # packs of groups


def group_effects(regression: Regression, evidence: Evidence, table: Any) -> DataFrame:
    """What each group adds to the effects of a regression, shrunk as its rows are few.

    The effects that were integrated out are found again at posterior draws of the parameters, and
    averaged over them.

    Args:
        regression: with effects that vary by group.
        evidence: of this regression and table, from `estimate` in this process.
        table: as given to `estimate`.

    Returns:
        A data frame with one row for each group of the factor with most levels: its index are the
        groups, and for each effect there are two columns, its posterior mean and, with " (sd)",
        its standard deviation, in units of the table.

    Raises:
        ConfigurationError: a regression without such effects, or a result that was loaded, or of
            another regression.

    Example:
        >>> intercepts = ev.Regression("y ~ x + (1 | g)", family="poisson")  # doctest: +SKIP
        >>> evidence = ev.estimate(intercepts, table)  # doctest: +SKIP
        >>> ev.group_effects(intercepts, evidence, table)  # doctest: +SKIP
    """
    from pandas import DataFrame, Index

    parsed = parse(regression.formula)
    if not parsed.varying:
        raise ConfigurationError(f"regression must have effects that vary by group; got {regression!r}.")
    widths = evidence.widths
    if not isinstance(widths, ModelWidths) or evidence.model_name != regression.formula:
        raise ConfigurationError(
            f"evidence must be of {regression!r}, estimated in this process; got that of {evidence.model_name!r}."
        )
    rows = rows_of(table, parsed.variables, regression.missing)
    rows = rows.in_memory() if isinstance(rows, Streamed) else rows
    asked = regression.prepared(frame_of(parsed, rows), rows)
    assert asked.varying is not None and asked.packs is not None
    inner, function = asked.varying.inner, asked.model.log_likelihood
    assert isinstance(function, Integrated)
    shares = np.exp(evidence.log_weights)
    chosen = np.random.default_rng(evidence.seed).choice(len(shares), NUM_DRAWS, p=shares / shares.sum())
    draws = {name: jnp.asarray(values[chosen]) for name, values in widths.draws.items()}

    @jax.jit
    def at(batch, draws):
        def one(params):
            mean, square = function.moments(params, batch)
            factor = inner.factor(params)
            return mean @ factor.T, jnp.einsum("ij,gjk,ik->gi", factor, square, factor)

        return jax.tree.map(partial(jnp.mean, axis=0), jax.lax.map(one, draws))

    count = asked.packs.shape[0]
    blocks = [slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE)]
    found = [at({name: array[block] for name, array in asked.arrays.items()}, draws) for block in blocks]
    mean, square = (np.concatenate(part).astype(np.float64) for part in zip(*found, strict=True))
    place = np.zeros(len(inner.levels), int)
    place[inner.codes] = asked.packs.group_of_row
    units = asked.response.scale / inner.deviations
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    columns = {}
    for index, name in enumerate(inner.names):
        columns[name] = mean[place, index] * units[index]
        columns[f"{name} (sd)"] = deviation[place, index] * units[index]
    return DataFrame(columns, index=Index(inner.levels, name=inner.name, tupleize_cols=False))
