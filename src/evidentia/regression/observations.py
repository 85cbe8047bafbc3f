"""Hashes of a response, by which `compare` knows regressions on the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidentia.regression.formula import Formula
from evidentia.regression.table import hash_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def hashes_of(formula: Formula, table: DataFrame, response: Series) -> dict[str, int]:
    """Of the columns left of "~" and, if they are transformed, of the response itself.

    `price` and `log(price)` thus share the first, and a model of one's own with the array
    `log(price)` shares the second. Those of parts of a table add up to that of the whole.
    """
    columns = formula.response_variables
    known = {", ".join(columns): hash_of(table.loc[:, columns])}
    if formula.observed not in known:
        known[formula.observed] = hash_of(response.to_frame())
    return known
