"""From the units of the model, where columns are standardised, to those of the table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy import ndarray

from evidentia.regression.families import Family
from evidentia.regression.frame import Frame
from evidentia.regression.scaled_response import Response
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths


def in_table_units(
    evidence: Evidence, frame: Frame, response: Response, family: Family, observed: dict[str, ndarray]
) -> Evidence:
    """The same result for the values of the table, its posterior by the names of the columns.

    `observed` is the response in the table, by name.
    """
    per_row, trajectory = response.log_jacobian, evidence.trajectory
    known = evidence.weighted.model
    assert isinstance(evidence.widths, ModelWidths) and known is not None
    coefficients = tuple(name for name in evidence.weighted if name in ("effects", *frame.names))
    shown = partial(posterior_of, frame=frame, response=response, family=family)
    shifted = trajectory.log_evidence + per_row * trajectory.num_observations
    return replace(
        evidence,
        log_evidence=evidence.log_evidence + per_row * evidence.num_observations,
        trajectory=replace(trajectory, log_evidence=shifted),
        weighted=replace(
            evidence.weighted,
            parameters=shown(evidence.weighted.parameters),
            model=replace(known, per_row=per_row, shown=shown, response=observed),
        ),
        model_name=frame.formula.text,
        response=frame.formula.observed,
        widths=replace(evidence.widths, chosen=coefficients),
    )


def posterior_of(
    params: dict[str, ndarray], frame: Frame, response: Response, family: Family
) -> dict[str, ndarray]:
    """Coefficients by name; each (draws,), or (draws, categories - 1) for a categorical response.

    With y = location + scale · y', x = mean + deviation · x' and η' = a + b·x', the effect is b ·
    scale / deviation, and the intercept what is left of location + scale · a at x = 0.
    """
    effects = {}
    free = iter(np.moveaxis(np.asarray(params.get("effects", np.zeros((1, 0)))), -1, 0))
    for name, deviation in zip(frame.names, frame.deviations, strict=True):
        standardised = params[name] if name in params else next(free)
        effects[name] = np.asarray(standardised, np.float64) * response.scale / deviation
    shift = sum(
        (effects[name] * mean for name, mean in zip(frame.names, frame.means, strict=True)), np.zeros(())
    )
    posterior: dict[str, ndarray] = {}
    if "Intercept" in params:
        at_means = response.location + response.scale * np.asarray(params["Intercept"], np.float64)
        posterior["Intercept"] = at_means - shift
    posterior |= effects
    for name in family.extra:
        posterior[name] = np.asarray(params[name], np.float64) * (response.scale if name == "scale" else 1.0)
    if "probabilities" in posterior:  # cutpoints at x = 0
        below = np.cumsum(posterior["probabilities"], axis=1)[:, :-1]
        posterior["cutpoints"] = np.log(below / (1 - below)) + np.reshape(shift, (-1, 1))
    return posterior
