"""What a picture of a result needs: its scalars by name, its prior, its run, its predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.arviz_bridge import predictive_check
from evidentia.display import posterior_plots, text
from evidentia.display.coefficients_plot import CUTS, draw_coefficients
from evidentia.display.plots import draw_posterior
from evidentia.errors import ConfigurationError
from evidentia.evidence.nested_sampling import NestedSampling
from evidentia.posterior.summary import ParameterSummary, summarise
from evidentia.results.predicting import own_data, predictor_of
from evidentia.results.weighted import Weighted

MOST_SCALARS = 12  # of a legible picture with axes for each
MOST_CURVES = 50  # predictions shown beside the observations
NUM_PRIOR = 4000
NINETY = 0.05, 0.25, 0.5, 0.75, 0.95  # the quantiles of `draw_posterior`


def scalars_of(weighted: Mapping[str, ndarray], names: Sequence[str] | None) -> dict[str, ndarray]:
    """Arrays (particles,) by name, such as `weights[2, 0]`, of parameters or their entries.

    Raises:
        ConfigurationError: a name is neither that of a parameter nor of an entry.
    """
    if isinstance(names, str):
        names = [names]
    by_parameter = {name: _entries(name, values) for name, values in weighted.items()}
    entries = {one: values for found in by_parameter.values() for one, values in found.items()}
    chosen: dict[str, ndarray] = {}
    unknown = []
    for name in by_parameter if names is None else names:
        if name in by_parameter:
            chosen |= by_parameter[name]
        elif name in entries:
            chosen[name] = entries[name]
        else:
            unknown.append(str(name))
    if unknown:
        known = ", ".join(by_parameter)
        raise ConfigurationError(f"names must be among {known}; got {', '.join(unknown)}.")
    return chosen


def plot_posterior(evidence: Any, names: Sequence[str] | None, limit: int, ax: Any) -> Any:
    """See `Evidence.plot_posterior`."""
    if evidence._coefficients is not None and ax is None:
        summaries = formula_summaries(evidence, names)
        if summaries:
            return draw_coefficients(summaries[:limit])
    chosen = scalars_of(evidence.weighted, names)
    return draw_posterior(summarise(chosen, evidence.weighted.log_weights, NINETY), limit, ax)


def formula_summaries(evidence: Any, names: Sequence[str] | None = None) -> list[ParameterSummary]:
    """The parameters of a formula as `draw_coefficients` takes them; g only if it is named."""
    known = [name for name in evidence.weighted if name != "g"] if names is None else names
    chosen = scalars_of(evidence.weighted, known)
    return summarise(chosen, evidence.weighted.log_weights, CUTS)


def plot_corner(evidence: Any, names: Sequence[str] | None) -> Any:
    """See `Evidence.plot_corner`."""
    scalars, weights = _few(evidence.weighted, names, "plot_corner"), np.exp(evidence.weighted.log_weights)
    num_shown = np.count_nonzero(posterior_plots.matter(weights))
    if num_shown <= len(scalars):
        raise ConfigurationError(
            f"plot_corner needs more particles than scalars; got {num_shown:,} with weights that matter and {len(scalars)}. "
            "Estimate with more particles, or choose some scalars with names=."
        )
    return posterior_plots.draw_corner(scalars, weights)


def plot_trace(evidence: Any, names: Sequence[str] | None) -> ndarray:
    """See `Evidence.plot_trace`."""
    scalars = _few(evidence.weighted, names, "plot_trace")
    weighted = evidence.weighted
    return posterior_plots.draw_trace(scalars, np.exp(weighted.log_weights), weighted.log_likelihood)


def plot_prior_posterior(evidence: Any, names: Sequence[str] | None) -> ndarray:
    """See `Evidence.plot_prior_posterior`."""
    weighted = evidence.weighted
    if weighted.model is None:
        raise ConfigurationError(
            "plot_prior_posterior needs the model in memory; got a result without it, such as a loaded one or one of an exact "
            "integral. Estimate it in this session."
        )
    drawn = weighted.model.prior_draws(NUM_PRIOR, evidence.seed)
    shared = {name: values for name, values in weighted.items() if name in drawn}
    posterior = _few(Weighted(shared, weighted.log_weights), names, "plot_prior_posterior")
    prior = scalars_of({name: drawn[name] for name in shared}, list(posterior))
    return posterior_plots.draw_prior_posterior(prior, posterior, np.exp(weighted.log_weights))


def plot_run(evidence: Any) -> Any:
    """See `Evidence.plot_run`."""
    title = f"{evidence.model_name}: {text.with_error(evidence.log_evidence, evidence.standard_error)} nats"
    if len(evidence.trajectory) > 1:
        return posterior_plots.draw_run(evidence.trajectory, title)
    if not isinstance(evidence.method, NestedSampling):
        raise ConfigurationError(
            f"plot_run needs a run with steps; got {type(evidence.method).__name__} with all data at once, and so one entry in the "
            "trajectory. NestedSampling has steps, and SGAIS, Sequential, OnlineNestedSampling and SMC(chunk_size=...) on more "
            "than one chunk of rows."
        )
    weighted, error = evidence.weighted, evidence.standard_error
    return posterior_plots.draw_nested_run(
        weighted.log_weights,
        weighted.log_likelihood,
        evidence.log_evidence,
        error if np.isfinite(error) else 0.0,
        title,
    )


def plot_predictive(evidence: Any, data: Any, seed: int | None) -> Any:
    """See `Evidence.plot_predictive`."""
    responses, kept = getattr(predictor_of(evidence), "observed", None), data
    if data is None:
        data = own_data(evidence, "plot_predictive needs the rows that were observed")
        kept = evidence.weighted.model.observed
    predicted = evidence.predict(data, n=min(MOST_CURVES, evidence.num_particles), seed=seed)
    observed = responses(data) if responses else {name: _observed(name, kept) for name in predicted}
    return predictive_check(dict(predicted), observed, evidence.seed)


def _entries(name: str, values: ndarray) -> dict[str, ndarray]:
    return {
        f"{name}[{', '.join(map(str, index))}]" if index else name: values[:, *index]
        for index in np.ndindex(values.shape[1:])
    }


def _few(weighted: Mapping[str, ndarray], names: Sequence[str] | None, what: str) -> dict[str, ndarray]:
    scalars = scalars_of(weighted, names)
    if not 0 < len(scalars) <= MOST_SCALARS:
        some = list(scalars)[:2] or list(weighted)[:2]
        raise ConfigurationError(
            f"{what} shows 1 to {MOST_SCALARS} scalars; got {len(scalars)}. Choose parameters or entries with names=, such as "
            f"names={some}."
        )
    return scalars


def _observed(name: str, data: Any) -> ndarray:
    try:
        return np.asarray(data[name])
    except (KeyError, TypeError, IndexError, ValueError):
        raise ConfigurationError(
            f"plot_predictive needs the observations of {name!r} in the data, by that name; got none. evidence.predict(data) has "
            "the predictions."
        ) from None
