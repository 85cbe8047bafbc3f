"""New responses of a regression: draws of the posterior predictive distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray
from scipy import stats

from evidentia.regression.families import IN_BRMS, Family
from evidentia.regression.formula import INTERCEPT
from evidentia.regression.frame import Frame
from evidentia.regression.table import as_table
from evidentia.regression.varying_effects import VaryingEffects
from evidentia.results.predicted import Chosen

if TYPE_CHECKING:
    from pandas import DataFrame

Extra = Mapping[str, ndarray]  # parameters besides the coefficients, (draws, 1)
Simulate = Callable[[np.random.Generator, ndarray, ndarray, Extra], ndarray]  # of predictors and means


@dataclass(frozen=True, eq=False)
class FormulaPredictor:
    """Draws responses for the rows of a table.

    Attributes:
        frame: of the table of the regression.
        family: its name.
        law: of the response given its predictor.
        levels: the categories of the response, if it has some.
        varying: the effects that vary by group, if there are some.
    """

    frame: Frame
    family: str
    law: Family
    levels: tuple[Any, ...] = ()
    varying: VaryingEffects | None = None

    def __call__(self, chosen: Chosen, table: Any, seed: int) -> dict[str, ndarray]:
        """Responses (draws, rows) by the name of the response.

        Of a binary response 1 is the second category; of others the draws are categories. A
        binomial response needs the trials in the table, `y | se(s)` the standard errors.

        Raises:
            DataError: missing columns or values, or categories that the first table did not have.
        """
        formula, generator, draws = self.frame.formula, np.random.default_rng(seed), chosen.draws
        form = formula.left.form
        left_out = {*formula.response_variables} - (
            {*self._second_variables()} if form in ("trials", "error") else set()
        )
        given = as_table(table, [name for name in formula.variables if name not in left_out], "error")
        predictor = self.predictors(chosen, given, generator)
        extra = {
            name: draws[name][:, None] for name in self.law.extra if name in draws and draws[name].ndim == 1
        }
        if form == "error":
            assert self.frame.second is not None
            return {
                formula.response: generator.normal(
                    predictor, self.frame.second.values(given).to_numpy(np.float64)
                )
            }
        if self.law.kind == "category":
            logits = np.concatenate([np.zeros((*predictor.shape[:2], 1)), predictor], axis=2)
            places = np.argmax(logits + generator.gumbel(size=logits.shape), axis=2)
            return {formula.response: np.array(self.levels)[places]}
        if self.law.kind == "ordered":
            latent = generator.logistic(predictor)
            places = (latent[:, :, None] > draws["cutpoints"][:, None, :]).sum(2)
            return {formula.response: np.array(self.levels)[places]}
        if form == "trials":
            assert self.frame.second is not None
            trials = self.frame.second.values(given).to_numpy(np.int64)
            return {formula.response: generator.binomial(trials, self.law.mean(predictor, extra))}
        mean = np.asarray(self.law.mean(predictor, {name: extra[name] for name in self.law.of_mean}))
        simulate = SIMULATE[IN_BRMS.get(self.family, self.family)]
        return {formula.response: simulate(generator, predictor, mean, extra)}

    def observed(self, table: Any) -> dict[str, ndarray]:
        """The responses of a table, as `__call__` draws them.

        Raises:
            DataError: missing columns or values.
        """
        formula = self.frame.formula
        given = as_table(table, list(formula.response_variables), "error")
        values = self.frame.response.values(given).to_numpy()
        if self.law.kind == "binary" and len(self.levels) == 2:
            values = (values == self.levels[1]).astype(np.int64)
        return {formula.response: values}

    def _second_variables(self) -> list[str]:
        """The columns left of "~" other than the response's own."""
        formula = self.frame.formula
        return [name for name in formula.response_variables if name != formula.response]

    def predictors(self, chosen: Chosen, given: DataFrame, generator: np.random.Generator) -> ndarray:
        """η at each draw and row, with draws of the effects of groups.

        For a categorical response it has a last axis of categories.
        """
        draws = chosen.draws
        columns = self.frame.design.columns(given)
        count = len(next(iter(draws.values())))
        wide = draws[self.frame.names[0]] if self.frame.names else draws.get(INTERCEPT, np.zeros(count))
        effects = (
            np.stack([draws[name] for name in self.frame.names])
            if self.frame.names
            else np.zeros((0, *wide.shape))
        )
        predictor = np.tensordot(columns, effects, 1)  # rows, draws, ...
        predictor = np.swapaxes(predictor, 0, 1)
        if INTERCEPT in draws:
            predictor = predictor + draws[INTERCEPT][:, None]
        offset = self.frame.offset(given)
        if offset is not None:
            predictor = predictor + (offset if predictor.ndim == 2 else offset[:, None])
        if self.varying is not None:
            predictor = predictor + self.varying.of_rows(chosen.own, given, generator)
        return predictor


