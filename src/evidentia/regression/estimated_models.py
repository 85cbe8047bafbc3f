"""Sub-models whose evidence is estimated, by one compiled program.

All models have the shape of the largest: the columns of absent terms are set to zero. Their
effects then leave the likelihood, their prior integrates to one, and the evidence is that of the
sub-model. For the unit-information prior N(0, (XᵀX i / n)⁻¹) of the sub-model's columns X, with i
the information of a row and XᵀX i / n = L Lᵀ, the columns are X L⁻ᵀ and all effects N(0, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.data.arrays import as_arrays, num_rows, on_device, shuffled
from evidentia.display import text
from evidentia.errors import ConfigurationError, DiagnosticWarning, warn
from evidentia.evidence.sgais import SGAIS
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.posterior.rows import Window
from evidentia.regression.averages import Averages
from evidentia.regression.compact import Layout, arrays_of
from evidentia.regression.families import Family
from evidentia.regression.frame import Frame
from evidentia.regression.model_space import ModelSpace, well_formed
from evidentia.regression.perfect_fit import check_model
from evidentia.regression.predictor import Predictor, log_likelihood_of
from evidentia.regression.priors import WIDTH, priors_of, root_of_information
from evidentia.regression.regression import Regression
from evidentia.regression.response import response_of
from evidentia.regression.scaled_response import Response
from evidentia.regression.units import posterior_of
from evidentia.weights import model_probabilities, normalise

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_ESTIMATED = 256
SECONDS, SECONDS_PER_VALUE = 0.2, 5e-7  # of a model, and for each value of its columns, on two cores
NUM_DRAWS = 4000  # from the mixture of all models, for predictions


class OneModel(NamedTuple):
    """A sub-model's log evidence in nats with its standard error, draws, and signs of trouble."""

    log_evidence: float
    standard_error: float
    posterior: dict[str, ndarray]  # coefficients in the units of the table
    log_weights: Float[ndarray, " draws"]
    signs: Mapping[str, str]


def estimated(
    regression: Regression, frame: Frame, table: DataFrame, space: ModelSpace, seed: int
) -> Averages:
    """The evidences of all sub-models by `SGAIS()`, and averages over them.

    Raises:
        ConfigurationError: more than `MOST_ESTIMATED` models, with the time they would take.
        DataError: a response that the family cannot have.
    """
    included = well_formed(space.needs, MOST_ESTIMATED)
    if included is None:
        seconds = space.num_models * (SECONDS + SECONDS_PER_VALUE * frame.num_rows * len(frame.names))
        raise ConfigurationError(
            f"formula has {space.num_models:,.6g} sub-models, whose evidences would take about {text.duration(seconds)} to "
            f"estimate; at most {MOST_ESTIMATED} are estimated. Give select_terms fewer terms; or, for the family "
            "gaussian, prior='jzs', whose evidence is exact."
        )
    law = regression.law
    formula = frame.formula
    if not (formula.has_intercept or formula.terms or formula.varying or law.extra):
        raise ConfigurationError(f"formula must have terms to select from; got {regression.formula!r}.")
    models = _evidences(regression, law, frame, table, included, seed)
    log_evidence = np.array([one.log_evidence for one in models])
    errors = np.array([one.standard_error for one in models])
    _warn(models, regression)
    prior = np.exp(space.log_prior[included.sum(axis=1)])
    probability, probability_error = model_probabilities(log_evidence, errors, prior)
    inclusion = probability @ included
    # to first order, ∂P(term) / ∂log Zᵢ = pᵢ ([term in i] - P(term))
    inclusion_error = np.sqrt(np.square(probability * errors) @ np.square(included - inclusion))
    null = int(included.sum(axis=1).argmin())
    factor_errors = np.hypot(errors, errors[null])
    factor_errors[null] = 0.0
    return Averages(
        included,
        log_evidence - log_evidence[null],
        factor_errors,
        probability,
        probability_error,
        inclusion,
        inclusion_error,
        1.0,
        _means(models, probability, ("Intercept", *frame.names)),
        _mixture(models, probability, ("Intercept", *frame.names, *law.of_mean), seed),
    )


