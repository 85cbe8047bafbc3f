"""`Comparison`: log Bayes factors and model probabilities with their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.display import text, words
from evidentia.errors import is_one_of, unknown_name
from evidentia.results.configurations import jsonable
from evidentia.results.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ROW = (
    *("log_evidence", "standard_error", "log_bayes_factor", "log_bayes_factor_error"),
    *("prior_probability", "probability", "probability_error", "seconds"),
)


class ComparedModel(NamedTuple):
    """One model of a comparison: the entries of the columns of `Comparison`."""

    name: str
    log_evidence: float
    standard_error: float
    log_bayes_factor: float
    log_bayes_factor_error: float
    prior_probability: float
    probability: float
    probability_error: float
    seconds: float
    verdict: Verdict | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Models sorted by log evidence, best first; every column is an array in that order.

    Attributes:
        names: the models' names.
        num_observations: rows, the same for all models.
        log_evidence: in nats.
        standard_error: of `log_evidence`, in nats.
        log_bayes_factor: against the best model, in nats: 0 for the best, negative for the others.
        log_bayes_factor_error: standard error of `log_bayes_factor`, in nats.
        prior_probability: prior probabilities of the models.
        probability: posterior probabilities of the models.
        probability_error: standard error of `probability`, to first order (see `compare`).
        seconds: duration of each estimate.
        verdicts: on each log evidence; None for results of earlier versions, which have none.
    """

    names: tuple[str, ...]
    num_observations: int
    log_evidence: Float[ndarray, " models"]
    standard_error: Float[ndarray, " models"]
    log_bayes_factor: Float[ndarray, " models"]
    log_bayes_factor_error: Float[ndarray, " models"]
    prior_probability: Float[ndarray, " models"]
    probability: Float[ndarray, " models"]
    probability_error: Float[ndarray, " models"]
    seconds: Float[ndarray, " models"]
    verdicts: tuple[Verdict | None, ...]

    @property
    def best(self) -> str:
        """The name of the model with the highest log evidence."""
        return self.names[0]

    @property
    def conclusion(self) -> str:
        """The conclusion in a few sentences, and whether to trust it."""
        return " ".join([self._lead(), *self._doubts()])

    def _doubts(self) -> list[str]:
        """A sentence for each model whose log evidence is not trusted."""
        phrases = {"doubtful": "is doubtful", "failed": "failed"}
        if len(self.names) > 1:
            phrases["doubtful"] += ", and so are its Bayes factors"
            phrases["failed"] += ", and its Bayes factors must not be used"
        return [
            f"The log evidence of {name} {phrases[verdict.word]}: {verdict.reason}"
            for name, verdict in zip(self.names, self.verdicts, strict=True)
            if verdict is not None and verdict.word in phrases
        ]

    def _lead(self) -> str:
        if len(self.names) == 1:
            nats = text.with_error(self.log_evidence[0], self.standard_error[0])
            return f"The log evidence of {self.best} is {nats} nats. Nothing to compare it with."
        lead = f"{text.with_error(-self.log_bayes_factor[1], self.log_bayes_factor_error[1])} nats"
        if math.isnan(self.log_bayes_factor_error[1]):
            return (
                f"{self.best} has the highest log evidence, {lead} above {self.names[1]}. Whether that is significant is "
                "unknown, as is the standard error of one of the estimates."
            )
        if not self.is_clear:
            return (
                f"{self.best} has the highest log evidence, but leads {self.names[1]} by only {lead}: "
                "the estimates are too uncertain to tell the two apart."
            )
        top = int(np.argmax(self.probability))
        chance = text.probability(self.probability[top], self.probability_error[top])
        overruled = f"With the prior probabilities given, {self.names[top]} is the most probable ({chance})."
        return (
            f"{self.best} has the highest log evidence, {lead} above {self.names[1]}. "
            f"{overruled if top else f'Its probability is {chance}.'}"
        )

    @property
    def is_clear(self) -> bool:
        """Whether the best model leads by at least two standard errors; False if unknown."""
        return len(self.names) == 1 or -self.log_bayes_factor[1] >= 2 * self.log_bayes_factor_error[1]

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """A header and one row of text per model, for the terminal and notebooks."""
        header = ("model", "log evidence", "log BF (nats)", "BF", "against", "probability")
        return header, [
            (
                name,
                text.with_error(self.log_evidence[i], self.standard_error[i]),
                text.with_error(self.log_bayes_factor[i], self.log_bayes_factor_error[i]) if i else "0",
                words.short(self.log_bayes_factor[i]) if i else "1",
                self._in_words(i),
                text.probability(self.probability[i], self.probability_error[i]),
            )
            for i, name in enumerate(self.names)
        ]

    def _in_words(self, place: int) -> str:
        """What the evidence says against a model; of one that is not trusted, the verdict."""
        verdict = self.verdicts[place]
        if verdict is not None and verdict.word != "trusted":
            return verdict.word
        return words.grade(self.log_bayes_factor[place]) if place else ""

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> ComparedModel:
        """The row of a model."""
        place = self._place(name)
        columns: dict[str, Any] = {column: getattr(self, column)[place].item() for column in ROW}
        return ComparedModel(name, **columns, verdict=self.verdicts[place])

    def log_bf(self, model: str, other: str) -> float:
        """The log Bayes factor of a model against another, in nats.

        Raises:
            UnknownNameError: a name that is not among the models.
        """
        return float(self.log_evidence[self._place(model)] - self.log_evidence[self._place(other)])

    def log_bf_error(self, model: str, other: str) -> float:
        """The standard error of `log_bf`, in nats; NaN if unknown, 0 of a model against itself."""
        one, two = self._place(model), self._place(other)
        return 0.0 if one == two else float(np.hypot(self.standard_error[one], self.standard_error[two]))

    def log10_bf(self, model: str, other: str) -> float:
        """`log_bf` to base 10."""
        return self.log_bf(model, other) / math.log(10)

    def bf(self, model: str, other: str) -> float:
        """The Bayes factor of a model against another; infinite above the largest number.

        Raises:
            UnknownNameError: a name that is not among the models.

        Example:
            >>> ev.compare({"a": evidence_a, "b": evidence_b}).bf("a", "b")  # doctest: +SKIP
            27.4
        """
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_bf(model, other)))

    def _place(self, name: str) -> int:
        if not is_one_of(name, self.names):
            raise unknown_name("model", name, self.names)
        return self.names.index(name)

    def to_pandas(self) -> DataFrame:
        """A row for each model, best first, with the name as index."""
        from pandas import DataFrame

        columns: dict[str, Any] = {name: getattr(self, name) for name in ROW}
        with np.errstate(under="ignore"):
            columns["bf"] = np.exp(self.log_bayes_factor)
        columns["verdict"] = [verdict.word if verdict else "unknown" for verdict in self.verdicts]
        return DataFrame(columns, index=list(self.names))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the log Bayes factors against the best model, with two standard errors.

        `ax` are axes to draw into; a new pyplot figure if not given. Returns the axes.
        `ev.plot_comparison` shows how they came about as the data came.
        """
        from evidentia.display.factors_plot import draw_factors

        return draw_factors(self.names, self.log_bayes_factor, self.log_bayes_factor_error, ax)

    def __repr__(self) -> str:
        return text.narrow_table(*self.cells())

    def _repr_html_(self) -> str:
        return text.html_table(*self.cells())

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary, with a dictionary of numbers per model.

        Unknown errors become None.
        """
        apart = "names", "num_observations", "verdicts"
        columns = [field.name for field in fields(self) if field.name not in apart]
        return {
            "num_observations": self.num_observations,
            "best": self.best,
            "conclusion": self.conclusion,
            "models": {
                name: {
                    **{column: jsonable(getattr(self, column)[i]) for column in columns},
                    "verdict": verdict.to_dict() if (verdict := self.verdicts[i]) else None,
                }
                for i, name in enumerate(self.names)
            },
        }