def _overdispersed(generator, eta, extra):
    shape = 1 / extra["dispersion"]
    return generator.poisson(generator.gamma(shape, np.exp(eta) / shape))


def _beta(generator, eta, extra):
    mean, precision = stats.logistic.cdf(eta), 1 / extra["dispersion"]
    return generator.beta(mean * precision, (1 - mean) * precision)


def _positive(law: Any, generator) -> ndarray:
    """Counts of a law that are not 0, by its quantiles."""
    none = law.cdf(0)
    return law.ppf(none + (1 - none) * generator.random(none.shape)).clip(1).astype(np.int64)


def _negative_binomial(eta, extra):
    size = 1 / extra["dispersion"]
    return stats.nbinom(size, size / (size + np.exp(eta)))


def _or(generator, share, value, others):
    """`value` with a probability, and others elsewhere."""
    return np.where(generator.random(others.shape) < share, value, others)


SIMULATE: dict[str, Simulate] = {
    "gaussian": lambda r, eta, mean, e: r.normal(eta, e["scale"]),
    "student-t": lambda r, eta, mean, e: eta + e["scale"] * r.standard_t(e["degrees_of_freedom"], eta.shape),
    "bernoulli": lambda r, eta, mean, e: (r.random(eta.shape) < mean).astype(np.int64),
    "poisson": lambda r, eta, mean, e: r.poisson(mean),
    "negative-binomial": lambda r, eta, mean, e: _overdispersed(r, eta, e),
    "gamma": lambda r, eta, mean, e: r.gamma(1 / e["dispersion"], mean * e["dispersion"]),
    "beta": lambda r, eta, mean, e: _beta(r, eta, e),
    "exponential": lambda r, eta, mean, e: r.exponential(np.exp(eta)),
    "weibull": lambda r, eta, mean, e: np.exp(eta) * r.exponential(size=eta.shape) ** e["scale"],
    "lognormal": lambda r, eta, mean, e: np.exp(r.normal(eta, e["scale"])),
    "zero-inflated-poisson": lambda r, eta, mean, e: _or(r, e["zi"], 0, r.poisson(np.exp(eta))),
    "zero-inflated-negative-binomial": lambda r, eta, mean, e: _or(r, e["zi"], 0, _overdispersed(r, eta, e)),
    "hurdle-poisson": lambda r, eta, mean, e: _or(r, e["hu"], 0, _positive(stats.poisson(np.exp(eta)), r)),
    "hurdle-negative-binomial": lambda r, eta, mean, e: _or(
        r, e["hu"], 0, _positive(_negative_binomial(eta, e), r)
    ),
    "zero-inflated-beta": lambda r, eta, mean, e: _or(r, e["zi"], 0.0, _beta(r, eta, e)),
    "zero-one-inflated-beta": lambda r, eta, mean, e: _or(
        r, e["zoi"], (r.random(eta.shape) < e["coi"]) * 1.0, _beta(r, eta, e)
    ),
}  # fmt: skip
