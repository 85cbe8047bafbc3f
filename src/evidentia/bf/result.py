"""What every standard test returns: a Bayes factor of two hypotheses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evidentia.bf import curves
from evidentia.bf.drawn import DrawnPosterior
from evidentia.bf.log_odds import LogOdds
from evidentia.bf.posterior import EffectPosterior
from evidentia.display import words
from evidentia.errors import ConfigurationError
from evidentia.system.storage import place, replace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


class Again(NamedTuple):
    """The same question asked again: at other widths of the prior, and of the first observations.

    Attributes:
        what: the scale is called in print.
        scale: of the prior that was used.
        scales: those with names.
        of_scale: log BF₁₀ as a function of the scale.
        of_first: log BF₁₀ of the first observations; None for a test of summary statistics.
        least: observations for which it is defined.
        num_steps: all of them.
        lowest: scale above which the prior is defined.
    """

    what: str = "scale"
    scale: float = math.nan
    scales: Mapping[str, float] = {}
    of_scale: Callable[[float], float] | None = None
    of_first: Callable[[int], float] | None = None
    least: int = 2
    num_steps: int = 0
    lowest: float = 0.0


NOT_AGAIN = Again()


@dataclass(frozen=True, eq=False, repr=False)
class BayesFactor:
    """The Bayes factor of two hypotheses, H₁ against H₀.

    Attributes:
        test: which test.
        log_bf10: log Bayes factor of H₁ against H₀, in nats.
        error: of `log_bf10`, in nats: of its quadrature, or of a Monte Carlo estimate.
        claim: what H₁ says.
        null_claim: what H₀ says.
        prior: of H₁, in print.
        num_observations: rows, or the numbers in the cells of a table; 0 if not known, of draws.
        statistics: numbers that the test used or found, by name.
        posterior: of the effect under H₁; None for a test without one number as its effect.
        again: what `robustness` and `sequential` need.
        notes: what was done to the data, such as pairs left out.

    Example:
        >>> result = ev.bf.t_test(t=3.5, n=20, n_other=20)
        >>> result
        t test, two samples
          BF10 = 26.74: strong evidence that effect size δ is not 0
          H1: δ ~ Cauchy(0, 0.7071)
          t = 3.5, degrees of freedom = 38, n = 40
          effect size δ: median 0.9627, 95% interval 0.3073 to 1.6462
        >>> round(result.bf01, 4)
        0.0374
    """

    test: str
    log_bf10: float
    error: float
    claim: str
    null_claim: str
    prior: str
    num_observations: int
    statistics: Mapping[str, float] = field(default_factory=dict[str, float])
    posterior: EffectPosterior | LogOdds | DrawnPosterior | None = None
    again: Again = NOT_AGAIN
    notes: tuple[str, ...] = ()

    @property
    def bf10(self) -> float:
        """Of H₁ against H₀; infinite where a float ends, which `log_bf10` does not."""
        return finite_exp(self.log_bf10)

    @property
    def bf01(self) -> float:
        """Of H₀ against H₁."""
        return finite_exp(-self.log_bf10)

    @property
    def conclusion(self) -> str:
        """The Bayes factor in words and digits, as for a paper."""
        return words.sentence(self.log_bf10, self.claim, self.null_claim)

    def robustness(self, scales: Sequence[float] | None = None) -> curves.Robustness:
        """The Bayes factor at other widths of the prior.

        Args:
            scales: widths; by default from a tenth of the smallest named one to twice the largest.

        Raises:
            ConfigurationError: the test has no such width, or a prior of your own.
        """
        if self.again.of_scale is None:
            raise ConfigurationError(
                f"robustness() varies the {self.again.what} of the default prior, which this {self.test} does not have; "
                f"its prior is {self.prior}. Ask again with other priors."
            )
        return curves.robustness_of(self.again.of_scale, self.again, scales)

    def sequential(self, num_points: int = 200) -> curves.SequentialCurve:
        """The Bayes factor of the first n observations, as they came, for growing n.

        Args:
            num_points: at most so many values of n.

        Raises:
            ConfigurationError: the test was made of summary statistics.
        """
        if self.again.of_first is None:
            raise ConfigurationError(
                f"sequential() needs the observations in their order; this {self.test} was made of summary statistics, or of draws."
            )
        return curves.sequential_of(self.again.of_first, self.again.least, self.again.num_steps, num_points)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot prior and posterior of the effect, with the densities at the null value.

        Their ratio is the two-sided Bayes factor (Savage and Dickey), for all but log odds ratios,
        which are drawn without these points; the wheel shows the share of BF₁₀ in the sum of BF₁₀
        and one. Of a test without one number as its effect, the probabilities of both hypotheses,
        equal before the data. `ax` are axes to draw into; a new pyplot figure if not given.
        Returns the axes.
        """
        from evidentia.bf.plots import draw_effect, draw_hypotheses

        return draw_hypotheses(self, ax) if self.posterior is None else draw_effect(self, ax)

    def evidences(self) -> dict[str, dict[str, Any]]:
        """Log evidences of both hypotheses relative to that of H₀, which `ev.compare` takes."""
        shared = {"num_observations": max(self.num_observations, 1), "seconds": 0.0, "completed": True}
        return {
            f"H1: {self.claim}": {"log_evidence": self.log_bf10, "standard_error": self.error, **shared},
            f"H0: {self.null_claim}": {"log_evidence": 0.0, "standard_error": 0.0, **shared},
        }

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary; log Bayes factors in nats, and NaN as None."""
        effect = {}
        if self.posterior is not None:
            low, high = self.posterior.interval
            effect = {
                "name": self.posterior.name,
                "median": self.posterior.median,
                "interval_95": [low, high],
            }
        return {
            "test": self.test,
            "log_bf10": self.log_bf10,
            "error": self.error,
            "bf10": _finite(self.bf10),
            "bf01": _finite(self.bf01),
            "claim": self.claim,
            "null_claim": self.null_claim,
            "conclusion": self.conclusion,
            "prior": self.prior,
            "num_observations": self.num_observations or None,
            "statistics": {name: _finite(value) for name, value in self.statistics.items()},
            "effect": effect or None,
            "notes": list(self.notes),
        }

    def to_pandas(self) -> DataFrame:
        """One row with the numbers of `to_dict`."""
        from pandas import DataFrame

        shown = self.to_dict()
        effect: Mapping[str, Any] = shown.pop("effect") or {}
        statistics: Mapping[str, float] = shown.pop("statistics")
        shown.pop("notes")
        more: dict[str, float] = {}
        if effect:
            low, high = effect.get("interval_95", (math.nan, math.nan))
            more = {"median": effect.get("median", math.nan), "low_95": low, "high_95": high}
        return DataFrame([{**shown, **statistics, **more}])

    def save(self, path: str | PathLike[str]) -> None:
        """Write `to_dict` as a JSON file, whole or not at all."""
        save_json(path, self.to_dict())

    def lines(self) -> list[str]:
        """What is printed, without the first line."""
        shown = [f"H1: {self.prior}"]
        numbers = [f"{name} = {value:.6g}" for name, value in self.statistics.items()]
        count = [f"n = {self.num_observations:,}"] if self.num_observations else []
        shown.append(", ".join([*numbers, *count]))
        if self.posterior is not None:
            low, high = self.posterior.interval
            median = self.posterior.median
            shown.append(f"{self.posterior.name}: median {median:.4f}, 95% interval {low:.4f} to {high:.4f}")
        if self.error > 1e-4:
            shown.append(f"log BF10 = {self.log_bf10:.4f} ± {self.error:.2g} nats")
        return [*shown, *self.notes]

    def __repr__(self) -> str:
        return "\n  ".join([self.test, self.conclusion, *self.lines()])

    def _repr_html_(self) -> str:
        from html import escape

        rows = "<br>".join(escape(line) for line in self.lines())
        return f"<p><b>{escape(self.test)}: {escape(self.conclusion)}</b><br>{rows}</p>"


def save_json(path: str | PathLike[str], summary: Mapping[str, Any]) -> None:
    """Write a summary as a JSON file, whole or not at all."""
    text = json.dumps(summary, indent=2, ensure_ascii=False)
    replace(place(path), f"{text}\n".encode())


def finite_exp(value: float) -> float:
    """eˣ, infinite where a float ends."""
    return math.exp(value) if value < 709 else math.inf


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
