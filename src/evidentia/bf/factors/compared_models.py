"""The models of an ANOVA with their Bayes factors: comparison, inclusion, how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from evidentia.bf import curves
from evidentia.bf.factors.effect_table import EffectTable, table_of
from evidentia.bf.result import finite_exp, save_json
from evidentia.display import text, words
from evidentia.errors import ConfigurationError
from evidentia.regression.per_term.evidence import Weighed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

INTERCEPT = "1"
SMALLEST_SHOWN = 1e-9  # nats, below which an error is rounding
MOST_EFFECTS = 16  # that are printed with the models


@dataclass(frozen=True, eq=False, repr=False)
class Anova:
    """Models of a design, with their log Bayes factors.

    Attributes:
        formula: of the full model.
        log_bf10: by model, named by its right-hand side: against the model of the random terms
            alone (of the intercept, "1", if there are none), in nats.
        error: of each, in nats.
        null: the name of that model.
        fixed: the terms that models have or have not.
        num_observations: rows.
        models: the fixed terms of each model with terms, and its posterior.
        again: what `robustness` and `sequential` need.
        notes: what was done to the data.
    """

    formula: str
    log_bf10: Mapping[str, float]
    error: Mapping[str, float]
    null: str
    fixed: tuple[str, ...]
    num_observations: int
    models: Mapping[str, tuple[tuple[str, ...], Weighed]]
    again: curves.Repeats
    notes: tuple[str, ...] = ()

    def log_bf(self, model: str, other: str | None = None) -> float:
        """The log Bayes factor of a model against another, by their right-hand sides, in nats.

        Terms may come in any order; random terms may be left out. `other` is the null model if not
        given.

        Raises:
            ConfigurationError: a model that is not among these.
        """
        return (
            self.log_bf10[self._named(model)]
            - self.log_bf10[self._named(self.null if other is None else other)]
        )

    def bf(self, model: str, other: str | None = None) -> float:
        """The Bayes factor of a model against another."""
        return finite_exp(self.log_bf(model, other))

    @property
    def bf10(self) -> dict[str, float]:
        """The Bayes factor of each model against the null model; infinite where a float ends."""
        return {name: finite_exp(value) for name, value in self.log_bf10.items()}

    @property
    def bf01(self) -> dict[str, float]:
        """The Bayes factor of the null model against each."""
        return {name: finite_exp(-value) for name, value in self.log_bf10.items()}

    @property
    def best(self) -> str:
        """The model with the highest evidence."""
        return max(self.log_bf10, key=lambda name: self.log_bf10[name])

    @property
    def log_inclusion_bf(self) -> dict[str, float]:
        """For each fixed term, log Bayes factors of models with it against those without, in nats.

        Of matched models (Mathôt 2017): those with the term and without an interaction that holds
        it, against the same models less the term, all equally probable before.
        """
        always = _terms(self.null)
        places = {
            _terms(name) - always: name for name in self.log_bf10 if name != INTERCEPT or self.null == name
        }
        found = {}
        for term in self.fixed:
            own = frozenset(term.split(":"))
            matched = [
                (self.log_bf10[name], self.log_bf10[places[terms - {own}]])
                for terms, name in places.items()
                if own in terms and not any(own < other for other in terms) and terms - {own} in places
            ]
            if matched:
                with_term, without = (float(logsumexp(side)) for side in zip(*matched, strict=True))
                found[term] = with_term - without
        return found

    def effects(self, model: str | None = None) -> EffectTable:
        """The posterior of the effects of fixed terms: means, deviations and 95% intervals.

        Effects of the levels of a factor sum to zero, those of covariates are of one unit.

        Args:
            model: by its right-hand side; averaged over the models that have the term, which are
                equally probable before, if not given.

        Raises:
            ConfigurationError: a model that is not among these.
        """
        name = None if model is None else self._named(model)
        if not self.fixed or (name is not None and not self.models.get(name, ((), None))[0]):
            raise ConfigurationError(f"effects() are of fixed terms; {name or self.formula!r} has none.")
        return table_of(self.models, self.log_bf10, name)

    def robustness(self, scales: Sequence[float] | None = None) -> curves.Curves:
        """The inclusion Bayes factors at other widths of the prior; each is a whole analysis.

        Args:
            scales: r of fixed factors, in proportion to which that of covariates changes; by
                default from a tenth of the smallest named one to twice the largest.
        """
        assert self.again.of_scale is not None
        return curves.robustness_of_each(self.again.of_scale, self.again, scales)

    def sequential(self, num_points: int = 20) -> curves.Curves:
        """The inclusion Bayes factors as the data came, by levels of the first random factor.

        Participants come one after the other, in their order in the table; without a random factor
        rows do. NaN where the first ones cannot be analysed, as with one level of a factor.

        Args:
            num_points: at most so many values of n, each a whole analysis.
        """
        return curves.sequential_of_each(self.again, self.log_inclusion_bf, num_points)

    @property
    def conclusion(self) -> str:
        """What the best model says against the null model."""
        if self.best == self.null:
            return f"No model has more evidence than {self.null}."
        log_bf = self.log_bf10[self.best]
        return (
            f"The best model is {self.best}: BF = {words.number(log_bf)} against {self.null}, "
            f"{words.grade(log_bf)} evidence."
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the models' probabilities, equal before the data, as bars. Returns the axes."""
        from evidentia.bf.plots import draw_models

        return draw_models(self.log_bf10, ax)

    def to_pandas(self) -> DataFrame:
        """A row for each model, best first; log Bayes factors in nats."""
        from pandas import DataFrame

        names = sorted(self.log_bf10, key=lambda name: -self.log_bf10[name])
        log_bf = np.array([self.log_bf10[name] for name in names])
        return DataFrame(
            {
                "log_bf10": log_bf,
                "bf10": [self.bf10[name] for name in names],
                "error": [self.error[name] for name in names],
                "probability": np.exp(log_bf - logsumexp(log_bf)),
            },
            index=names,
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary; log Bayes factors in nats."""
        return {
            "test": "ANOVA",
            "formula": self.formula,
            "null": self.null,
            "models": {
                name: {"log_bf10": log_bf, "error": self.error[name]}
                for name, log_bf in self.log_bf10.items()
            },
            "log_inclusion_bf": self.log_inclusion_bf,
            "effects": self.effects().to_dict() if self.fixed else [],
            "num_observations": self.num_observations,
            "conclusion": self.conclusion,
            "notes": list(self.notes),
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write `to_dict` as a JSON file, whole or not at all."""
        save_json(path, self.to_dict())

    def evidences(self) -> dict[str, dict[str, Any]]:
        """Log evidences relative to the null model, which `ev.compare` takes."""
        shared = {"num_observations": self.num_observations, "seconds": 0.0, "completed": True}
        return {
            name: {"log_evidence": log_bf, "standard_error": self.error[name], **shared}
            for name, log_bf in self.log_bf10.items()
        }

    def __repr__(self) -> str:
        table = self.to_pandas()
        columns = (table[name] for name in ("log_bf10", "probability", "error"))
        rows = [
            (
                str(name),
                words.number(log_bf),
                f"{probability:.3f}",
                f"{error:.0e}" if error > SMALLEST_SHOWN else "0",
            )
            for name, log_bf, probability, error in zip(table.index, *columns, strict=True)
        ]
        lines = [f"ANOVA {self.formula}: {self.num_observations:,} observations"]
        lines.append(text.table(("model", f"BF against {self.null}", "probability", "error (nats)"), rows))
        inclusion = [f"{term}: {words.number(log_bf)}" for term, log_bf in self.log_inclusion_bf.items()]
        if inclusion:
            lines.append(f"Inclusion Bayes factors: {', '.join(inclusion)}")
        if self.fixed:
            lines += self.effects().lines(MOST_EFFECTS)
        return "\n".join([*lines, *self.notes])

    def _named(self, model: str) -> str:
        wanted, always = _terms(model), _terms(self.null)
        for name in self.log_bf10:
            if _terms(name) in (wanted, (wanted | always) if wanted else wanted):
                return name
        raise ConfigurationError(
            f"model must be one of {', '.join(map(repr, self.log_bf10))}; got {model!r}."
        )


def _terms(model: str) -> frozenset[frozenset[str]]:
    """The terms of a right-hand side, each as the columns it is made of."""
    if not isinstance(model, str):
        raise ConfigurationError(f"model must be the right-hand side of a formula; got {model!r}.")
    names = [name.strip() for name in model.split("+")]
    return frozenset(
        frozenset(part.strip() for part in name.split(":")) for name in names if name != INTERCEPT
    )
