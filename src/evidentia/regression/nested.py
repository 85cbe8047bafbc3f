"""A formula by the compiled program of a larger one, whose other columns are zero.

Their effects leave the likelihood, and their prior, which is independent of the others, integrates
to one. Compilation takes most of the time of a small table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.errors import quietly
from evidentia.model.model import Model
from evidentia.posterior.units import bound_to
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.prepared import Prepared
from evidentia.regression.regression import Regression, Run
from evidentia.regression.streamed import Streamed
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths


@dataclass(frozen=True)
class Nested:
    """A regression whose columns are among those of a larger one, whose program it uses.

    The evidence is that of the regression alone.
    """

    regression: Regression
    larger: Regression

    def __repr__(self) -> str:
        return repr(self.regression)

    def answer(self, data: Any, method: Any, seed: int, run: Run) -> Evidence:
        """As `Regression.answer`."""
        table, rows = self.larger.rows_of(data), self.regression.rows_of(data)
        if isinstance(table, Streamed) or isinstance(rows, Streamed) or len(table) != len(rows):
            return self.regression.answer(data, method, seed, run)
        with quietly():  # the regression itself warns
            frame, own = (frame_of(parse(one.formula), table) for one in (self.larger, self.regression))
        if not set(own.names) <= set(frame.names):
            return self.regression.answer(data, method, seed, run)
        larger = self.larger.prepared(frame, table, method)
        places = [frame.names.index(name) for name in own.names]
        if "levels" in larger.arrays or (larger.varying is not None and larger.varying.of_parameters):
            return self.regression.answer(data, method, seed, run)
        return self.regression.answer(data, method, seed, partial(_run_within, run, larger, places))


def nested(regression: Regression, others: Iterable[Regression]) -> Regression | Nested:
    """The regression, within the largest of the others that has all its terms and more."""
    if regression.is_exact or regression.prior == "unit-information" or regression.priors:
        return regression
    own = parse(regression.formula)
    larger = [
        one
        for one in others
        if set(parse(one.formula).terms) > set(own.terms)
        and replace(parse(one.formula), text="", terms=()) == replace(own, text="", terms=())
        and replace(one, formula="y ~ 1") == replace(regression, formula="y ~ 1")
    ]
    if not larger:
        return regression
    return Nested(regression, max(larger, key=lambda one: len(parse(one.formula).terms)))


def _run_within(
    run: Run, larger: Prepared, places: list[int], model: Model, arrays: Mapping[str, ndarray], **options: Any
) -> Evidence:
    """The result of a model and its arrays, with its columns at places of the larger one's."""
    columns = np.zeros_like(larger.arrays["x"])
    if places:
        columns[..., places] = arrays["x"]
    found = run(larger.model, {**larger.arrays, "x": columns}, **options)
    own, data = bound_to(model, dict(arrays)).model, dict(arrays)
    known, widths = found.weighted.model, found.widths
    if known is not None:
        known = replace(known, bound=own, draws=_with_effects(known.draws, places), model=model, data=data)
    if isinstance(widths, ModelWidths):
        widths = replace(widths, model=own, draws=_with_effects(widths.draws, places))
    parameters = _with_effects(found.weighted, places)
    weighted = replace(found.weighted, parameters=parameters, known={}, model=known)
    return replace(found, weighted=weighted, widths=widths)


def _with_effects(params: Mapping[str, ndarray], places: list[int]) -> dict[str, ndarray]:
    """Parameters with the effects at some places, or without effects."""
    kept = {name: values for name, values in params.items() if name != "effects"}
    return {**kept, "effects": params["effects"][..., places]} if places else kept
