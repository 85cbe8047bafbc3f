"""`Summary`: the parameters of a result, or the coefficients of a formula with Bayes factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.display import text, words
from evidentia.errors import unknown_name

if TYPE_CHECKING:
    from pandas import DataFrame

ENDS = 0.025, 0.975  # of the intervals


class Row(NamedTuple):
    """One coefficient or parameter.

    Attributes:
        name: of the column, or of the parameter.
        mean, standard_deviation, low, high: of its posterior; the ends are those of `ENDS`.
        log_bayes_factor: of the model against the same without it, in nats; NaN if there is none.
        error: the standard error of `log_bayes_factor`; NaN if unknown.
        mcse: the Monte Carlo standard error of the mean; 0 if it is exact.
    """

    name: str
    mean: float
    standard_deviation: float
    low: float
    high: float
    log_bayes_factor: float = math.nan
    error: float = math.nan
    mcse: float = 0.0


@runtime_checkable
class Coefficients(Protocol):
    """The coefficients of a formula, and its other parameters."""

    def rows(self) -> list[Row]:
        """The intercept, if there is one, the columns in their order, then other parameters."""
        ...

    def known_rows(self) -> list[Row]:
        """The same, without Bayes factors that would have to be computed."""
        ...


@dataclass(frozen=True)
class KnownCoefficients:
    """Rows that were read from a file, or are those of a copy."""

    known: tuple[Row, ...]

    def rows(self) -> list[Row]:
        """As in `Coefficients`."""
        return list(self.known)

    known_rows = rows


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Parameters of a posterior, one in each row; columns are arrays.

    Attributes:
        model_name: name of the model.
        names: of a formula's coefficients as in R, then of its other parameters, such as `scale`
            and the deviations of groups; of other models all scalar parameters.
        mean: posterior means.
        standard_deviation: posterior standard deviations.
        low: the 2.5% quantile: the lower end of the central 95% interval.
        high: the 97.5% quantile.
        log_bayes_factor: of the formula against the same without this column, in nats. NaN for the
            intercept and parameters that are no coefficients, for models without a formula, and
            for loaded results whose factors were not computed before they were saved.
        log_bayes_factor_error: its standard error in nats; 0 if it is exact, NaN if unknown.
        mcse: Monte Carlo standard errors of the means, from the weights; 0 for exact ones.
        left_out: columns that others determine, each with its sum; empty if there are none.

    Example:
        >>> evidence.summary()  # doctest: +SKIP
        coefficient    mean      sd    95% interval     BF10     evidence
        Intercept     16.21   7.137    2.333, 30.53
        complaints   0.7271  0.1052  0.5159, 0.9316  417,939  extreme for
        scale          7.32   1.038    5.628, 9.677
    """

    model_name: str
    names: tuple[str, ...]
    mean: Float[ndarray, " names"]
    standard_deviation: Float[ndarray, " names"]
    low: Float[ndarray, " names"]
    high: Float[ndarray, " names"]
    log_bayes_factor: Float[ndarray, " names"]
    log_bayes_factor_error: Float[ndarray, " names"]
    mcse: Float[ndarray, " names"]
    left_out: str = ""

    def __getitem__(self, name: str) -> Row:
        """The row of a name.

        Raises:
            UnknownNameError: there is none.

        Example:
            >>> evidence.summary()["complaints"].log_bayes_factor  # doctest: +SKIP
            12.94
        """
        if name not in self.names:
            raise unknown_name("coefficient or parameter", name, self.names)
        place = self.names.index(name)
        columns: list[ndarray] = [
            *(self.mean, self.standard_deviation, self.low, self.high),
            *(self.log_bayes_factor, self.log_bayes_factor_error, self.mcse),
        ]
        return Row(name, *(column[place].item() for column in columns))

    @property
    def bayes_factor(self) -> Float[ndarray, " names"]:
        """BF10 of each coefficient: infinite above the largest number."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_bayes_factor)

    def to_pandas(self) -> DataFrame:
        """The columns as a data frame, with the names as index."""
        from pandas import DataFrame

        columns = {
            "mean": self.mean,
            "sd": self.standard_deviation,
            "low": self.low,
            "high": self.high,
            "mcse": self.mcse,
            "bf10": self.bayes_factor,
            "log_bf10": self.log_bayes_factor,
            "log_bf10_error": self.log_bayes_factor_error,
        }
        return DataFrame(columns, index=list(self.names))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The columns by name, then by what they hold."""
        return {str(name): row for name, row in self.to_pandas().to_dict("index").items()}  # type: ignore[misc]

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the rows as text."""
        has_factors = not np.isnan(self.log_bayes_factor).all()
        header = ("coefficient" if has_factors else "", "mean", "sd", "95% interval")
        rows = [
            (
                name,
                number(self.mean[place]),
                number(self.standard_deviation[place]),
                f"{number(self.low[place])}, {number(self.high[place])}",
                *(self._in_words(place) if has_factors else (number(self.mcse[place]),)),
            )
            for place, name in enumerate(self.names)
        ]
        return (*header, *(("BF10", "evidence") if has_factors else ("mcse",))), rows

    def _in_words(self, place: int) -> tuple[str, str]:
        log_bf, error = self.log_bayes_factor[place], self.log_bayes_factor_error[place]
        return words.factor(log_bf, error), words.evidence(log_bf)

    def __repr__(self) -> str:
        return "\n".join(
            [text.narrow_table(*self.cells()), *([f"left out: {self.left_out}"] if self.left_out else [])]
        )

    def _repr_html_(self) -> str:
        from html import escape

        note = f"<p>left out: {escape(self.left_out)}</p>" if self.left_out else ""
        return text.html_table(*self.cells()) + note


def summary_of(model_name: str, rows: Sequence[Row], left_out: str = "") -> Summary:
    """The summary of rows."""
    names = tuple(row.name for row in rows)
    columns = np.array([row[1:] for row in rows], np.float64).reshape(len(rows), len(Row._fields) - 1).T
    return Summary(model_name, names, *columns, left_out=left_out)


def number(value: Any) -> str:
    """A number with four significant digits.

    Example:
        >>> number(0.0012345), number(123456.0)
        ('0.001234', '123,456')
    """
    value = float(value)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
