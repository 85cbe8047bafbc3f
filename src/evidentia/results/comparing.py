"""`compare`: log Bayes factors and model probabilities with their errors, from evidence."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy import ndarray

from evidentia.errors import ConfigurationError, as_number
from evidentia.results.comparable import check_alike
from evidentia.results.comparison import Comparison
from evidentia.results.model_priors import prior_of
from evidentia.results.result import Evidence
from evidentia.results.verdict import Verdict, read_verdict
from evidentia.system import checked_json
from evidentia.weights import model_probabilities

LARGEST = 1e100  # nats and seconds, whose squares are finite
# The columns to read, with what each must be and its range; above 2**53, floats skip integers.
COLUMNS = {
    "log_evidence": ("a finite", -LARGEST, LARGEST),
    "standard_error": ("a non-negative, finite", 0, LARGEST),
    "num_observations": ("a positive integer", 1, 2**53),
    "seconds": ("a non-negative, finite", 0, LARGEST),
}


@runtime_checkable
class HasEvidences(Protocol):
    """A result about several hypotheses, such as that of a standard test."""

    def evidences(self) -> Mapping[str, Mapping[str, Any]]:
        """The hypotheses' evidence by name, as `Evidence.to_dict` has it."""
        ...


def compare(
    evidences: Mapping[str, Evidence | Mapping[str, Any]] | HasEvidences,
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
        evidences: the models' evidence by name, each an `Evidence` or the result of its `to_dict`;
            or a result of `ev.bf`, whose hypotheses are compared.
        prior_probabilities: prior probabilities of the models, by the same names, normalised to
            sum to one; equal if not given.

    Raises:
        ConfigurationError: there is nothing to compare, the numbers of observations, the responses
            or the constants differ, or the prior probabilities do not match the models.
        DataError: two models were given other data, as the `fingerprints` of their arrays tell.

    Example:
        >>> ev.compare({"linear": evidence_a, "student-t": evidence_b})  # doctest: +SKIP
        model          log evidence  log BF (nats)      BF  against    probability
        linear     -1,412.31 ± 0.10              0       1           0.965 ± 0.005
        student-t  -1,415.62 ± 0.12   -3.31 ± 0.16  0.0365   strong  0.035 ± 0.005
    """
    if isinstance(evidences, HasEvidences):
        evidences = evidences.evidences()
    columns = _columns(evidences)
    names = list(evidences)
    prior = prior_of(names, prior_probabilities, "prior_probabilities")
    order = np.argsort(-columns["log_evidence"], kind="stable")
    log_evidence, errors, seconds = (
        columns[name][order] for name in ("log_evidence", "standard_error", "seconds")
    )
    log_bayes_factor = log_evidence - log_evidence[0]
    to_best = np.hypot(errors, errors[0])
    to_best[0] = 0.0
    probability, probability_error = model_probabilities(log_evidence, errors, prior[order])
    return Comparison(
        names=tuple(names[int(i)] for i in order),
        num_observations=int(columns["num_observations"][0]),
        log_evidence=log_evidence,
        standard_error=errors,
        log_bayes_factor=log_bayes_factor,
        log_bayes_factor_error=to_best,
        prior_probability=prior[order],
        probability=probability,
        probability_error=probability_error,
        seconds=seconds,
        verdicts=tuple(_verdict(evidences[names[int(i)]]) for i in order),
    )


def checksum(evidences: Mapping[str, Mapping[str, Any]]) -> str:
    """The SHA-256 of the results of `Evidence.to_dict` by name, which shows damage of a file.

    Without the fingerprints of the data, which `compare` checks.
    """
    rest = {
        name: {key: value for key, value in evidence.items() if key != "fingerprints"}
        for name, evidence in evidences.items()
    }
    return checked_json.digest(rest)


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
    check_alike(evidences)
    return {name: np.array(values, np.float64) for name, values in columns.items()}


def _verdict(evidence: Evidence | Mapping[str, Any]) -> Verdict | None:
    return evidence.verdict if isinstance(evidence, Evidence) else read_verdict(evidence.get("verdict"))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and math.isnan(cast(float, value))


def _number(name: str, evidence: Evidence | Mapping[str, Any], column: str) -> float:
    """The number in a column; NaN for an unknown standard error, which is None in JSON."""
    is_mapping = isinstance(evidence, Mapping)
    value: Any = evidence.get(column) if is_mapping else getattr(evidence, column, None)
    is_none = value is None and is_mapping and column in evidence
    if column == "standard_error" and (is_none or _is_nan(value)):
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
