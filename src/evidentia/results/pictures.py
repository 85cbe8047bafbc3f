"""The pictures of a result: of its scalars by name, its prior, its run, its predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from evidentia.arviz_bridge import predictive_check
from evidentia.display import posterior_plots, text
from evidentia.display.coefficients_plot import CUTS, draw_coefficients
from evidentia.display.plots import draw_posterior, draw_trajectory
from evidentia.errors import ConfigurationError, check_count, names_in
from evidentia.evidence.nested_sampling import NestedSampling
from evidentia.posterior.summary import ParameterSummary, summarise
from evidentia.results.predicting import own_data, predict, predictor_of
from evidentia.results.weighted import Weighted
from evidentia.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SCALARS = 12  # of a legible picture with axes for each
MOST_CURVES = 50  # predictions shown beside the observations
NUM_PRIOR = 4000
NINETY = 0.05, 0.25, 0.5, 0.75, 0.95  # the quantiles of `draw_posterior`


class Pictures:
    """What an `Evidence` plots."""

    model_name: str
    log_evidence: float
    standard_error: float
    trajectory: Trajectory
    weighted: Weighted
    method: Any
    seed: int
    _coefficients: Any

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot log evidence per observation, with two standard errors, against the number of rows.

        `ax` are axes to draw into; a new pyplot figure if not given. Returns the axes.
        """
        value = text.with_error(self.log_evidence, self.standard_error)
        return draw_trajectory(self.trajectory, f"{self.model_name}: {value} nats", ax)

    def plot_posterior(
        self, names: Sequence[str] | None = None, limit: int = 50, ax: Axes | None = None
    ) -> Any:
        """Plot the median, 50% and 90% interval of every scalar parameter.

        Those of a formula's parameters, without `g`, have a scale each and the 95% interval, as in
        `summary`, unless `ax` is given.

        Args:
            names: of parameters or their entries (`weights[2, 0]`), in order; all if not given.
            limit: maximum number of scalars to draw; the label says if more are left out.
            ax: axes to draw into; a new pyplot figure of suitable height if not given.

        Returns:
            The axes; with a scale each an array of them.

        Raises:
            ConfigurationError: a name is not that of a parameter.
        """
        check_count("limit", limit, 1)
        if self._coefficients is not None and ax is None:
            summaries = formula_summaries(self, names)
            if summaries:
                return draw_coefficients(summaries[:limit])
        chosen = scalars_of(self.weighted, names)
        return draw_posterior(summarise(chosen, self.weighted.log_weights, NINETY), limit, ax)

    def plot_corner(self, names: Sequence[str] | None = None) -> Figure:
        """Plot the posterior of all pairs of scalars, and of each, with the package `corner`.

        `names` are those of up to 12 parameters or entries (`weights[2, 0]`); all if not given.
        Dashed lines are the median and the 95% interval. There are contours, or, of few draws,
        points: those with more than a hundredth of the mean weight. Returns the figure.
        """
        scalars, weights = _few(self.weighted, names, "plot_corner"), np.exp(self.weighted.log_weights)
        num_shown = np.count_nonzero(posterior_plots.matter(weights))
        if num_shown <= len(scalars):
            raise ConfigurationError(
                f"plot_corner needs more particles than scalars; got {num_shown:,} with weights that matter and {len(scalars)}. "
                "Estimate with more particles, or choose some scalars with names=."
            )
        return posterior_plots.draw_corner(scalars, weights)

    def plot_trace(self, names: Sequence[str] | None = None) -> ndarray:
        """Plot each scalar's particles against their log-likelihood; dark ones have large weights.

        `names` as for `plot_corner`. Particles with less than a hundredth of the mean weight are
        left out. The log-likelihood needs the model and its data, or a file that was saved after
        `weighted.log_likelihood` was asked for; of a plain function (`Model.from_callable`) it is
        always known. Returns an array of axes.
        """
        scalars = _few(self.weighted, names, "plot_trace")
        weighted = self.weighted
        return posterior_plots.draw_trace(scalars, np.exp(weighted.log_weights), weighted.log_likelihood)

    def plot_prior_posterior(self, names: Sequence[str] | None = None) -> ndarray:
        """Plot the prior and posterior density of each scalar, for results of this session.

        `names` as for `plot_corner`. Returns an array of axes.
        """
        weighted = self.weighted
        if weighted.model is None:
            raise ConfigurationError(
                "plot_prior_posterior needs the model in memory; got a result without it, such as a loaded one or one of an exact "
                "integral. Estimate it in this session."
            )
        drawn = weighted.model.prior_draws(NUM_PRIOR, self.seed)
        shared = {name: values for name, values in weighted.items() if name in drawn}
        posterior = _few(Weighted(shared, weighted.log_weights), names, "plot_prior_posterior")
        prior = scalars_of({name: drawn[name] for name in shared}, list(posterior))
        return posterior_plots.draw_prior_posterior(prior, posterior, np.exp(weighted.log_weights))

    def plot_run(self) -> tuple[Axes, Axes]:
        """Plot how the evidence grew, and its error.

        Of a method that takes the data in chunks, the log evidence per observation and the
        standard error against the number of rows; of `NestedSampling`, log-likelihood and evidence
        against the prior mass that is left. Other methods have no such steps. Returns two axes.
        """
        title = f"{self.model_name}: {text.with_error(self.log_evidence, self.standard_error)} nats"
        if len(self.trajectory) > 1:
            return posterior_plots.draw_run(self.trajectory, title)
        if not isinstance(self.method, NestedSampling):
            raise ConfigurationError(
                f"plot_run needs a run with steps; got {type(self.method).__name__} with all data at once, and so one entry in the "
                "trajectory. NestedSampling has steps, and SGAIS, Sequential, OnlineNestedSampling and SMC(chunk_size=...) on more "
                "than one chunk of rows."
            )
        weighted, error = self.weighted, self.standard_error
        return posterior_plots.draw_nested_run(
            weighted.log_weights,
            weighted.log_likelihood,
            self.log_evidence,
            error if np.isfinite(error) else 0.0,
            title,
        )

    def plot_predictive(self, data: Any = None, seed: int | None = None) -> ndarray:
        """Plot 50 draws from the posterior predictive distribution beside the data, with ArviZ.

        `data` are rows with their observations: those of the run if not given. A `Regression`
        needs its table. `seed` is of the draws. Returns an array of axes.
        """
        responses, kept = getattr(predictor_of(self), "observed", None), data
        if data is None:
            data = own_data(self, "plot_predictive needs the rows that were observed")
            known = self.weighted.model
            kept = None if known is None else known.observed
        predicted = predict(self, data, min(MOST_CURVES, len(self.weighted.log_weights)), seed)
        observed = responses(data) if responses else {name: _observed(name, kept) for name in predicted}
        return predictive_check(dict(predicted), observed, self.seed)


def scalars_of(weighted: Mapping[str, ndarray], names: Sequence[str] | None) -> dict[str, ndarray]:
    """Arrays (particles,) by name, such as `weights[2, 0]`, of parameters or their entries.

    Raises:
        ConfigurationError: a name is neither that of a parameter nor of an entry.
    """
    by_parameter = {name: _entries(name, values) for name, values in weighted.items()}
    entries = {one: values for found in by_parameter.values() for one, values in found.items()}
    chosen: dict[str, ndarray] = {}
    unknown: list[str] = []
    for name in by_parameter if names is None else names_in("names", names):
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


def formula_summaries(evidence: Any, names: Sequence[str] | None = None) -> list[ParameterSummary]:
    """The parameters of a formula as `draw_coefficients` takes them; g only if it is named."""
    known = [name for name in evidence.weighted if name != "g"] if names is None else names
    chosen = scalars_of(evidence.weighted, known)
    return summarise(chosen, evidence.weighted.log_weights, CUTS)


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
