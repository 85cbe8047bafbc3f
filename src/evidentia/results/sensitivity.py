"""`prior_sensitivity`: how the log evidence moves with the width of the priors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.display import text, words
from evidentia.errors import ConfigurationError, check_positive, names_in
from evidentia.model.width import Change
from evidentia.results.result import Evidence
from evidentia.system.sharing import check_not_forked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FACTORS = 0.5, 0.5**0.5, 2**0.5, 2.0


@dataclass(frozen=True, eq=False, repr=False)
class PriorSensitivity:
    """The log evidence under priors of several widths, the narrowest first; columns are arrays.

    Attributes:
        model_name: name of the model.
        parameters: those whose priors were widened.
        factor: width of the priors, relative to the model's own.
        log_evidence: in nats.
        change: of the log evidence against the model's own, in nats.
        change_error: standard error of `change`, in nats.
        pareto_shape: of the weights if draws were reweighted; NaN otherwise.
        is_new_run: whether the model was run anew.
    """

    model_name: str
    parameters: tuple[str, ...]
    factor: Float[ndarray, " widths"]
    log_evidence: Float[ndarray, " widths"]
    change: Float[ndarray, " widths"]
    change_error: Float[ndarray, " widths"]
    pareto_shape: Float[ndarray, " widths"]
    is_new_run: Bool[ndarray, " widths"]

    def __repr__(self) -> str:
        return text.narrow_table(*self._cells())

    def _repr_html_(self) -> str:
        return text.html_table(*self._cells())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the change of the log evidence, with two standard errors, against the width.

        `ax` are axes to draw into; a new pyplot figure if not given. Returns the axes.
        """
        from evidentia.display.plots import draw_sensitivity

        curve = {self.model_name: (self.change, self.change_error)}
        return draw_sensitivity(self.factor, curve, "change of log evidence (nats)", ax)

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        header = ("width", "log evidence", "change (nats)", "BF", "evidence", "from")
        return header, [
            (
                f"{factor:.3g}",
                f"{self.log_evidence[i]:,.2f}",
                text.with_error(self.change[i], self.change_error[i]),
                words.short(self.change[i]),
                words.evidence(self.change[i]),
                self._origin(i),
            )
            for i, factor in enumerate(self.factor)
        ]

    def _origin(self, place: int) -> str:
        if self.factor[place] == 1:
            return "the model"
        if self.is_new_run[place]:
            return "a new run"
        return "the same integral" if np.isnan(self.pareto_shape[place]) else "the same draws"


def prior_sensitivity(
    evidence: Evidence, *, factors: Iterable[float] = FACTORS, parameters: Sequence[str] | None = None
) -> PriorSensitivity:
    """The log evidence of the same data under narrower and wider priors.

    The posterior draws of the run are reweighted by the ratio of the priors. Where the Pareto
    shape of these weights is above 0.7, the model is run anew. For a `Regression` with an exact
    evidence, the integral is computed anew.

    Args:
        evidence: from `estimate`, in this session.
        factors: widths of the priors, relative to the model's own.
        parameters: names of the parameters whose priors are widened together. By default all whose
            priors have a width and depend on no other parameter: scales are multiplied and rates
            divided by the factor; uniform, beta and Dirichlet priors stay as they are. For a
            `Regression`: the effects.

    Returns:
        A table with the given factors and 1, and `plot()`.

    Raises:
        ConfigurationError: an invalid argument; no parameter has a width; a loaded result, which
            has no model.

    Example:
        >>> ev.prior_sensitivity(evidence)  # doctest: +SKIP
        width  log evidence  change (nats)     BF           evidence            from
        0.5         -201.12    0.55 ± 0.02   1.73      anecdotal for  the same draws
        1           -201.67           0.00      1               none       the model
        2           -202.30   -0.63 ± 0.01  0.533  anecdotal against  the same draws

    Source: Kallioinen, Paananen, Bürkner, Vehtari (2024), Statistics and Computing 34, 57, for the
        reweighting and its check.
    """
    check_not_forked()
    widths = evidence.widths if isinstance(evidence, Evidence) else None
    if widths is None:
        raise ConfigurationError(
            "evidence must be the result of estimate in this session, which knows its model; got one without, such as a "
            "loaded one (estimate the model again), or one with a prior_transform, whose width is not known."
        )
    wanted = _checked(factors)
    if isinstance(parameters, str):
        raise ConfigurationError(f"parameters must be a list of names; got {parameters!r}.")
    chosen = (
        widths.parameters if parameters is None else tuple(dict.fromkeys(names_in("parameters", parameters)))
    )
    if not chosen:
        raise ConfigurationError(
            f"{evidence.model_name}: no prior has a width of its own, so there is nothing to change. Estimate the model with "
            "other priors instead."
        )
    changes = [Change(0.0, 0.0) if factor == 1 else widths.change(factor, chosen) for factor in wanted]
    columns = [np.array(column) for column in zip(*changes, strict=True)]
    change, error, shape, is_new_run = columns
    return PriorSensitivity(
        evidence.model_name,
        chosen,
        np.array(wanted),
        evidence.log_evidence + change,
        change,
        error,
        shape,
        is_new_run,
    )


def _checked(factors: Iterable[float]) -> list[float]:
    """The factors with 1 among them, ascending."""
    if not isinstance(factors, Iterable):
        raise ConfigurationError(f"factors must be a list of positive numbers; got {factors!r}.")
    given = list(factors)
    for factor in given:
        check_positive("factors", factor)
    return sorted({float(factor) for factor in given} | {1.0})
