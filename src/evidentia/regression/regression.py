"""`Regression`: a formula in place of a model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpy import ndarray

from evidentia.errors import ConfigurationError, check_positive, warn
from evidentia.evidence.laplace import Laplace
from evidentia.model.local.packs import Packs
from evidentia.model.model import Model
from evidentia.model.program import LogLikelihood
from evidentia.regression import crossed
from evidentia.regression.compact import Layout, arrays_of, layout_of
from evidentia.regression.exact import JZS_SCALE, evidence_of
from evidentia.regression.families import CATEGORIES, Family, family
from evidentia.regression.formula import parse
from evidentia.regression.frame import Frame, frame_of
from evidentia.regression.laplace_first import at_the_mode
from evidentia.regression.no_parameters import evidence_without_parameters, has_parameters
from evidentia.regression.perfect_fit import check_model
from evidentia.regression.priors import WIDTH, priors_of
from evidentia.regression.random_effects import RandomEffects, random_effects_of
from evidentia.regression.response import Response, response_of
from evidentia.regression.streamed import Streamed, rows_of
from evidentia.regression.units import in_table_units
from evidentia.result import Evidence

if TYPE_CHECKING:
    from pandas import DataFrame

Predictor = Callable[[Mapping[str, Any], Mapping[str, Any]], jax.Array]
Run = Callable[..., Evidence]  # of a model and arrays, with another method if given
PRIORS = "jzs", "unit-information", "normal"
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
            of a column, `(1 | a/b)` by nested ones. A binomial response is `successes | trials`.
            Formulas may call Python's functions of numbers: do not run those of strangers.
        family: the law of the response: gaussian, student-t, bernoulli, binomial, poisson,
            negative-binomial, gamma, beta, categorical or ordinal.
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
            of the predictor at the means of the columns.
        missing: `"drop"` leaves rows with missing values out, with a warning; `"error"` refuses
            them.

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
    priors: Mapping[str, dist.Distribution] = field(default_factory=dict)
    missing: str = "drop"

    def __post_init__(self):
        parsed, _ = parse(self.formula), family(self.family, self.link)
        if self.prior not in (None, *PRIORS):
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
        if self.family == "categorical" and parsed.offsets:
            raise ConfigurationError(
                f"a formula of the family categorical must have no offset; got {self.formula!r}."
            )
        is_exact_prior = self.family == "gaussian" and self.prior in ("jzs", "unit-information")
        if parsed.varying and (self.family == "categorical" or is_exact_prior):
            raise ConfigurationError(
                f"effects that vary by group, as in {self.formula!r}, need another family than categorical and prior='normal'."
            )
        if (parsed.trials is not None) != (self.family == "binomial"):
            raise ConfigurationError(
                "a response 'successes | trials' and the family binomial need each other; got the formula "
                f"{self.formula!r} and the family {self.family}."
            )

    def __repr__(self) -> str:
        return f"Regression({self.formula!r}, {self.family})"

    @property
    def variables(self) -> list[str]:
        """The columns of a table that are used."""
        return parse(self.formula).variables

    @property
    def is_exact(self) -> bool:
        """Whether the evidence is an integral that is computed without sampling."""
        return (
            self.family == "gaussian"
            and not self.priors
            and self.prior in (None, "jzs", "unit-information")
            and not parse(self.formula).varying
        )

    def answer(self, data: Any, method: Any, seed: int, run: Run) -> Evidence:
        """The evidence of a table; `run` estimates that of a model and arrays, with `method`.

        Raises:
            DataError, ConfigurationError: a table or terms that cannot be used; a method for an
                exact result.
        """
        started = time.perf_counter()
        parsed = parse(self.formula)
        table = rows_of(data, parsed.variables, self.missing)
        if not self.is_exact:
            table = table.in_memory() if isinstance(table, Streamed) else table
            frame = frame_of(parsed, table)
            if has_parameters(parsed, family(self.family, self.link)):
                found = self._estimated(frame, table, method, run)
            else:
                found = self._likelihood(frame, table, seed, started)
            return replace(found, fingerprints=frame.fingerprints if found.completed else {})
        if method is not None:
            raise ConfigurationError(
                f"method must be left out for {self.formula!r}: under prior={self.prior or 'jzs'!r} its evidence is an "
                "exact integral. With prior='normal' any method can be used."
            )
        scale = None if self.prior == "unit-information" else self.prior_scale or JZS_SCALE
        frame = frame_of(parsed, table)
        return replace(evidence_of(frame, scale, seed, started), fingerprints=frame.fingerprints)

    def _likelihood(self, frame: Frame, table: DataFrame, seed: int, started: float) -> Evidence:
        law, offset = family(self.family, self.link), frame.offset(table)
        offset = np.zeros(frame.num_rows) if offset is None else offset
        return evidence_without_parameters(
            frame.formula, law, response_of(frame, table, law), offset, seed, started
        )

    def _estimated(self, frame: Frame, table: DataFrame, method: Any, run: Run) -> Evidence:
        is_free = method is None and bool(frame.formula.varying)  # to choose a method
        asked, evidence = self.prepared(frame, table, Laplace() if is_free else method), None
        rounding = asked.check(frame, table)
        if is_free:
            assert asked.varying is not None
            evidence = at_the_mode(asked.varying, partial(run, asked.model, asked.arrays))
            asked = asked if evidence is not None else self.prepared(frame, table, method)
        if evidence is None:
            evidence = run(asked.model, asked.arrays)
        evidence = replace(evidence, standard_error=float(np.hypot(evidence.standard_error, rounding)))
        if asked.varying is not None:
            found = in_table_units(evidence, frame, asked.response, asked.law)
            shown = asked.varying.in_table_units(evidence.posterior, asked.response)
            return replace(found, posterior={**found.posterior, **shown})
        if asked.law.kind in CATEGORIES and is_separated(asked.model, evidence, asked.arrays):
            warn([SEPARATED.format(self.formula)])
        return in_table_units(evidence, frame, asked.response, asked.law)

    def prepared(self, frame: Frame, table: DataFrame, method: Any) -> Prepared:
        """The model of a table without missing values, and its arrays, in a form for a method."""
        law, offset = family(self.family, self.link), frame.offset(table)
        response = response_of(frame, table, law)
        varying = None
        if frame.formula.varying:
            varying = random_effects_of(
                frame.formula,
                table,
                is_gaussian=self.family == "gaussian",
                is_centred=isinstance(method, Laplace),
            )
        more = {} if varying is None else dict(varying.priors(response, self.priors))
        own = () if varying is None else varying.sd_names
        fixed = {name: prior for name, prior in self.priors.items() if name not in own}
        priors = priors_of(law, response, frame, fixed, self.prior or "normal", self.prior_scale or WIDTH)
        layout, packs = layout_of(frame, table), None
        arrays = {**response.arrays, **arrays_of(layout, frame, table)}
        if offset is not None:
            arrays["offset"] = (offset / response.scale).astype(np.float32)
        predictor = predictor_of(frame.names, layout, fixed)
        if varying is None:
            log_likelihood = log_likelihood_of(law, predictor)
        elif varying.is_exact:
            arrays |= crossed.arrays_of(varying.inner, varying.outer)
            log_likelihood = crossed.Crossed(predictor, varying.inner, varying.outer)
        else:
            arrays, packs = varying.packed(arrays)
            log_likelihood = varying.log_likelihood(partial(_log_density, law), predictor, packs)
        priors |= more
        model = Model(priors, log_likelihood, name=self.formula)
        if isinstance(log_likelihood, crossed.Crossed):
            model = replace(model, pointwise=False, starts=crossed.starts_of(priors))
        return Prepared(model, arrays, law, response, varying, packs)


class Prepared(NamedTuple):
    """A regression's model and arrays, in its own units, and what leads back to the table's."""

    model: Model
    arrays: dict[str, ndarray]
    law: Family
    response: Response
    varying: RandomEffects | None
    packs: Packs | None

    def check(self, frame: Frame, table: DataFrame) -> float:
        """Refuse a perfect fit; of others, the error of the log evidence by rounding, in nats."""
        assert isinstance(self.model.prior, Mapping)
        groups = () if self.varying is None else self.varying.factors
        return float(check_model(frame, table, self.law, self.model.prior, groups)[0])


def is_separated(model: Model, evidence: Evidence, arrays: Mapping[str, ndarray]) -> bool:
    """Whether the mean effects give every row's own category a probability above one half.

    The likelihood then grows without end along them: the categories are separated.
    """
    shares = np.exp(evidence.log_weights)
    mean = {name: jnp.asarray(np.tensordot(shares, draws, 1)) for name, draws in evidence.posterior.items()}
    return bool(np.min(model.log_likelihood(mean, dict(arrays))) > np.log(0.5))


def predictor_of(names: tuple[str, ...], layout: Layout, replaced: Mapping[str, Any]) -> Predictor:
    """The linear predictor of rows; effects with replaced priors are parameters of their own."""
    free = np.array([place for place, name in enumerate(names) if name not in replaced], np.int32)
    own = {name: place for place, name in enumerate(names) if name in replaced}

    def effects_of(params: Mapping[str, Any]) -> jax.Array:
        if not own:
            return params["effects"]
        effects = jnp.zeros(len(names))
        if len(free):
            effects = effects.at[free].set(params["effects"])
        for name, place in own.items():
            effects = effects.at[place].set(params[name])
        return effects

    def predictor(params: Mapping[str, Any], batch: Mapping[str, Any]) -> jax.Array:
        found = params.get("Intercept", jnp.zeros(()))[None]  # (1,), or (1, categories - 1)
        if names:
            found = found + layout.predictor(effects_of(params), batch)
        if "offset" in batch:
            found = found + batch["offset"]
        rows = next(iter(batch.values())).shape[:1]
        return jnp.broadcast_to(found, (*rows, *found.shape[1:]))

    return predictor


def log_likelihood_of(law: Family, predictor: Predictor) -> LogLikelihood:
    """The pointwise log-likelihood, without effects that vary by group."""
    return lambda params, batch: _log_density(law, predictor(params, batch), params, batch)


def _log_density(
    law: Family, predictor: jax.Array, params: Mapping[str, Any], batch: Mapping[str, Any]
) -> jax.Array:
    return law.log_density(predictor, batch, {name: params[name] for name in law.extra})
