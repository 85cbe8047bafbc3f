"""Priors of other widths by scaled columns.

Effects with a prior f times as wide are those of columns times f with the prior as it is. The
program is the same, whose compilation takes most of the time of a small table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.model.width import Change
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths


def with_scaled_columns(
    evidence: Evidence, arrays: Any, run: Callable[[dict[str, ndarray]], Evidence]
) -> Evidence:
    """The result with new runs for other widths of the effects' prior by scaled columns.

    Args:
        evidence: in the model's units.
        arrays: of the model; an engine's are not scaled.
        run: the estimate of the model with other arrays.
    """
    widths = evidence.widths
    is_here = isinstance(arrays, Mapping) and "x" in arrays and "levels" not in arrays
    if not isinstance(widths, ModelWidths) or not is_here:
        return evidence
    otherwise = widths.new_run

    def change(factor: float, parameters: tuple[str, ...]) -> Change:
        if parameters != ("effects",) and otherwise is not None:
            return otherwise(factor, parameters)
        other = run({**arrays, "x": arrays["x"] * np.float32(factor)})
        error = math.hypot(other.standard_error, evidence.standard_error)
        return Change(other.log_evidence - evidence.log_evidence, error, is_new_run=True)

    return replace(evidence, widths=replace(widths, new_run=change))
