"""The `Evidence` of a normal regression under a g prior, without sampling."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evidentia.errors import ConfigurationError, DataError, warn
from evidentia.model.width import Change
from evidentia.regression import g_prior
from evidentia.regression.exact_coefficients import ExactCoefficients
from evidentia.regression.frame import Frame
from evidentia.regression.perfect_fit import checked_fit, over_rows
from evidentia.regression.streamed import Streamed
from evidentia.results.result import Evidence
from evidentia.results.weighted import evenly_weighted
from evidentia.trajectory import Trajectory

if TYPE_CHECKING:
    from pandas import DataFrame

NUM_DRAWS = 1000
EFFECTS = "effects"
CONSTANTS = {  # that a log evidence lacks, by whether there is an intercept
    True: "a flat intercept and a Jeffreys variance",
    False: "a Jeffreys variance, no intercept",
}
FINITE = ", or use prior='unit-information', under which it is finite"  # the evidence of a perfect fit


@dataclass(frozen=True)
class GPrior:
    """The method of an exact result: an integral over g with the Cauchy scale r; g = n if None."""

    scale: float | None


@dataclass(frozen=True, eq=False)
class GPriorWidths:
    """The width of a g prior: the scale r of JZS."""

    sums: g_prior.Sums
    fit: g_prior.Fit
    scale: float | None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The effects; none under the unit-information prior, whose width is fixed."""
        return () if self.scale is None else (EFFECTS,)

    def change(self, factor: float, parameters: tuple[str, ...]) -> Change:
        """The exact change of the log evidence.

        Raises:
            ConfigurationError: other parameters than the effects under JZS.
        """
        if self.scale is None or parameters != self.parameters:
            raise ConfigurationError(
                f"parameters must be {list(self.parameters)} for an exact regression, whose other priors have no width; got "
                f"{list(parameters)}."
            )
        own, other = (
            g_prior.log_bayes_factor(self.sums, self.fit, scale)
            for scale in (self.scale, factor * self.scale)
        )
        return Change(other - own, 0.0)


def evidence_of(
    frame: Frame,
    table: DataFrame | Streamed,
    scale: float | None,
    seed: int,
    started: float,
    num_draws: int = NUM_DRAWS,
) -> Evidence:
    """The log evidence up to the constant of the flat and Jeffreys priors, and posterior draws.

    Raises:
        DataError: the response is not numeric, constant, or under JZS explained exactly.
    """
    frame.check_names("scale", "g")
    sums = sums_of(frame)
    chosen = np.arange(len(frame.names))
    hint = None if scale is None else FINITE
    fit = checked_fit(frame, sums, chosen, partial(over_rows, frame, table, None), hint)
    if fit.rank and fit.rank >= sums.degrees_of_freedom:
        warn(
            [
                f"{frame.formula.text}: {frame.num_rows} rows determine {sums.degrees_of_freedom} effects at most, and the formula "
                f"has {len(chosen)}. Every response is explained fully; the Bayes factor against no effects is 1."
            ]
        )
    log_evidence = g_prior.log_evidence_of_null(sums) + g_prior.log_bayes_factor(sums, fit, scale)
    draws = g_prior.sample_posterior(sums, fit, chosen, scale, num_draws, seed)
    deviation = sums.deviations[-1]
    effects = draws.effects * deviation / frame.deviations
    posterior = dict(zip(frame.names, effects.T, strict=True))
    if frame.formula.has_intercept:
        intercept = sums.means[-1] + deviation * draws.intercept - effects @ frame.means
        posterior = {"Intercept": intercept, **posterior}
    posterior |= {"scale": deviation * draws.scale, "g": draws.g}
    seconds = time.perf_counter() - started
    return Evidence(
        log_evidence=log_evidence,
        standard_error=0.0,
        num_observations=frame.num_rows,
        trajectory=Trajectory(
            *(np.array([value]) for value in (frame.num_rows, log_evidence, 0.0, 0, seconds))
        ),
        weighted=evenly_weighted(posterior, num_draws),
        method=GPrior(scale),
        model_name=frame.formula.text,
        seed=seed,
        seconds=seconds,
        diagnostics={"r_squared": 1 - fit.unexplained},
        response=frame.formula.response,
        constant=CONSTANTS[frame.formula.has_intercept],
        widths=GPriorWidths(sums, fit, scale),
        _coefficients=ExactCoefficients(frame, sums, fit, scale),
    )


def sums_of(frame: Frame) -> g_prior.Sums:
    """The sums of a frame with a numeric response.

    Raises:
        DataError: the response holds truth values.
    """
    if len(frame.moments.means) == len(frame.names):
        raise DataError(
            f"the response {frame.formula.response} must hold numbers for the family gaussian; it has True and False. Use "
            "family='bernoulli', or make 1 and 0 of them."
        )
    return g_prior.sums_of(frame.moments, frame.formula.has_intercept)
