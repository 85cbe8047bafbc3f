"""A regression's model and arrays, in its own units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpy import ndarray

from evidentia.cluster import worker
from evidentia.cluster.engine import Engine, results
from evidentia.data.batches import Batch
from evidentia.evidence.laplace import Laplace
from evidentia.model.bound import BoundModel
from evidentia.model.local.packs import Packs
from evidentia.model.model import Model
from evidentia.posterior.rows import Window
from evidentia.regression import crossed
from evidentia.regression.compact import Layout, arrays_of, layout_of
from evidentia.regression.coordinates import Coordinates
from evidentia.regression.deviations import Integrand, OverDeviations, positions_of
from evidentia.regression.families import Family, gaussian
from evidentia.regression.frame import Frame, block_size
from evidentia.regression.laplace_integrand import LaplaceIntegrand
from evidentia.regression.normal_integrand import columns_of
from evidentia.regression.perfect_fit import check_model
from evidentia.regression.predictor import Predictor, log_density, log_likelihood_of
from evidentia.regression.priors import priors_of
from evidentia.regression.random_effects import RandomEffects, random_effects_of
from evidentia.regression.response import arrays_of_response, response_of, wanted_of
from evidentia.regression.row_derivatives import Responses, is_log_concave
from evidentia.regression.scaled_response import Response, Wanted
from evidentia.regression.streamed import Streamed
from evidentia.regression.working import working_of
from evidentia.results.result import Evidence

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_QUICK = 1 << 20  # numbers of a dense matrix, of which thousands are made in minutes


class Prepared(NamedTuple):
    """A regression's model and arrays, in its own units, and what leads back to the table's.

    `arrays` are by name; of rows in files or on a cluster, an engine that makes them there.
    """

    model: Model
    arrays: Any
    law: Family
    response: Response
    varying: RandomEffects | None
    packs: Packs | None
    integrand_of: Callable[[BoundModel, Window], Integrand] | None = None

    @property
    def is_quick(self) -> bool:
        """Whether the likelihood can be evaluated thousands of times: no large crossed factors."""
        if self.varying is None or self.integrand_of is None:
            return True
        others = sum(one.count for one in self.varying.outer)
        return others * (others + self.varying.inner.count) <= MOST_QUICK

    def check(self, frame: Frame, table: DataFrame | Streamed) -> float:
        """Refuse a perfect fit; of others, the error of the log evidence by rounding, in nats."""
        assert isinstance(self.model.prior, Mapping)
        groups = () if self.varying is None else self.varying.factors
        return float(check_model(frame, table, self.law, self.model.prior, groups)[0])


def prepared(
    law: Family,
    frame: Frame,
    table: DataFrame | Streamed,
    method: Any,
    replaced: Mapping[str, dist.Distribution],
    prior: str,
    prior_scale: float,
    name: str,
) -> Prepared:
    """The model of a table without missing values, and its arrays, in a form for a method.

    Of effects that vary by group, the table must be in memory. `replaced` are priors by name, in
    place of the others, which `prior` and its scale determine.
    """
    response = response_of(frame, table, law)
    varying, integrand_of = None, None
    if frame.formula.varying:
        assert not isinstance(table, Streamed)
        varying = random_effects_of(
            frame.formula,
            table,
            is_gaussian=law.log_density is gaussian,
            is_centred=isinstance(method, Laplace | OverDeviations),
            is_eliminated=isinstance(method, OverDeviations) and is_log_concave(law),
        )
    more = {} if varying is None else dict(varying.priors(response, replaced))
    own = () if varying is None else varying.sd_names
    fixed = {name: prior for name, prior in replaced.items() if name not in own}
    priors = priors_of(law, response, frame, fixed, prior, prior_scale)
    packs, layout, arrays = None, *_arrays(frame, table, law, response)
    outputs = (len(response.levels) - 1,) if law.kind == "category" else ()
    predictor = Predictor(frame.names, layout, frozenset(fixed), outputs)
    if varying is None:
        log_likelihood = log_likelihood_of(law, predictor)
    elif varying.is_exact:
        arrays |= crossed.arrays_of(varying.inner, varying.outer)
        log_likelihood = found = crossed.Crossed(predictor, priors | more, varying.inner, varying.outer)
        integrand_of = partial(_of_normal, found, arrays)
    else:
        if varying.outer and is_log_concave(law):
            integrand_of = partial(_of_others, law, predictor, priors | more, varying, arrays)
        arrays, packs = varying.packed(arrays)
        log_likelihood = varying.log_likelihood(partial(log_density, law), predictor)
    priors |= more
    model = Model(priors, log_likelihood, name=name)
    if isinstance(log_likelihood, crossed.Crossed):
        model = replace(model, pointwise=False, starts=crossed.starts_of(priors))
    return Prepared(model, arrays, law, response, varying, packs, integrand_of)


def _arrays(frame: Frame, table: DataFrame | Streamed, law: Family, response: Response) -> tuple[Layout, Any]:
    """How the columns are held, and the arrays as `Prepared` has them."""
    if not isinstance(table, Streamed):
        layout = layout_of(frame, table)
        return layout, {**response.arrays, **_columns(frame, layout, response, table)}
    layout = layout_of(frame, table.sample)
    make = partial(_made, frame, layout, response, wanted_of(frame, table, law))
    return layout, table.spread(make, block_size(len(frame.names)))


def _columns(frame: Frame, layout: Layout, response: Response, table: DataFrame) -> dict[str, ndarray]:
    arrays, offset = arrays_of(layout, frame, table), frame.offset(table)
    if offset is not None:
        arrays["offset"] = (offset / response.scale).astype(np.float32)
    return arrays


def _made(
    frame: Frame, layout: Layout, response: Response, wanted: Wanted, table: DataFrame
) -> dict[str, ndarray]:
    """The arrays of some rows, at the worker that has them."""
    return {
        **arrays_of_response(frame, wanted, response, table),
        **_columns(frame, layout, response, table),
    }


def _of_normal(
    likelihood: crossed.Crossed, arrays: Mapping[str, ndarray], model: BoundModel, rows: Window
) -> Integrand:
    return likelihood.integrand(arrays)


def _of_others(
    law: Family,
    predictor: Predictor,
    prior: Mapping[str, dist.Distribution],
    varying: RandomEffects,
    arrays: Mapping[str, ndarray],
    model: BoundModel,
    rows: Window,
) -> Integrand:
    """Of responses that are not normal, whose likelihood is the model's."""

    def log_likelihood(params: Mapping[str, ndarray]) -> ndarray:
        deviations, offset = rows.log_likelihoods(model, positions_of(model, params))
        return deviations + offset

    working = working_of(prior, varying.factors)
    blocks = list(columns_of(predictor, prior, working.sizes, arrays))
    columns, offset = (np.concatenate(part) for part in zip(*blocks, strict=True))
    responses = Responses(law, arrays, columns, offset)
    information = float(np.mean(responses.expand(offset).weights))
    coordinates = Coordinates(varying.factors, prior, information)
    return LaplaceIntegrand(coordinates, working, responses, log_likelihood)


def is_separated(model: Model, evidence: Evidence, arrays: Any) -> bool:
    """Whether the mean effects give every row's own category a probability above one half.

    The likelihood then grows without end along them: the categories are separated.
    """
    shares = np.exp(evidence.weighted.log_weights)
    mean = {name: np.tensordot(shares, draws, 1) for name, draws in evidence.weighted.items()}
    if isinstance(arrays, Engine):
        call = worker.answer, worker.versions(), arrays.shipped(model), _least
        found = [one for one in results(arrays, *call, mean) if one is not None]
        return min(found) > np.log(0.5)
    return float(np.min(model.log_likelihood(_on_device(mean), dict(arrays)))) > np.log(0.5)


def _least(batches: Iterator[Batch], model: Model, params: Mapping[str, ndarray]) -> float | None:
    """The smallest log-likelihood of the rows of a partition; None without rows."""
    given = _on_device(params)
    found = [float(np.min(model.log_likelihood(given, one.arrays))) for one in batches if one.num_rows]
    return min(found, default=None)


def _on_device(params: Mapping[str, ndarray]) -> dict[str, jax.Array]:
    return {name: jnp.asarray(values) for name, values in params.items()}
