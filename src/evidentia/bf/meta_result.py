"""What a meta-analysis of effects returns: two questions, and the four models behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from evidentia.bf import curves
from evidentia.bf.result import BayesFactor, finite_exp, save_json
from evidentia.display import text, words
from evidentia.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, eq=False, repr=False)
class MetaAnalysis:
    """Two questions about studies, each averaged over the other.

    Attributes:
        log_evidence: of the four models, in nats, relative to neither effect nor heterogeneity.
        log_bf_effect: of an effect, over both answers about heterogeneity.
        log_bf_heterogeneity: of heterogeneity, over both answers about an effect.
        fixed: the test of an effect without heterogeneity.
        random: the test of an effect with heterogeneity.
        claim: what models with an effect say.
        num_studies: of studies.
        error: of the log evidences, by quadrature, in nats.
        again: what `robustness` and `sequential` need.
    """

    log_evidence: dict[str, float]
    log_bf_effect: float
    log_bf_heterogeneity: float
    fixed: BayesFactor
    random: BayesFactor
    claim: str
    num_studies: int
    error: float
    again: curves.Repeats

    @property
    def log_bf_by_question(self) -> dict[str, float]:
        """Of an effect and of heterogeneity, each over the answers to the other, in nats."""
        return {"effect": self.log_bf_effect, "heterogeneity": self.log_bf_heterogeneity}

    @property
    def log_bf10(self) -> float:
        """Of an effect against none, over both answers about heterogeneity, in nats."""
        return self.log_bf_effect

    @property
    def bf10(self) -> float:
        """Of an effect against none."""
        return finite_exp(self.log_bf_effect)

    @property
    def bf01(self) -> float:
        """Of no effect against one."""
        return finite_exp(-self.log_bf_effect)

    def robustness(self, scales: Sequence[float] | None = None) -> curves.Curves:
        """Both Bayes factors at other widths of the effect's prior.

        Args:
            scales: widths; by default from a tenth of the smallest named one to twice the largest.

        Raises:
            ConfigurationError: the effect has a prior of your own.
        """
        if self.again.of_scale is None:
            raise ConfigurationError(
                f"robustness() varies the scale of the default prior; this meta-analysis has {self.fixed.prior}. Ask again with "
                "other priors."
            )
        return curves.robustness_of_each(self.again.of_scale, self.again, scales)

    def sequential(self, num_points: int = 200) -> curves.Curves:
        """Both Bayes factors as the studies came, one after the other.

        Args:
            num_points: at most so many numbers of studies.
        """
        return curves.sequential_of_each(self.again, self.log_bf_by_question, num_points)

    @property
    def conclusion(self) -> str:
        """Both answers in words and digits."""
        effect = words.sentence(self.log_bf_effect, self.claim, self.fixed.null_claim)
        spread = words.sentence(
            self.log_bf_heterogeneity, "effects differ between studies", "effects are the same"
        )
        return f"{effect}; {spread}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the models' probabilities, equal before the data, as bars. Returns the axes."""
        from evidentia.bf.plots import draw_models

        return draw_models(self.log_evidence, ax)

    def evidences(self) -> dict[str, dict[str, Any]]:
        """The four models, which `ev.compare` takes."""
        shared = {
            "standard_error": self.error,
            "num_observations": self.num_studies,
            "seconds": 0.0,
            "completed": True,
        }
        return {name: {"log_evidence": value, **shared} for name, value in self.log_evidence.items()}

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary."""
        return {
            "test": "meta-analysis",
            "log_evidence": self.log_evidence,
            "log_bf_effect": self.log_bf_effect,
            "log_bf_heterogeneity": self.log_bf_heterogeneity,
            "conclusion": self.conclusion,
            "fixed": self.fixed.to_dict(),
            "random": self.random.to_dict(),
            "num_studies": self.num_studies,
            "error": self.error,
        }

    def to_pandas(self) -> DataFrame:
        """A row for each model; log Bayes factors against neither, in nats."""
        from pandas import DataFrame

        log_bf = np.array(list(self.log_evidence.values()))
        return DataFrame(
            {
                "log_bf10": log_bf,
                "bf10": [finite_exp(one) for one in log_bf],
                "probability": np.exp(log_bf - special.logsumexp(log_bf)),
            },
            index=list(self.log_evidence),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write `to_dict` as a JSON file, whole or not at all."""
        save_json(path, self.to_dict())

    def __repr__(self) -> str:
        table = self.to_pandas()
        rows = [
            (str(name), words.number(log_bf), f"{share:.3f}")
            for name, (log_bf, _, share) in zip(table.index, table.to_numpy(), strict=True)
        ]
        lines = [f"meta-analysis of {self.num_studies} studies", *self.conclusion.split("; ")]
        for kind, found in (("fixed", self.fixed), ("random", self.random)):
            assert found.posterior is not None
            low, high = found.posterior.interval
            lines.append(
                f"effect, {kind}: median {found.posterior.median:.4f}, 95% interval {low:.4f} to {high:.4f}"
            )
        return "\n  ".join(
            [*lines, *text.table(("model", "BF against neither", "probability"), rows).splitlines()]
        )
