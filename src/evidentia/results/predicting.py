"""Predictions of a result: who makes them, of which data, and why some results cannot."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import jax

from evidentia.data.arrays import as_one_row
from evidentia.errors import ConfigurationError, attempt, check_seed, kind_of
from evidentia.model.model import Model
from evidentia.model.pymc import PyMCProgram
from evidentia.results.predicted import Chosen, Predicted, Predictor
from evidentia.system.sharing import check_not_forked


def of_model(model: Model) -> Predictor | None:
    """The predictor of a model whose own parameters results have."""
    predict = model.predict
    if predict is None:
        return None

    def predictor(chosen: Chosen, new_data: Any, seed: int) -> Mapping[str, Any]:
        check_not_forked()  # most models take JAX
        data = _checked(model, new_data)
        given = ", ".join(map(repr, data)) or "no names" if isinstance(data, Mapping) else kind_of(data)
        return attempt(f"a prediction from new data ({given})", lambda: predict(chosen.draws, data, seed))

    return predictor


def predict(evidence: Any, new_data: Any, n: int | None, seed: int | None) -> Predicted:
    """See `Evidence.predict`."""
    predictor = predictor_of(evidence)
    check_seed(evidence.seed if seed is None else seed)
    given = evidence.seed if seed is None else int(seed)
    data = own_data(evidence, "predict needs new_data") if new_data is None else new_data
    weighted = evidence.weighted
    chosen = weighted.equal(evidence.seed) if n is None else weighted.equal(given, n)
    return Predicted(predictor(chosen, data, given))


def predictor_of(evidence: Any) -> Predictor:
    """What predicts. Raises ConfigurationError, with what to do, for a result that cannot."""
    if evidence._predictor is not None:
        return evidence._predictor
    known = evidence.weighted.model
    if known is None:
        why = "it has no model in memory, as one that was loaded or copied. Estimate it again in this session"
    elif known.model is not None and known.model.groups is not None:
        why = (
            f"the latents of groups={known.model.groups!r} were integrated out. ev.group_effects has their means and deviations; "
            "without groups=, the model has them as parameters, and predicts"
        )
    else:
        why = "its model does not say how. Built-in models, NumPyro and PyMC models do, and a Model with predict="
    raise ConfigurationError(f"{evidence.model_name!r} cannot predict: {why}.")


def own_data(evidence: Any, what: str) -> Any:
    """The data of the run, as its predictor takes them: None for a model that holds its data.

    Raises:
        ConfigurationError: they are not at hand; `what` begins the message.
    """
    known = evidence.weighted.model
    if hasattr(evidence._predictor, "observed"):
        raise ConfigurationError(f"{what}: of a Regression, a table with the columns of its formula.")
    if known is None or known.model is None:
        raise ConfigurationError(f"{what}: the data of this run are not in memory. Give arrays of some rows.")
    return known.data if known.model.data is None else None


def _checked(model: Model, new_data: Any) -> Any:
    """New data of a NumPyro function, after the checks of `estimate`.

    Arguments with a default, such as the response, are not needed, and may be NaN.
    """
    if not model.is_program or isinstance(model.prior, PyMCProgram) or not isinstance(new_data, Mapping):
        return new_data
    assert callable(model.prior)
    parameters = inspect.signature(model.prior).parameters.values()
    optional = [one.name for one in parameters if one.default is not one.empty]
    arrays, _ = as_one_row(new_data, optional, name="new_data") if new_data else ({}, 0)
    return jax.tree.map(lambda array: array[0], arrays)
