"""Fingerprints of a response, by which `compare` knows regressions on the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidentia.regression.formula import Formula
from evidentia.regression.table import fingerprint

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def fingerprints_of(formula: Formula, table: DataFrame, response: Series) -> dict[str, str]:
    """Of the columns left of "~" and, if they are transformed, of the response itself.

    `price` and `log(price)` thus share the first, and a model of one's own with the array
    `log(price)` shares the second.
    """
    columns = formula.response_variables
    known = {", ".join(columns): fingerprint(table.loc[:, columns])}
    if formula.response not in known:
        known[formula.response] = fingerprint(response.to_frame())
    return known
