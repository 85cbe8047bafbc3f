"""The coefficients of a regression whose posterior is weighted draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.display.summary_table import ENDS, Row
from evidentia.model.model import Model
from evidentia.posterior.summary import summarise
from evidentia.regression.formula import INTERCEPT
from evidentia.regression.zero_effects import UNKNOWN, Ratio, ZeroEffects, flat_columns
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths

BY_GROUP = "sd(", "cholesky(", "effects("  # how parameters of effects that vary begin


@dataclass(frozen=True, eq=False)
class SampledCoefficients:
    """The coefficients of a regression that was estimated.

    Attributes:
        names: of the columns.
        levels: the categories after the first, for coefficients with a number for each; else none.
        posterior: draws in the units of the table, with `log_weights`.
        zero: what their Bayes factors come from; None where these would take too long.
    """

    names: tuple[str, ...]
    levels: tuple[Any, ...]
    posterior: Mapping[str, ndarray]
    log_weights: Float[ndarray, " draws"]
    zero: ZeroEffects | None

    def rows(self) -> list[Row]:
        """As in `Coefficients`."""
        return self._rows(self._ratios)

    def known_rows(self) -> list[Row]:
        """As in `Coefficients`."""
        return self._rows(self.__dict__.get("_ratios", []))

    def _rows(self, ratios: list[Ratio]) -> list[Row]:
        """With the Bayes factors of the last coefficients; of all columns, or none."""
        shown = [name for name in (INTERCEPT, *self.names) if name in self.posterior]
        summaries = summarise({name: self.posterior[name] for name in shown}, self.log_weights, ENDS)
        labels = [f"{name}, {level}" for name in shown for level in self.levels] if self.levels else shown
        others = summarise(
            {name: draws for name, draws in self.posterior.items() if name not in shown and _is_shown(name)},
            self.log_weights,
            ENDS,
        )
        unknown = Ratio(np.nan, np.nan)
        ratios = [unknown] * (len(summaries) - len(ratios)) + ratios + [unknown] * len(others)
        labels += [one.name for one in others]
        return [
            Row(label, one.mean, one.standard_deviation, one.quantiles[0], one.quantiles[1], *ratio, one.mcse)
            for label, one, ratio in zip(labels, [*summaries, *others], ratios, strict=True)
        ]

    def log_factor_of(self, names: Collection[str]) -> Ratio:
        """The log Bayes factor of the formula against that without some columns, and its error.

        Both NaN where a column has a prior of its own.
        """
        if self.zero is None:
            return UNKNOWN
        free = [name for name in self.names if name not in self.zero.draws]
        if not set(names) <= set(free):
            return UNKNOWN
        return self.zero.joint_ratio([free.index(name) for name in names])

    def log_factor_of_groups(self) -> Ratio:
        """The log Bayes factor of the formula against that without effects by group.

        Both NaN unless one effect varies by one factor, and its values were integrated out.
        """
        own = [] if self.zero is None else [name for name in self.zero.draws if name.startswith(BY_GROUP)]
        if self.zero is None or len(own) != 1 or not own[0].startswith("sd("):
            return UNKNOWN
        return self.zero.ratio_without_deviation(own[0])

    @cached_property
    def _ratios(self) -> list[Ratio]:
        """In the order of the columns, and of the levels of each; none where they are unknown."""
        if self.zero is None:
            return []
        draws = self.zero.draws
        free = iter(())
        if "effects" in draws:
            free = flat_columns(self.zero.ratios("effects"), draws["effects"].shape[1:])
        found = [self.zero.ratios(name) if name in draws else next(free) for name in self.names]
        return [one for column in found for one in column]


def _is_shown(name: str) -> bool:
    """Whether a parameter is neither an effect of one group nor another form of the cutpoints."""
    return name != "probabilities" and not name.startswith("effects(")


def coefficients_of(
    model: Model,
    arrays: Any,
    own: Evidence,
    found: Evidence,
    names: tuple[str, ...],
    levels: tuple[Any, ...],
    *,
    is_quick: bool = True,
) -> SampledCoefficients | None:
    """The coefficients of a result.

    Args:
        model: of the regression, in units of its own.
        arrays: its data, as `ZeroEffects` takes them.
        own: the result in the model's units.
        found: the same in the table's.
        names: of the columns.
        levels: the categories after the first, if coefficients have a number for each.
        is_quick: whether the likelihood can be evaluated thousands of times.
    """
    if not isinstance(own.widths, ModelWidths):
        return None
    zero = ZeroEffects(
        model,
        arrays,
        own.widths.model,
        own.widths.draws,
        own.weighted.log_weights,
        own.log_evidence,
        own.standard_error,
        own.seed,
    )
    return SampledCoefficients(
        names, levels, found.weighted, found.weighted.log_weights, zero if is_quick else None
    )
