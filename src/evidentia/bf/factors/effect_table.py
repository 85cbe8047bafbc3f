"""The effects of an ANOVA's terms: of one model, or averaged over the models that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from evidentia.display import text
from evidentia.regression.per_term.evidence import Weighed
from evidentia.regression.per_term.level_effects import Mixture, effects_of, mixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MOST_POINTS, LEAST_POINTS = 512, 64  # of a model's g's
NEGLIGIBLE = 1e-4  # share of a model
INTERVAL = 0.025, 0.975


class Effect(NamedTuple):
    """The posterior of the effect of one level, or of one unit of a covariate.

    Attributes:
        term: of the formula.
        level: of the factor, or of the factors of an interaction; "" for a covariate.
        mean, median, deviation, low, high: of the effect; low and high are those of the central
            interval of 95%.
        probability: of the models with the term, of those that the table is about.
    """

    term: str
    level: str
    mean: float
    median: float
    deviation: float
    low: float
    high: float
    probability: float


class EffectTable(NamedTuple):
    """Effects in the order of the terms and their levels.

    Attributes:
        model: that they are of; None if averaged over the models that have the term.
        effects: those of the levels of a factor sum to zero.
    """

    model: str | None
    effects: tuple[Effect, ...]

    def to_pandas(self) -> DataFrame:
        """A row for each effect."""
        from pandas import DataFrame

        return DataFrame(self.to_dict())

    def to_dict(self) -> list[dict[str, Any]]:
        """JSON-compatible: one entry for each effect."""
        names = {"deviation": "sd", "low": "low_95", "high": "high_95"}
        return [
            {names.get(name, name): value for name, value in effect._asdict().items()}
            for effect in self.effects
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot medians and 95% intervals. Returns the axes."""
        from evidentia.bf.plots import draw_effects

        return draw_effects(self, ax)

    def lines(self, most: int | None = None) -> list[str]:
        """What is printed, of at most so many effects."""
        shown = self.effects[:most]
        numbers = [_digits(one) for one in shown]
        header = ("effect", "mean", "sd", "95% interval", *(() if self.model else ("P(term)",)))
        rows = [
            (
                f"{one.term} [{one.level}]" if one.level else one.term,
                mean,
                deviation,
                f"{low} to {high}",
                *(() if self.model else (f"{one.probability:.3f}",)),
            )
            for one, (mean, deviation, low, high) in zip(shown, numbers, strict=True)
        ]
        of = f"of {self.model}" if self.model else "averaged over the models that have them"
        more = len(self.effects) - len(shown)
        ending = [f"… {more:,} more: effects()"] if more else []
        return [f"Effects, {of}:", *text.table(header, rows).splitlines(), *ending]

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def _digits(effect: Effect) -> list[str]:
    """Mean, deviation and interval, with three digits of the deviation."""
    size = effect.deviation if 0 < effect.deviation < np.inf else 1.0
    places = max(2 - int(np.floor(np.log10(size))), 0)
    values = effect.mean, effect.deviation, effect.low, effect.high
    return [f"{round(value, places) + 0.0:,.{places}f}" for value in values]  # + 0: no -0.00


def table_of(
    models: Mapping[str, tuple[tuple[str, ...], Weighed]], log_bf: Mapping[str, float], model: str | None
) -> EffectTable:
    """The effects of the fixed terms.

    Args:
        models: fixed terms and posterior of each.
        log_bf: of all models, the one of the intercept among them.
        model: the one wanted; None for all, equally probable before.
    """
    wanted = models if model is None else {model: models[model]}
    values = np.array(list(log_bf.values() if model is None else [log_bf[model]]))
    shares = {name: float(np.exp(log_bf[name] - logsumexp(values))) for name in wanted}
    most = max(shares.values())
    parts: dict[str, list[tuple[float, Mixture]]] = {}
    total: dict[str, float] = {}
    for name, (terms, one) in wanted.items():
        for term in terms:
            total[term] = total.get(term, 0.0) + shares[name]
        number = max(MOST_POINTS >> int(-np.log2(max(shares[name] / most, 1e-9))), LEAST_POINTS)
        for term, mixture in effects_of(one, terms, number).items() if terms else ():
            parts.setdefault(term, []).append((shares[name], mixture))
    sums = next(iter(models.values()))[1].sums
    found = []
    for term in sums.terms:
        if term in parts:
            kept = [part for part in parts[term] if part[0] > NEGLIGIBLE * total[term]]
            found += _of_term(term, sums.terms[term].levels, mixed(kept), total[term])
    return EffectTable(model, tuple(found))


def _of_term(term: str, levels: tuple[str, ...], law: Mixture, probability: float) -> list[Effect]:
    low, high = (law.quantile(share) for share in INTERVAL)
    columns = np.stack([law.mean, law.quantile(0.5), law.deviation, low, high], axis=1).tolist()
    return [
        Effect(term, level, mean, median, deviation, least, most, min(probability, 1.0))
        for level, (mean, median, deviation, least, most) in zip(levels, columns, strict=True)
    ]
