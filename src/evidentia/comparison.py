"""`compare`: log Bayes factors and model probabilities with their errors, from evidence."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.data.fingerprint import check_same_data
from evidentia.display import text
from evidentia.errors import ConfigurationError, as_number
from evidentia.result import Evidence, jsonable
from evidentia.verdict import Verdict, read_verdict
from evidentia.weights import model_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST = 1e100  # nats and seconds, whose squares are finite
# The columns to read, with what each must be and its range; above 2**53, floats skip integers.
COLUMNS = {
    "log_evidence": ("a finite", -LARGEST, LARGEST),
    "standard_error": ("a non-negative, finite", 0, LARGEST),
    "num_observations": ("a positive integer", 1, 2**53),
    "seconds": ("a non-negative, finite", 0, LARGEST),
}
SMALLEST_PRIOR = 1e-150  # relative to the largest


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
        """The conclusion in one or two sentences, and whether to trust it."""
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
        header = ("model", "log evidence (nats)", "log Bayes factor", "probability", "seconds")
        words = [verdict.word if verdict else "unknown" for verdict in self.verdicts]
        are_shown = not {"doubtful", "failed"}.isdisjoint(words)
        return (*header, "verdict") if are_shown else header, [
            (
                name,
                text.with_error(self.log_evidence[i], self.standard_error[i]),
                text.with_error(self.log_bayes_factor[i], self.log_bayes_factor_error[i]) if i else "0",
                text.probability(self.probability[i], self.probability_error[i]),
                f"{self.seconds[i]:.1f}",
                *([words[i]] if are_shown else []),
            )
            for i, name in enumerate(self.names)
        ]

    def __repr__(self) -> str:
        return text.table(*self.cells())

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


def compare(
    evidences: Mapping[str, Evidence | Mapping[str, Any]],
    prior_probabilities: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare models by their evidence on the same data.

    With prior probabilities πᵢ, the posterior probability of model i is πᵢ Ẑᵢ / Σ πⱼ Ẑⱼ. The
    estimates are treated as independent; to first order in their errors sⱼ (the delta method)

        Var p̂ᵢ = p̂ᵢ² ((1 - p̂ᵢ)² sᵢ² + Σ_{j≠i} p̂ⱼ² sⱼ²),

    capped at pᵢ (1 - pᵢ), the variance of a Bernoulli variable. Once errors exceed about one nat,
    look at the log Bayes factor and its error instead. If one standard error is unknown (NaN, or
    None in a dictionary), as for Laplace's approximation, then so are the errors of the
    probabilities, and of the log Bayes factors that depend on it.

    Args:
        evidences: the models' evidence by name, each an `Evidence` or the result of its `to_dict`.
        prior_probabilities: prior probabilities of the models, by the same names, normalised to
            sum to one; equal if not given.

    Raises:
        ConfigurationError: there is nothing to compare, the numbers of observations, the responses
            or the constants differ, or the prior probabilities do not match the models.
        DataError: two models were given other data, as the `fingerprints` of their arrays tell.

    Example:
        >>> ev.compare({"linear": evidence_a, "student-t": evidence_b})  # doctest: +SKIP
        model      log evidence (nats)  log Bayes factor    probability  seconds
        linear        -1,412.31 ± 0.10                 0  0.965 ± 0.005      0.9
        student-t     -1,415.62 ± 0.12      -3.31 ± 0.16  0.035 ± 0.005      1.4
    """
    columns = _columns(evidences)
    prior = prior_of(list(evidences), prior_probabilities, "prior_probabilities")
    order = np.argsort(-columns["log_evidence"], kind="stable")
    log_evidence, errors, seconds = (
        columns[name][order] for name in ("log_evidence", "standard_error", "seconds")
    )
    log_bayes_factor = log_evidence - log_evidence[0]
    to_best = np.hypot(errors, errors[0])
    to_best[0] = 0.0
    probability, probability_error = model_probabilities(log_evidence, errors, prior[order])
    return Comparison(
        names=tuple(list(evidences)[i] for i in order),
        num_observations=int(columns["num_observations"][0]),
        log_evidence=log_evidence,
        standard_error=errors,
        log_bayes_factor=log_bayes_factor,
        log_bayes_factor_error=to_best,
        prior_probability=prior[order],
        probability=probability,
        probability_error=probability_error,
        seconds=seconds,
        verdicts=tuple(_verdict(list(evidences.values())[i]) for i in order),
    )


