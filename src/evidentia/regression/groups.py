"""The groups of a regression, for `ev.group_effects`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from evidentia.errors import ConfigurationError, quietly
from evidentia.model.local import Integrated
from evidentia.regression.crossed import Crossed, each_of
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.grouped import Grouped
from evidentia.regression.prepared import Prepared
from evidentia.regression.regression import Regression
from evidentia.regression.streamed import Streamed
from evidentia.results.local_effects import (
    Block,
    Groups,
    blocks_of,
    by_its_rule,
    check_data_of,
    chosen_draws,
    mean_and_deviation,
)
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths


def groups_of_regression(
    regression: Regression, evidence: Evidence, table: Any, factor: str | None
) -> Groups:
    """The groups of one factor of a regression.

    Raises:
        ConfigurationError: a regression without effects that vary by group, a factor that it does
            not have, or a result that was loaded, or of another regression or table.
    """
    parsed = parse(regression.formula)
    if not parsed.varying:
        raise ConfigurationError(f"model must have effects that vary by group; got {regression!r}.")
    if not isinstance(evidence.widths, ModelWidths) or evidence.model_name != regression.formula:
        raise ConfigurationError(
            f"evidence must be of {regression!r}, estimated in this process; got that of {evidence.model_name!r}."
        )
    rows = regression.rows_of(table)
    rows = rows.in_memory() if isinstance(rows, Streamed) else rows
    with quietly():
        frame = frame_of(parsed, rows)
    check_data_of(evidence, frame.fingerprints)
    asked = regression.prepared(frame, rows, evidence.method)
    assert asked.varying is not None
    assert isinstance(asked.model.prior, Mapping)
    if asked.model.prior.keys() != evidence.widths.draws.keys():
        raise ConfigurationError(
            f"evidence must be of {regression!r}; it has the parameters of another model."
        )
    factors = {one.name: one for one in asked.varying.factors}
    if factor is not None and factor not in factors:
        raise ConfigurationError(f"factor must be one of {', '.join(factors)}; got {factor!r}.")
    grouped = asked.varying.inner if factor is None else factors[factor]
    return Groups(grouped.name, grouped.levels, _blocks(asked, evidence, evidence.widths, grouped))


def _blocks(asked: Prepared, evidence: Evidence, widths: ModelWidths, grouped: Grouped) -> Iterator[Block]:
    assert asked.varying is not None
    function = asked.model.log_likelihood
    every = np.arange(len(grouped.levels))
    if not asked.varying.is_exact and grouped is not asked.varying.inner:  # its effects are parameters
        shares = np.exp(evidence.weighted.log_weights)
        draws = evidence.weighted[f"effects({grouped.name})"]
        mean = np.tensordot(shares, draws, 1)
        deviation = np.sqrt(np.tensordot(shares, (draws - mean) ** 2, 1))
        yield Block(every, {name: (mean[:, i], deviation[:, i]) for i, name in enumerate(grouped.names)})
        return
    draws = chosen_draws(widths.draws, evidence)
    if isinstance(function, Crossed):
        given = function.given(asked.arrays)
        of_draws = [given.moments(one)[grouped.name] for one in each_of(draws)]
        by_draw: Any = {
            name: tuple(np.stack(part) for part in zip(*(one[name] for one in of_draws), strict=True))
            for name in grouped.names
        }
        found = [(every, mean_and_deviation(by_draw))]
    else:
        assert asked.packs is not None and isinstance(function, Integrated)
        place = np.zeros(len(every), int)
        place[grouped.codes] = asked.packs.group_of_row
        found = blocks_of(by_its_rule(function, evidence), asked.arrays, draws, place)
    scale = asked.response.scale
    for levels, effects in found:  # whose names JAX has sorted
        pairs = ((name, effects[name]) for name in grouped.names)
        yield Block(levels, {name: (mean * scale, deviation * scale) for name, (mean, deviation) in pairs})
