"""`Regression`: a formula in place of a model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro.distributions as dist

from evidentia.errors import ConfigurationError, check_positive, is_one_of, warn
from evidentia.regression.collinear import note
from evidentia.regression.deviations import OverDeviations
from evidentia.regression.exact import CONSTANTS, evidence_of
from evidentia.regression.families import CATEGORIES, ESTIMATES, Family, family
from evidentia.regression.formula import parse
from evidentia.regression.frame import Frame, frame_of
from evidentia.regression.frequencies import check_weights, with_weights
from evidentia.regression.laplace_first import at_the_mode
from evidentia.regression.left_hand_side import check_family
from evidentia.regression.per_term.answer import IN_WORDS, check_asked, evidence_per_term
from evidentia.regression.predictive import FormulaPredictor
from evidentia.regression.prepared import Prepared, is_separated, prepared
from evidentia.regression.priors import JZS_SCALE, WIDTH, in_words
from evidentia.regression.sampled_coefficients import coefficients_of
from evidentia.regression.scaled_columns import with_scaled_columns
from evidentia.regression.streamed import Streamed, rows_of
from evidentia.regression.units import in_table_units
from evidentia.regression.varying_effects import VaryingEffects
from evidentia.results.result import Evidence
from evidentia.results.weighted import Weighted

if TYPE_CHECKING:
    from pandas import DataFrame

Run = Callable[..., Evidence]  # of a model and arrays, with another method if given
PRIORS = "jzs", "unit-information", "normal"
SHARED, PER_TERM = "shared", "per-term"
SEPARATED = (
    "{}: the columns separate the categories of the response, so that only the prior bounds the effects. The evidence is "
    "defined, and depends on the prior's width: see prior_sensitivity."
)


@dataclass(frozen=True)
class Regression:
    """A regression by a formula, which `estimate` takes with a table in place of a model and data.

    Args:
        formula: as in R: `"log(price) ~ log(carat) + cut"`. Text columns and pandas Categoricals
            are coded against their first category; `a:b` and `a * b` are interactions, `bs(x,
            df=4)` a spline, `C(x)` a category written as numbers, `offset(x)` a term whose effect
            is one, `- 1` leaves the intercept out. `(1 + x | g)` lets effects vary by the groups
            of a column, `(1 | a/b)` by nested ones, `(x || g)` without correlations. A binomial
            response is `successes | trials`, a censored time `Surv(time, status)`, an estimate
            with a known standard error `y | se(s)`. A name within backticks is a column.
            Arithmetic is float64, with NumPy's functions; a mean, as in `I(x - x.mean())`, is
            that of all rows, of files too. Columns that those before them determine are left out,
            with a warning.
        family: the law of the response: gaussian, student-t, bernoulli, binomial, poisson,
            negative-binomial, gamma, beta, categorical or ordinal; with further zeros
            zero-inflated-poisson, zero-inflated-negative-binomial, hurdle-poisson,
            hurdle-negative-binomial, zero-inflated-beta or zero-one-inflated-beta; of times
            exponential, weibull or lognormal.
        link: of the mean; `"probit"` in place of bernoulli's logit.
        prior: of the effects. `"jzs"`, the default for gaussian: a Cauchy on standardised effects,
            flat on the intercept and Jeffreys on the variance, both shared by all models of the
            response; its evidence is exact up to the constant of these two. `"unit-information"`:
            as much information as one row has. `"normal"`, the default for the others, and for
            gaussian with `priors` or effects that vary: normal with deviation `prior_scale` for
            one standard deviation of a column (and of the response, for gaussian and student-t).
        prior_scale: √2/4 for `"jzs"`, 2.5 for `"normal"` if not given.
        priors: NumPyro distributions that replace priors by the name of a parameter, such as
            `{"carat": dist.Normal(1.7, 0.1)}`, in the units of the table. That of `Intercept` is
            of the predictor at the means of the columns, and that of `sd(Intercept|g)` of its
            deviation there; the posterior has both where all columns are 0.
        missing: `"drop"` leaves rows with missing values out, with a warning; `"error"` refuses
            them.
        weights: the name of a column of frequencies: a row with weight k counts as k equal rows,
            and one with weight 0 is left out. The evidence is that of the table with repeated
            rows.
        g: of `"jzs"`: `"shared"` by all columns, or `"per-term"`, as in `ev.bf.anova`: each factor
            and interaction has a g of its own (r = 1/2) and effects that sum to zero; covariates
            share one (r = √2/4). The integral over them is exact to about 10⁻⁴ nats.

    Raises:
        ConfigurationError: an argument that is not among these; a formula that does not parse,
            with the place.

    Example:
        >>> Regression("rating ~ complaints + learning")
        Regression('rating ~ complaints + learning', gaussian)
    """

    formula: str
    family: str = "gaussian"
    link: str | None = None
    prior: str | None = None
    prior_scale: float | None = None
    priors: Mapping[str, dist.Distribution] = field(default_factory=dict[str, dist.Distribution])
    missing: str = "drop"
    weights: str | None = None
    g: str = SHARED

    def __post_init__(self) -> None:
        parsed, _ = parse(self.formula), family(self.family, self.link)
        check_weights(self.weights)
        if not (self.prior is None or is_one_of(self.prior, PRIORS)):
            raise ConfigurationError(f"prior must be one of {', '.join(PRIORS)}; got {self.prior!r}.")
        if self.prior == "jzs" and self.family != "gaussian":
            raise ConfigurationError(
                f"prior='jzs' is for the family gaussian; got {self.family}. Use 'normal' or 'unit-information'."
            )
        if self.prior == "jzs" and self.priors:
            raise ConfigurationError(
                "priors cannot be replaced under prior='jzs'; use prior='normal' with them."
            )
        if self.prior_scale is not None:
            check_positive("prior_scale", self.prior_scale)
            if self.prior == "unit-information":
                raise ConfigurationError("prior='unit-information' has no prior_scale.")
        if not is_one_of(self.g, (SHARED, PER_TERM)):
            raise ConfigurationError(f"g must be 'shared' or 'per-term'; got {self.g!r}.")
        if self.g == PER_TERM:
            is_fit = self.is_exact and self.prior != "unit-information" and parsed.has_intercept
            check_asked(self.formula, self.prior_scale, is_fit=is_fit)
        if self.family == "categorical" and parsed.offsets:
            raise ConfigurationError(
                f"a formula of the family categorical must have no offset; got {self.formula!r}."
            )
        is_exact_prior = self.family == "gaussian" and self.prior in ("jzs", "unit-information")
        if parsed.varying and (self.family == "categorical" or is_exact_prior):
            raise ConfigurationError(
                f"effects that vary by group, as in {self.formula!r}, need another family than categorical and prior='normal' (--prior normal)."
            )
        check_family(parsed.left, self.formula, self.family, self.prior)

    def __repr__(self) -> str:
        return f"Regression({self.formula!r}, {self.family})"

    @property
    def variables(self) -> list[str]:
        """The columns of a table that are used."""
        return with_weights(parse(self.formula).variables, self.weights)

    @property
    def law(self) -> Family:
        """The law of the response given its predictor."""
        is_estimate = parse(self.formula).left.form == "error"
        return ESTIMATES if is_estimate else family(self.family, self.link)

    @property
    def is_exact(self) -> bool:
        """Whether the evidence is an integral that is computed without sampling."""
        return (
            self.family == "gaussian"
            and parse(self.formula).left.form == "plain"
            and not self.priors
            and self.prior in (None, "jzs", "unit-information")
            and not parse(self.formula).varying
        )

    @property
    def constant(self) -> str | None:
        """What the log evidence lacks, as in `Evidence.constant`."""
        return CONSTANTS[parse(self.formula).has_intercept] if self.is_exact else None

    @property
    def prior_in_words(self) -> str:
        """The prior of the effects, and why it is not JZS if that is the default of the family."""
        if self.g == PER_TERM:
            return IN_WORDS
        choice, instead = self.prior or ("jzs" if self.is_exact else "normal"), ""
        if self.family == "gaussian" and self.prior is None and not self.is_exact:
            instead = "priors that are replaced" if self.priors else "effects that vary by group"
            instead = instead if self.law.extra else "known standard errors"
        return in_words(choice, self.prior_scale, instead)

    def answer(self, data: Any, method: Any, seed: int, run: Run) -> Evidence:
        """The evidence of a table; `run` estimates that of a model and arrays, with `method`.

        Raises:
            DataError, ConfigurationError: a table or terms that cannot be used; a method for an
                exact result.
        """
        started = time.perf_counter()
        parsed = parse(self.formula)
        table = self.rows_of(data)
        if not self.is_exact:
            table = _held(table, is_grouped=bool(parsed.varying))
            frame = frame_of(parsed, table, self.law)
            found = self._estimated(frame, table, method, run)
            own = {"prior": self.prior_in_words} if found.weighted else {}
            diagnostics = {**found.diagnostics, **own, **_left_out(frame)}
            fingerprints = frame.fingerprints if found.completed else {}
            return replace(found, diagnostics=diagnostics, fingerprints=fingerprints)
        if method is not None:
            raise ConfigurationError(
                f"method must be left out for {self.formula!r}: under prior={self.prior or 'jzs'!r} its evidence is an "
                "exact integral. With prior='normal' any method can be used."
            )
        scale = None if self.prior == "unit-information" else self.prior_scale or JZS_SCALE
        if self.g == PER_TERM:
            table = table.in_memory() if isinstance(table, Streamed) else table
            frame = frame_of(parsed, table, self.law)
            found = evidence_per_term(frame, table, seed, started)
        else:
            frame = frame_of(parsed, table, self.law)
            found = evidence_of(frame, table, scale, seed, started)
        diagnostics = {**found.diagnostics, "prior": self.prior_in_words, **_left_out(frame)}
        predictor = FormulaPredictor(frame, self.family, self.law)
        return replace(found, diagnostics=diagnostics, fingerprints=frame.fingerprints, _predictor=predictor)

    def rows_of(self, data: Any) -> DataFrame | Streamed:
        """The rows of a table or files, each as often as it counts."""
        return rows_of(data, parse(self.formula).variables, self.missing, self.weights)

    def _estimated(self, frame: Frame, table: DataFrame | Streamed, method: Any, run: Run) -> Evidence:
        is_free = method is None and bool(frame.formula.varying)  # to choose a method
        asked, evidence = self.prepared(frame, table, OverDeviations() if is_free else method), None
        rounding = asked.check(frame, table)
        if is_free:
            assert asked.varying is not None
            evidence = at_the_mode(asked, partial(run, asked.model, asked.arrays))
            asked = asked if evidence is not None else self.prepared(frame, table, method)
        if evidence is None:
            evidence = run(asked.model, asked.arrays)
        evidence = with_scaled_columns(evidence, asked.arrays, partial(run, asked.model))
        evidence = replace(evidence, standard_error=float(np.hypot(evidence.standard_error, rounding)))
        found = in_table_units(evidence, frame, asked.response, asked.law, _observed(frame, table))
        levels = asked.response.levels[1:] if asked.law.kind == "category" else ()
        rule = int(evidence.diagnostics.get("inner_rule", 0))
        varying = None if asked.varying is None else VaryingEffects(asked, rule)
        found = replace(
            found,
            _predictor=FormulaPredictor(frame, self.family, self.law, asked.response.levels, varying),
            _coefficients=coefficients_of(
                asked.model, asked.arrays, evidence, found, frame.names, levels, is_quick=asked.is_quick
            ),
        )
        if asked.varying is not None:
            return replace(found, weighted=_with_varying(found.weighted, evidence.weighted, asked))
        if asked.law.kind in CATEGORIES and is_separated(asked.model, evidence, asked.arrays):
            warn([SEPARATED.format(self.formula)])
        return found

    def prepared(self, frame: Frame, table: DataFrame | Streamed, method: Any) -> Prepared:
        """The model of a table without missing values, and its arrays, in a form for a method."""
        prior, scale = self.prior or "normal", self.prior_scale or WIDTH
        return prepared(self.law, frame, table, method, self.priors, prior, scale, self.formula)


def _with_varying(weighted: Weighted, own: Weighted, asked: Prepared) -> Weighted:
    """Draws in the units of the table, with those of effects that vary."""
    varying, known = asked.varying, weighted.model
    assert varying is not None and known is not None and known.shown is not None
    fixed = known.shown

    def shown(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**fixed(params), **varying.in_table_units(params, asked.response)}

    return replace(weighted, parameters=shown(own.parameters), model=replace(known, shown=shown))


def _held(table: DataFrame | Streamed, *, is_grouped: bool) -> DataFrame | Streamed:
    """The rows in memory, or where they are if these are too many or on a cluster.

    Groups need all of their rows in one place.
    """
    if not isinstance(table, Streamed):
        return table
    return table.in_memory() if is_grouped else table.held()


def _observed(frame: Frame, table: DataFrame | Streamed) -> dict[str, np.ndarray]:
    """The response, as far as it is numbers in memory."""
    if isinstance(table, Streamed):
        return {}
    values = frame.response.values(table).to_numpy()
    return {frame.formula.response: values} if values.dtype.kind in "biuf" else {}


def _left_out(frame: Frame) -> dict[str, str]:
    """The columns that others stand for, for the diagnostics of a result."""
    return {"left_out": note(frame.aliased)} if frame.aliased else {}
