"""What log evidences need to be comparable: one response, one constant, and the same data."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from evidentia.data.fingerprint import check_same_data
from evidentia.errors import ConfigurationError
from evidentia.results.result import Evidence

Entry = Evidence | Mapping[str, Any]  # or the result of its `to_dict`


def check_alike(evidences: Mapping[str, Entry]) -> None:
    """Check the responses, constants and fingerprints of models, by name.

    Raises:
        ConfigurationError: other responses or constants.
        DataError: other data.
    """
    responses = {_text(entry, "response"): name for name, entry in evidences.items()}
    responses.pop(None, None)
    if len(responses) > 1:
        listed = ", ".join(f"{name!r} is of {response}" for response, name in responses.items())
        raise ConfigurationError(
            f"the models must be of the same response; {listed}. Densities of different quantities cannot be compared."
        )
    constants = {name: _text(entry, "constant") for name, entry in evidences.items()}
    check_constants(constants, {name: _prior(entry) for name, entry in evidences.items()})
    check_same_data({name: _fingerprints(name, entry) for name, entry in evidences.items()})


def check_constants(constants: Mapping[str, str | None], priors: Mapping[str, str | None]) -> None:
    """Check what improper priors leave out of log evidences, by the names of models.

    Args:
        constants: as in `Evidence.constant`; None for complete log evidences.
        priors: of the effects, for the message; None if not known.

    Raises:
        ConfigurationError: two models differ.
    """
    names = {constant: name for name, constant in constants.items()}
    if len(names) < 2:
        return
    told = {name: f" (prior {priors[name]})" if priors.get(name) else "" for name in names.values()}
    if None in names:
        listed = ", ".join(
            f"{name!r}{told[name]} is {'complete' if constant is None else f'up to the constant of {constant}'}"
            for constant, name in names.items()
        )
        raise ConfigurationError(
            f"the log evidences must be up to the same constant; {listed}. Give all models the same kind of prior, for "
            "example ev.Regression(..., prior='normal'), --prior normal on the command line."
        )
    listed = ", ".join(f"that of {name!r} is of {constant}" for constant, name in names.items())
    raise ConfigurationError(
        f"the log evidences must be up to the same constant; {listed}. A flat prior has no width, so that no Bayes factor "
        "says whether the intercept is needed. Give the intercept a prior: as the effect of a column of ones, compare "
        "'y ~ 0 + ones' with 'y ~ 0' (with prior_scale=0.707, this is the JZS t-test), or pass prior='normal' for all models."
    )


def _prior(evidence: Entry) -> str | None:
    known = evidence.diagnostics if isinstance(evidence, Evidence) else evidence.get("diagnostics")
    return str(known["prior"]) if isinstance(known, Mapping) and "prior" in known else None


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


def _text(evidence: Entry, key: str) -> str | None:
    value = evidence.get(key) if isinstance(evidence, Mapping) else getattr(evidence, key)
    return None if value is None else str(value)
