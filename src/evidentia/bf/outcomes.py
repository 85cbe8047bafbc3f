"""What a design analysis returns: the shares of runs that reach each threshold, and their rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from evidentia.bf.result import save_json
from evidentia.display.words import threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

QUANTILES = 0.1, 0.25, 0.5, 0.75, 0.9


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """The runs that were simulated under one hypothesis.

    Attributes:
        claim: what the hypothesis says of the effect size.
        looks: rows per sample at which a run is looked at.
        thresholds: BF₁₀ at which it stops, the lower one first.
        num_observations: rows per sample at which each run stopped.
        log_bf10: of each run, where it stopped.

    Example:
        >>> ev.bf.design(0.5, n=50, num_runs=1_000).zero
        <δ is 0: 1,000 runs, 0.002 at BF10 >= 10, 0.000 at BF10 <= 1/10>
    """

    claim: str
    looks: Int[ndarray, " looks"]
    thresholds: tuple[float, float]
    num_observations: Int[ndarray, " runs"]
    log_bf10: Float[ndarray, " runs"]

    @property
    def at_upper(self) -> Bool[ndarray, " runs"]:
        """Which runs stopped at the upper threshold."""
        return self.log_bf10 >= math.log(self.thresholds[1])

    @property
    def at_lower(self) -> Bool[ndarray, " runs"]:
        """Which runs stopped at the lower threshold."""
        return self.log_bf10 <= (math.log(self.thresholds[0]) if self.thresholds[0] else -math.inf)

    @property
    def share_upper(self) -> float:
        """Of runs that stopped at the upper threshold, for H₁."""
        return float(self.at_upper.mean())

    @property
    def share_lower(self) -> float:
        """Of runs that stopped at the lower threshold, for H₀."""
        return float(self.at_lower.mean())

    @property
    def share_never(self) -> float:
        """Of runs that reached no threshold."""
        return float((~self.at_upper & ~self.at_lower).mean())

    @property
    def mean_n(self) -> float:
        """The mean number of rows per sample at stopping."""
        return float(self.num_observations.mean())

    def quantile_n(self, share: float) -> float:
        """The rows per sample with which this share of the runs has stopped, or is at the end."""
        return float(np.quantile(self.num_observations, share, method="inverted_cdf"))

    def standard_error(self, share: float) -> float:
        """The Monte Carlo error of a share."""
        return math.sqrt(share * (1 - share) / len(self.num_observations))

    def to_pandas(self) -> DataFrame:
        """A row for each look: the shares of runs that have stopped, by threshold, or run."""
        from pandas import DataFrame

        upper, lower = (self._stopped(which) for which in (self.at_upper, self.at_lower))
        return DataFrame({"n": self.looks, "upper": upper, "lower": lower, "running": 1 - upper - lower})

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary."""
        return {
            "claim": self.claim,
            "share_upper": self.share_upper,
            "share_lower": self.share_lower,
            "share_never": self.share_never,
            "mean_n": self.mean_n,
            "quantiles_n": {str(share): self.quantile_n(share) for share in QUANTILES},
        }

    def __repr__(self) -> str:
        low, high = map(threshold, self.thresholds)
        return (
            f"<{self.claim}: {len(self.log_bf10):,} runs, {self.share_upper:.3f} at BF10 >= {high}, "
            f"{self.share_lower:.3f} at BF10 <= {low}>"
        )

    def _stopped(self, which: ndarray) -> ndarray:
        """The share of runs that are among these and stopped until each look."""
        until = np.searchsorted(np.sort(self.num_observations[which]), self.looks, side="right")
        return until / len(which)


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """How often a t test with a plan for its rows reaches a Bayes factor.

    Attributes:
        test: "two samples", "pairs" or "one sample".
        one: the runs under H₁.
        zero: the runs under H₀, with an effect size of zero, or within an interval.
        looks: rows per sample at which the Bayes factor is computed; one for a fixed design.
        thresholds: BF₁₀ at which a run stops, the lower one first.
        alternative: of the test, and the interval that H₁ leaves out, if any.
        prior: of the test under H₁, in print.
        error: of the interpolated log Bayes factors, in nats.

    Example:
        >>> planned = ev.bf.design(0.5, n_max=100, step=5, num_runs=2_000)
        >>> planned.one.share_upper > planned.zero.share_upper
        True
    """

    test: str
    one: Outcome
    zero: Outcome
    looks: Int[ndarray, " looks"]
    thresholds: tuple[float, float]
    alternative: str
    prior: str
    error: float

    @property
    def is_sequential(self) -> bool:
        """Whether there is more than one look."""
        return len(self.looks) > 1

    @property
    def false_positive(self) -> float:
        """Misleading evidence under H₀: the share of runs at the upper threshold."""
        return self.zero.share_upper

    @property
    def false_negative(self) -> float:
        """Misleading evidence under H₁: the share of runs at the lower threshold."""
        return self.one.share_lower

    @property
    def conclusion(self) -> str:
        """How often each hypothesis is found if it holds, and the other one instead."""
        low, high = map(threshold, self.thresholds)
        return (
            f"If {self.one.claim}, BF10 >= {high} is reached in {self.one.share_upper:.1%} of runs and BF10 <= {low} in "
            f"{self.one.share_lower:.1%}; if {self.zero.claim}, in {self.zero.share_upper:.1%} and {self.zero.share_lower:.1%}."
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write `to_dict` as a JSON file, whole or not at all."""
        save_json(path, self.to_dict())

    def to_pandas(self) -> DataFrame:
        """A row for each hypothesis and look; see `Outcome.to_pandas`."""
        from pandas import DataFrame, concat

        one, zero = self.one.to_pandas(), self.zero.to_pandas()
        one.insert(0, "hypothesis", "H1")
        zero.insert(0, "hypothesis", "H0")
        return DataFrame(concat([one, zero], ignore_index=True))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary; a threshold that is never reached as None."""
        low, high = self.thresholds
        return {
            "test": f"design of a t test, {self.test}",
            "conclusion": self.conclusion,
            "looks": self.looks.tolist(),
            "lower": low or None,
            "upper": high if math.isfinite(high) else None,
            "alternative": self.alternative,
            "prior": self.prior,
            "num_runs": len(self.one.log_bf10),
            "false_positive": self.false_positive,
            "false_negative": self.false_negative,
            "H1": self.one.to_dict(),
            "H0": self.zero.to_dict(),
            "error": self.error,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the shares at each threshold against n; of a fixed design, its Bayes factors.

        `ax` are axes to draw into; a new pyplot figure if not given. Returns the axes.
        """
        from evidentia.bf.design_plots import draw_design

        return draw_design(self, ax)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        low, high = map(threshold, self.thresholds)
        per = "per sample" if self.test == "two samples" else "rows" if self.test == "one sample" else "pairs"
        first, last = self.looks[0], self.looks[-1]
        plan = f"n = {first:,} {per}, fixed"
        if self.is_sequential:
            plan = f"n = {first:,} to {last:,} {per}, {len(self.looks):,} looks"
        num_runs = len(self.one.log_bf10)
        rows = [
            (f"{num_runs:,} runs each", f"{self.one.claim} ", f"{self.zero.claim} "),
            self._shares(f"BF10 >= {high}, for H1", "share_upper", misleads=self.zero),
            self._shares(f"BF10 <= {low}, for H0", "share_lower", misleads=self.one),
            self._shares("neither", "share_never"),
        ]
        if self.is_sequential:
            one, zero = self.one, self.zero
            rows.append(("mean n at the end", f"{one.mean_n:.1f} ", f"{zero.mean_n:.1f} "))
            for share in (0.5, 0.9):
                ends = f"{one.quantile_n(share):g} ", f"{zero.quantile_n(share):g} "
                rows.append((f"{share:.0%} ended by n =", *ends))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        table = [
            f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip() for row in rows
        ]
        most = math.sqrt(0.25 / num_runs)
        return [
            f"design of a t test, {self.test}: {plan}",
            f"  H1: {self.prior}, {self.alternative}",
            *table,
            f"  * misleading evidence; standard errors of shares are at most {most:.2g}",
        ]

    def _shares(self, label: str, name: str, misleads: Outcome | None = None) -> tuple[str, str, str]:
        one, zero = (
            f"{getattr(each, name):.4f}{'*' if each is misleads else ' '}" for each in (self.one, self.zero)
        )
        return label, one, zero
