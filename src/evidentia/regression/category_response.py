"""Responses that are categories: their levels, found over all rows, and codes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from evidentia.errors import DataError
from evidentia.regression.families import MEANS
from evidentia.regression.scaled_response import LeftSide, Response, Wanted

if TYPE_CHECKING:
    from pandas import Series

MOST_LEVELS = 1000


class Seen(NamedTuple):
    """What is known of some rows.

    Attributes:
        counts: of each category, in their order, of those that do not occur too.
        kind: whether a Categorical says the order: "ordered" or "unordered"; "numbers" or "text"
            of other values.
        without_effects: the sum of a binary response's information where all effects are 0.
    """

    counts: Counter[Any]
    kind: str
    without_effects: float


def seen(rows: LeftSide, wanted: Wanted) -> Seen:
    """The categories of some rows."""
    from pandas import CategoricalDtype

    column = rows.column
    if isinstance(column.dtype, CategoricalDtype):
        counts = column.value_counts(sort=False).reindex(column.cat.categories).to_dict()
        kind = "ordered" if column.cat.ordered else "unordered"
    else:
        values, numbers = np.unique(column.to_numpy(), return_counts=True)
        counts, kind = dict(zip(values.tolist(), numbers, strict=True)), "text"
        kind = "numbers" if values.dtype.kind in "fiub" else "text"
    information = 0.0
    if wanted.family.kind == "binary":
        share = MEANS[wanted.family.link](rows.offset)
        information = float(np.sum(share * (1 - share)))
    return Seen(Counter({level: int(number) for level, number in counts.items()}), kind, information)


def merged(first: Seen, second: Seen) -> Seen:
    """Of two blocks of rows together."""
    counts = Counter(first.counts)
    counts.update(second.counts)
    return first._replace(counts=counts, without_effects=first.without_effects + second.without_effects)


def learnt(found: Seen, wanted: Wanted) -> Response:
    """The response without arrays.

    Raises:
        DataError: too few or too many categories, or those of an ordered response without an
            order.
    """
    counts, family, name = found.counts, wanted.family, wanted.name
    levels = tuple(level for level, number in counts.items() if number)
    if found.kind in ("numbers", "text"):
        levels = tuple(sorted(levels))
        if family.kind == "binary" and set(levels) < {0, 1}:  # one of them is absent
            levels = (0, 1)
    if family.kind == "ordered" and found.kind not in ("ordered", "numbers"):
        raise DataError(
            f"the response {name} has categories without an order ({_listed(levels)}). Make it an ordered pandas "
            "Categorical, or numbers."
        )
    if family.kind == "binary":
        if len(levels) != 2:
            raise DataError(
                f"the response {name} must have two values for this family; it has {len(levels)}: {_listed(levels)}."
            )
        total = counts.total()
        share = counts[levels[1]] / total
        information = share * (1 - share) if wanted.has_intercept else found.without_effects / total
        return Response({}, levels=levels, information=float(information))
    if not 2 <= len(levels) <= MOST_LEVELS:
        raise DataError(
            f"the response {name} must have 2 to {MOST_LEVELS:,} categories; it has {len(levels):,}: {_listed(levels)}."
        )
    return Response({}, levels=levels)


def arrays(rows: LeftSide, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    """`y`, the place of each row's category."""
    kind = np.float32 if wanted.family.kind == "binary" else np.int32
    return {"y": _codes(rows.column, response.levels).astype(kind)}


def _codes(column: Series, levels: tuple[Any, ...]) -> ndarray:
    from pandas import CategoricalDtype

    if isinstance(column.dtype, CategoricalDtype):
        return column.cat.set_categories(levels).cat.codes.to_numpy()
    return np.searchsorted(np.asarray(levels), column.to_numpy())


def _listed(levels: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, levels[:5])) + (", …" if len(levels) > 5 else "")