def _evidences(
    regression: Regression,
    law: Family,
    frame: Frame,
    table: DataFrame,
    included: Bool[ndarray, "models terms"],
    seed: int,
) -> list[OneModel]:
    """One bound model, run with the columns of each sub-model."""
    response, offset = response_of(frame, table, law), frame.offset(table)
    choice, width = regression.prior or "normal", regression.prior_scale or WIDTH
    priors = priors_of(law, response, frame, {}, choice, width)
    rounding = check_model(frame, table, law, priors, sets=tuple(_places(frame, one) for one in included))
    if choice == "unit-information" and frame.names:
        priors["effects"] = dist.Normal(0.0, 1.0).expand((len(frame.names),)).to_event(1)
    layout = Layout(tuple(range(len(frame.names))), ())  # zeros need columns of their own
    model = Model(priors, log_likelihood_of(law, Predictor(frame.names, layout)), name=frame.formula.text)
    arrays = {**response.arrays, **arrays_of(layout, frame, table)}
    columns = arrays.get("x")
    if offset is not None:
        arrays["offset"] = (offset / response.scale).astype(np.float32)
    bound: BoundModel | None = None
    found, key = [], jax.random.key(seed)
    for place in np.argsort(-included.sum(axis=1), kind="stable"):  # the largest first: all is checked on it
        root = _root(frame, included[place], choice, response)
        if columns is not None:
            arrays["x"] = columns @ root.astype(np.float32)
        rows = shuffled(as_arrays(arrays), seed)
        bound = bound or model.bind(rows)
        one = _run(bound, rows, jax.random.fold_in(key, int(place)), frame, response, law, root)
        found.append(one._replace(standard_error=float(np.hypot(one.standard_error, rounding[place]))))
    order = np.argsort(np.argsort(-included.sum(axis=1), kind="stable"))
    return [found[place] for place in order]


def _places(frame: Frame, included: Bool[ndarray, " terms"]) -> ndarray:
    """Of the columns of the terms that a sub-model has."""
    chosen = [np.r_[place] for place, is_in in zip(frame.terms.values(), included, strict=True) if is_in]
    return np.concatenate([np.zeros(0, int), *chosen])


def _root(
    frame: Frame, included: Bool[ndarray, " terms"], choice: str, response: Response
) -> Float[ndarray, "columns columns"]:
    """The matrix that makes a sub-model's columns of the table's, and effects of the model's."""
    places = _places(frame, included)
    root = np.zeros((len(frame.names), len(frame.names)))
    root[places, places] = 1.0
    if choice == "unit-information" and len(places):
        assert response.information is not None  # `priors_of` refuses others
        correlations = frame.correlations[np.ix_(places, places)]
        root[np.ix_(places, places)] = root_of_information(correlations, response.information)
    return root


def _run(
    bound: BoundModel,
    rows: Mapping[str, ndarray],
    key: jax.Array,
    frame: Frame,
    response: Response,
    law: Family,
    root: Float[ndarray, "columns columns"],
) -> OneModel:
    """The evidence for the values of the table, and its posterior."""
    *_, last = SGAIS().run(bound, Window(on_device(rows), 0, num_rows(rows)), key)
    assert last.estimate is not None
    params = {
        name: np.asarray(values, np.float64) for name, values in bound.constrain(last.positions).items()
    }
    if "effects" in params:
        params["effects"] = params["effects"] @ root.T
    posterior = posterior_of(params, frame, response, law)
    estimate = last.estimate
    return OneModel(
        estimate.log_evidence + response.log_jacobian * frame.num_rows,
        estimate.standard_error,
        {name: posterior[name] for name in ("Intercept", *frame.names, *law.of_mean) if name in posterior},
        normalise(last.log_weights),
        last.diagnose().signs,
    )


def _means(
    models: list[OneModel], probability: Float[ndarray, " models"], names: tuple[str, ...]
) -> dict[str, Any]:
    """Posterior means of the coefficients averaged over the models."""
    averaged = {
        name: sum(
            chance * np.tensordot(np.exp(one.log_weights), one.posterior[name], 1)
            for chance, one in zip(probability, models, strict=True)
        )
        for name in names
        if name in models[0].posterior
    }
    return {
        name: float(value) if np.ndim(value) == 0 else np.asarray(value) for name, value in averaged.items()
    }


def _mixture(
    models: list[OneModel], probability: Float[ndarray, " models"], names: tuple[str, ...], seed: int
) -> Float[ndarray, "draws coefficients"]:
    """Draws of parameters from the mixture of the models' posteriors; 0 where a model has none.

    A categorical response, whose coefficients are vectors, has no mean to predict.
    """
    if models[0].posterior and next(iter(models[0].posterior.values())).ndim > 1:
        return np.zeros((0, len(names)))
    generator = np.random.default_rng(seed)
    counts = np.floor(NUM_DRAWS * np.cumsum(probability) + generator.random()).astype(int)
    drawn = []
    for one, count in zip(models, np.diff(counts, prepend=0), strict=True):
        places = generator.choice(len(one.log_weights), count, p=np.exp(one.log_weights))
        none = np.zeros(count)
        columns = (one.posterior[name][places] if name in one.posterior else none for name in names)
        drawn.append(np.stack(list(columns), axis=1))
    return np.concatenate(drawn)


def _warn(models: list[OneModel], regression: Regression) -> None:
    signs = [sign for one in models for sign in one.signs.values()]
    if signs:
        count = sum(bool(one.signs) for one in models)
        warn([f"{regression.formula}: of {count} of {len(models)} sub-models, {signs[0]}"], DiagnosticWarning)
