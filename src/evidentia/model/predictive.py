"""New observations of a NumPyro program or a PyMC model, at given parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy import ndarray
from numpyro import handlers
from numpyro.infer import Predictive

from evidentia.errors import ModelError, attempt
from evidentia.model.arguments import advice, unlike_arguments
from evidentia.model.program import Program


def of_numpyro(program: Program, params: Mapping[str, ndarray], data: Any, seed: int) -> dict[str, ndarray]:
    """Observed sites by name, (draws, rows, ...), by NumPyro's `Predictive`.

    Arguments that are missing in the data, such as the response, are None; values of the response
    are not used. Without them all sites that are no parameters are returned, the last first.

    Raises:
        ModelError: the data have names that the program does not take, or it fails without those
            that they lack.
    """
    given = dict(data or {})
    if unlike_arguments(program, given)[0]:
        raise ModelError(
            f"new_data must hold arguments of the NumPyro model, {inspect.signature(program)}; it holds {', '.join(given)}: "
            f"{advice(program, given)}."
        )
    missing = {
        name: None
        for name, one in inspect.signature(program).parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    arrays = {name: jax.numpy.asarray(values) for name, values in given.items()}
    predictive = Predictive(handlers.uncondition(program), dict(params), parallel=False)
    absent = sorted(missing.keys() - given.keys())
    what = "the model"
    if absent:
        without = ", ".join(f"{name}=None" for name in absent)
        what = f"new_data lacks {', '.join(absent)}: the model, called with {without},"
    found = attempt(what, lambda: predictive(jax.random.key(seed), **missing | arrays))
    with handlers.seed(rng_seed=0):
        sites = handlers.trace(handlers.uncondition(program)).get_trace(**missing | arrays)
    new = [name for name, site in sites.items() if site["type"] == "sample" and name not in params]
    observed = [name for name in new if sites[name]["infer"].get("was_observed")] or new[::-1]
    return {name: np.asarray(found[name]) for name in observed}


def of_pymc(pm_model: Any, params: Mapping[str, ndarray], data: Any, seed: int) -> dict[str, ndarray]:
    """Observed variables by name, (draws, rows, ...), by PyMC.

    The `pm.Data` containers in `data` get new values meanwhile; observed ones may be left out.

    Raises:
        ModelError: `data` has other names than containers, or PyMC fails, as where the shape of an
            observed variable is fixed.
    """
    import pymc

    containers = {one.name: one for one in pm_model.data_vars}
    given = {name: np.asarray(values) for name, values in (data or {}).items()}
    if unknown := sorted(given.keys() - containers.keys()):
        known = ", ".join(containers) or "none"
        raise ModelError(
            f"new_data must name pm.Data containers of the model ({known}); got {', '.join(unknown)}. Put the predictors of new "
            "rows into pm.Data, and give the likelihood shape=x.shape[0]."
        )
    counts = {len(values) for values in given.values() if values.ndim}
    for one in pm_model.observed_RVs:
        value = pm_model.rvs_to_values[one]
        if value.name in containers and value.name not in given and len(counts) == 1:
            old = value.get_value()
            given[value.name] = np.zeros((*counts, *old.shape[1:]), old.dtype)
    old = {name: containers[name].get_value() for name in given}

    def run():
        pymc.set_data(given, model=pm_model)
        return pymc.sample_posterior_predictive(
            _trace(pm_model, params),
            model=pm_model,
            random_seed=seed,
            progressbar=False,
            extend_inferencedata=False,
        )

    try:
        found = attempt("PyMC's sample_posterior_predictive", run)
    finally:
        pymc.set_data(old, model=pm_model)
    return {name: values.values[0] for name, values in found.posterior_predictive.data_vars.items()}


def _trace(pm_model: Any, params: Mapping[str, ndarray]) -> Any:
    """The draws as PyMC takes them, with all containers and coordinates of the model.

    Without those PyMC takes them for changed, and draws the parameters whose priors depend on them
    anew, from the prior.
    """
    from arviz import InferenceData  # pyright: ignore
    from xarray import Dataset

    def variable(name: str, values: ndarray, *leading: str) -> tuple[list[str], ndarray]:
        return [*leading, *(f"{name}_{axis}" for axis in range(values.ndim - len(leading)))], values

    draws = {name: variable(name, values[None], "chain", "draw") for name, values in params.items()}
    held = {one.name: variable(one.name, one.get_value()) for one in pm_model.data_vars}
    coords = {name: np.arange(int(size.eval())) for name, size in pm_model.dim_lengths.items()}
    coords |= {name: np.asarray(each) for name, each in pm_model.coords.items() if each is not None}
    return InferenceData(posterior=Dataset(draws, coords), constant_data=Dataset(held))