def plot_comparison(
    evidences: Mapping[str, Evidence],
    prior_probabilities: Mapping[str, float] | None = None,
    axes: Sequence[Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Plot log Bayes factors and model probabilities against the number of observations.

    Args:
        evidences: at least two, by name, on the same data.
        prior_probabilities: as for `compare`.
        axes: two axes to draw into; a new pyplot figure if not given.

    Returns:
        The two axes.

    Raises:
        ConfigurationError: there are fewer than two models, or as raised by `compare`.
    """
    from evidentia.display.plots import draw_comparison

    if len(evidences) < 2:
        raise ConfigurationError(
            f"a picture of a comparison needs at least two models; got {len(evidences)}."
        )
    comparison = compare(evidences, prior_probabilities)
    if flat := [name for name, one in evidences.items() if not isinstance(one, Evidence)]:
        raise ConfigurationError(f"a picture needs an Evidence, with its trajectory, for {flat[0]!r}.")
    trajectories = {name: evidences[name].trajectory for name in comparison.names}
    return draw_comparison(trajectories, comparison.prior_probability, axes)


def _columns(evidences: Mapping[str, Evidence | Mapping[str, Any]]) -> dict[str, ndarray]:
    if not isinstance(evidences, Mapping) or not evidences:
        given = "an empty mapping" if isinstance(evidences, Mapping) else type(evidences).__name__
        raise ConfigurationError(f"evidences must map at least one name to an Evidence; got {given}.")
    if unnamed := [name for name in evidences if not isinstance(name, str)]:
        raise ConfigurationError(f"the names in evidences must be strings; got {unnamed[0]!r}.")
    columns = {
        column: [_number(name, entry, column) for name, entry in evidences.items()] for column in COLUMNS
    }
    if len(set(columns["num_observations"])) > 1:
        counts = zip(evidences, columns["num_observations"], strict=True)
        listed = ", ".join(f"{name!r} has {count:,.0f}" for name, count in counts)
        raise ConfigurationError(f"the models must be given the same observations; {listed}.")
    _check_alike(evidences)
    return {name: np.array(values, np.float64) for name, values in columns.items()}


def _check_alike(evidences: Mapping[str, Evidence | Mapping[str, Any]]) -> None:
    """Raise ConfigurationError for other responses or constants, and DataError for other data."""
    kinds = {
        name: tuple(_text(entry, key) for key in ("response", "constant"))
        for name, entry in evidences.items()
    }
    responses = {response: name for name, (response, _) in kinds.items() if response is not None}
    if len(responses) > 1:
        listed = ", ".join(f"{name!r} is of {response}" for response, name in responses.items())
        raise ConfigurationError(
            f"the models must be of the same response; {listed}. Densities of different quantities cannot be compared."
        )
    constants = {constant: name for name, (_, constant) in kinds.items()}
    if len(constants) > 1:
        listed = ", ".join(
            f"{name!r} is {'complete' if constant is None else f'up to the constant of {constant}'}"
            for constant, name in constants.items()
        )
        raise ConfigurationError(
            f"the log evidences must be up to the same constant; {listed}. Give all models the same kind of prior, for "
            "example ev.Regression(..., prior='normal')."
        )
    check_same_data({name: _fingerprints(name, entry) for name, entry in evidences.items()})


def _fingerprints(name: str, evidence: Evidence | Mapping[str, Any]) -> Mapping[str, str]:
    """Of the data; none in results of earlier versions."""
    if isinstance(evidence, Evidence):
        return evidence.fingerprints
    known = evidence.get("fingerprints", {})
    if isinstance(known, Mapping) and all(isinstance(one, str) for one in [*known, *known.values()]):
        return known
    raise ConfigurationError(
        f"the fingerprints of evidences[{name!r}] must map names of arrays to texts; got {reprlib.repr(known)}."
    )


def _verdict(evidence: Evidence | Mapping[str, Any]) -> Verdict | None:
    return evidence.verdict if isinstance(evidence, Evidence) else read_verdict(evidence.get("verdict"))


def _text(evidence: Evidence | Mapping[str, Any], key: str) -> str | None:
    value = evidence.get(key) if isinstance(evidence, Mapping) else getattr(evidence, key)
    return None if value is None else str(value)


def _number(name: str, evidence: Evidence | Mapping[str, Any], column: str) -> float:
    """The number in a column; NaN for an unknown standard error, which is None in JSON."""
    is_mapping = isinstance(evidence, Mapping)
    value = evidence.get(column) if is_mapping else getattr(evidence, column, None)
    if column == "standard_error":
        is_nan = isinstance(value, float | np.floating) and math.isnan(value)
        if is_nan or (value is None and is_mapping and column in evidence):
            return math.nan
    needed, low, high = COLUMNS[column]
    found = as_number(value)
    is_whole = column != "num_observations" or found % 1 == 0
    if low <= found <= high and is_whole:
        return found
    given = (
        f"{column}={reprlib.repr(value)}"
        if isinstance(evidence, Evidence | Mapping)
        else type(evidence).__name__
    )
    raise ConfigurationError(
        f"evidences[{name!r}] must be an Evidence, or the result of its to_dict, with {needed} {column}; got "
        f"{given}."
    )


def prior_of(names: list[str], given: Mapping[str, float] | None, argument: str) -> Float[ndarray, " models"]:
    """Prior probabilities in the order of the names, summing to one; equal if not given.

    Raises:
        ConfigurationError: names that differ, or numbers that are not positive; the message names
            `argument`.
    """
    if given is None:
        return np.full(len(names), 1 / len(names))
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{argument} must map the models' names to numbers; got {given!r}.")
    if set(given) != set(names):
        raise ConfigurationError(
            f"{argument} must name the models {', '.join(sorted(names))}; "
            f"it names {', '.join(sorted(map(str, given))) or 'none'}."
        )
    prior = np.array([as_number(given[name]) for name in names])
    if not (np.isfinite(prior) & (prior > 0)).all():
        raise ConfigurationError(f"{argument} must be positive and finite; got {dict(given)}.")
    prior /= prior.max()  # a sum of large numbers could overflow
    if prior.min() < SMALLEST_PRIOR:
        raise ConfigurationError(
            f"{argument} must not differ by factors above {1 / SMALLEST_PRIOR:g}; got {dict(given)}. Leave out models that "
            "are ruled out."
        )
    return prior / prior.sum()
