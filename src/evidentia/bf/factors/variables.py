"""The variables of an ANOVA's formula, and the sets of terms that its models have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evidentia.errors import ConfigurationError
from evidentia.regression.per_term.blocks import (
    Coded,
    Design,
    Scales,
    coded_covariate,
    coded_factor,
    design_of,
)
from evidentia.regression.quoting import factors_of
from evidentia.regression.text_columns import looks_numeric

FEW_VALUES = 6  # of a covariate that may be a factor


def variables_of(terms: Sequence[str], table: Any, random: Sequence[str], scales: Scales) -> Design:
    """The design of a formula's terms.

    Args:
        terms: columns, and interactions such as "a:b".
        table: a data frame without missing values.
        random: columns whose effects are random.
        scales: of the priors.

    Raises:
        ConfigurationError: a term that is no column, or random columns that the formula lacks.
        DataError: a factor with one level.
    """
    parts = {term: tuple(map(_column, factors_of(term))) for term in terms}
    variables = list(dict.fromkeys(name for names in parts.values() for name in names))
    factors = {*random, *_marked(terms)}
    missing = [name for name in variables if name not in table.columns]
    if missing:
        raise ConfigurationError(
            f"terms of an ANOVA must be columns of the table, joined by :; got {missing[0]!r}. The table has "
            f"{', '.join(map(str, table.columns))}."
        )
    unknown = [name for name in random if name not in variables]
    if unknown:
        raise ConfigurationError(f"random must name columns of the formula; {unknown[0]!r} is not in it.")
    coded = {
        name: _coded(name, table[name], is_random=name in random, is_factor=name in factors)
        for name in variables
    }
    return design_of(parts, coded, random, scales)


def notes_on(terms: Sequence[str], random: Sequence[str], table: Any) -> list[str]:
    """On columns that may be meant as something else than they are, and on levels with one row."""
    from pandas import factorize
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    factors = {*random, *_marked(terms)}
    named = {_column(part) for term in terms for part in factors_of(term)}
    notes = []
    for name in (name for name in table.columns if name in named):
        column = table[name]
        codes, levels = factorize(column)
        if name in factors or not is_numeric_dtype(column) or is_bool_dtype(column):
            notes += _on_single_rows(name, list(levels[np.bincount(codes) == 1]), len(levels))
            if name not in factors and len(levels) > FEW_VALUES and looks_numeric(column):
                notes.append(
                    f"{name} is a factor, as it holds text; convert it to numbers if it is a covariate."
                )
        elif len(levels) <= FEW_VALUES:
            notes.append(
                f"{name} is a covariate, as it holds numbers ({len(levels)} values); as a factor it is C({name})."
            )
    return notes


def _on_single_rows(name: str, single: list[Any], count: int) -> list[str]:
    if len(single) == 1:
        return [
            f"The level '{single[0]}' of {name} has one row, on which its effect rests: is it a misprint?"
        ]
    if len(single):
        return [
            f"{len(single):,} of the {count:,} levels of {name} have one row each, such as '{single[0]}'."
        ]
    return []


def models_of(fixed: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """All sets of terms in which an interaction comes with the terms it is made of.

    At most one more than `most`: the number may double with each term.
    """
    parts = {term: frozenset(term.split(":")) for term in fixed}
    below = {term: {other for other in fixed if parts[other] < parts[term]} for term in fixed}
    found = {frozenset[str](): None}
    growing = [frozenset[str]()]
    while growing and len(found) <= most:
        have = growing.pop(0)
        for term in fixed:
            grown = have | {term}
            if below[term] <= have and grown not in found:
                found[grown] = None
                growing.append(grown)
    return [tuple(term for term in fixed if term in chosen) for chosen in found]


def top_down(fixed: Sequence[str]) -> list[tuple[str, ...]]:
    """The full model, those that lack one term, and the one without any."""
    lacking = [tuple(other for other in fixed if other != term) for term in fixed]
    return list(dict.fromkeys([(), *lacking, tuple(fixed)]))


def _marked(terms: Sequence[str]) -> set[str]:
    """The columns that are categories written as numbers."""
    parts = (part for term in terms for part in factors_of(term))
    return {_column(part) for part in parts if part.startswith("C(")}


def _column(part: str) -> str:
    """The column of a part of a term, which may be C(x), or within backticks."""
    inner = part[2:-1] if part.startswith("C(") and part.endswith(")") else part
    return inner.strip("`")


def _coded(name: str, column: Any, *, is_random: bool, is_factor: bool) -> Coded:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column) and not is_bool_dtype(column) and not is_factor:
        return coded_covariate(name, np.asarray(column, float))
    return coded_factor(name, column, is_random=is_random)
