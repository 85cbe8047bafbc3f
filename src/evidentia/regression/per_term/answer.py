"""The `Evidence` of a normal regression with a g for each term."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError
from evidentia.model.width import Change
from evidentia.regression import g_prior
from evidentia.regression.design import learn
from evidentia.regression.exact import CONSTANTS, EFFECTS, FINITE, NUM_DRAWS, sums_of
from evidentia.regression.formula import Formula
from evidentia.regression.frame import Frame
from evidentia.regression.per_term import blocks
from evidentia.regression.per_term import sums as sums_per_term
from evidentia.regression.per_term.evidence import Weighed, integral_of, weighed
from evidentia.regression.per_term.level_effects import draws_of
from evidentia.regression.perfect_fit import checked_fit, over_rows
from evidentia.regression.quoting import encoded as as_word
from evidentia.regression.quoting import factors_of, name_of
from evidentia.regression.terms import is_name
from evidentia.results.result import Evidence
from evidentia.results.weighted import evenly_weighted
from evidentia.trajectory import Trajectory

ROUNDING = 1e-9  # nats, below which an error is none
IN_WORDS = "jzs, a g for each term, scales 0.5 (factors) and 0.354 (covariates)"
LEFT = 1e-8  # of a column's squares that the formula's columns leave: it is none of theirs


@dataclass(frozen=True)
class PerTerm:
    """The method of an exact result: an integral over a g for each term.

    Attributes:
        factor_scale: r of factors and their interactions.
        covariate_scale: r of the g that terms with continuous columns share.
    """

    factor_scale: float
    covariate_scale: float


@dataclass(frozen=True, eq=False)
class PerTermWidths:
    """The widths of all priors of g together."""

    model: Weighed

    @property
    def parameters(self) -> tuple[str, ...]:
        """The effects."""
        return (EFFECTS,)

    def change(self, factor: float, parameters: tuple[str, ...]) -> Change:
        """The change of the log evidence, and its error.

        Raises:
            ConfigurationError: other parameters than the effects.
        """
        if parameters != self.parameters:
            raise ConfigurationError(
                f"parameters must be {list(self.parameters)} for a regression with g='per-term'; got {list(parameters)}."
            )
        scales = factor * np.array([block.scale for block in self.model.blocks])
        found = integral_of(self.model.likelihood, scales)
        return Change(found.value - self.model.log_bf, float(np.hypot(found.error, self.model.error)))


def check_asked(formula: str, prior_scale: float | None, *, is_fit: bool) -> None:
    """Raise ConfigurationError for another kind of regression, or if r is given."""
    if not is_fit:
        raise ConfigurationError(
            "g='per-term' is for the family gaussian under prior='jzs', with an intercept and without effects that vary by "
            f"group; got {formula!r}. Random factors are those of ev.bf.anova(…, random=[…])."
        )
    if prior_scale is not None:
        raise ConfigurationError(
            "g='per-term' has no prior_scale: r is 1/2 for factors and √2/4 for covariates. prior_sensitivity changes all of "
            "them; ev.bf.anova takes others."
        )


def design_of(formula: Formula, terms: Sequence[str], table: Any) -> blocks.Design:
    """The terms of a formula: factors with effects that sum to zero, and covariates.

    Raises:
        ConfigurationError: a function with categories.
        DataError: a variable that does not vary.
    """
    parts = {term: tuple(factors_of(term)) for term in terms}
    variables = dict.fromkeys(name for names in parts.values() for name in names)
    coded = {name: _coded(name, formula, table) for name in variables}
    return blocks.design_of(parts, coded, (), blocks.Scales())


def evidence_per_term(frame: Frame, table: Any, seed: int, started: float) -> Evidence:
    """The log evidence up to the constant of the flat and Jeffreys priors, and posterior draws.

    Raises:
        ConfigurationError: an interaction without its parts, where these make a difference.
        DataError: the response is not numeric, constant, or explained exactly.
    """
    formula = frame.formula
    frame.check_names("scale")
    sums = sums_of(frame)
    columns = np.arange(len(frame.names))
    fit = checked_fit(frame, sums, columns, partial(over_rows, frame, table, None), FINITE)
    terms = tuple(frame.terms)  # those that have columns left
    design = design_of(formula, terms, table)
    model = weighed(per_term_sums(frame, table, design), terms, blocks.Scales().covariate)
    error = model.error if model.error > ROUNDING else 0.0
    log_evidence = g_prior.log_evidence_of_null(sums) + model.log_bf
    posterior = _posterior(frame, sums, model, translation(frame, table, design), seed)
    seconds = time.perf_counter() - started
    return Evidence(
        log_evidence=log_evidence,
        standard_error=error,
        num_observations=frame.num_rows,
        trajectory=Trajectory(
            *(np.array([value]) for value in (frame.num_rows, log_evidence, error, 0, seconds))
        ),
        weighted=evenly_weighted(posterior, NUM_DRAWS),
        method=PerTerm(blocks.Scales().fixed, blocks.Scales().covariate),
        model_name=formula.text,
        seed=seed,
        seconds=seconds,
        diagnostics={"r_squared": 1 - fit.unexplained},
        response=formula.response,
        constant=CONSTANTS[True],
        widths=PerTermWidths(model),
    )


def per_term_sums(frame: Frame, table: Any, design: blocks.Design) -> sums_per_term.Sums:
    """The sums of a design and the response less the offsets."""
    response = np.asarray(frame.response.values(table), float)
    offset = frame.offset(table)
    return sums_per_term.sums_of(design.terms, response if offset is None else response - offset)


def _coded(factor: str, formula: Formula, table: Any) -> blocks.Coded:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    inner = factor[2:-1] if factor.startswith("C(") and factor.endswith(")") else factor
    if is_name(as_word(inner)):
        column = table[name_of(as_word(inner))]
        if inner == factor and is_numeric_dtype(column) and not is_bool_dtype(column):
            return blocks.coded_covariate(factor, np.asarray(column, float))
        return blocks.coded_factor(factor, column)
    design = learn(formula, (factor,), table)
    if any("categories" in state for _, state in design.coding.spec.encoder_state.values()):
        raise ConfigurationError(
            f"under g='per-term', a factor is a column or C(column); got {factor!r}. Its levels have effects that sum to zero."
        )
    return blocks.coded_covariate(factor, design.columns(table), design.names)


def translation(frame: Frame, table: Any, design: blocks.Design) -> dict[str, ndarray]:
    """For each term, the effects of the formula's columns that are those of the term's.

    Raises:
        ConfigurationError: the terms' columns and the formula's do not span the same, as an
            interaction without its parts has the columns of these in the formula, and not here.
    """
    columns = frame.design.columns(table)
    columns = (columns - frame.means) / frame.deviations
    wanted = {name: term.columns - term.columns.mean(0) for name, term in design.terms.items()}
    found = {name: np.linalg.lstsq(columns, own)[0] for name, own in wanted.items()}
    strange = [name for name, own in wanted.items() if _is_left(own - columns @ found[name], own)]
    if not strange and wanted:
        own = np.column_stack(list(wanted.values()))
        if _is_left(columns - own @ np.linalg.lstsq(own, columns)[0], columns):
            strange = [name for name in wanted if len(factors_of(name)) > 1]
    if strange:
        raise ConfigurationError(
            f"under g='per-term', a formula with the interaction {strange[0]} needs its parts, as in 'a * b'; got "
            f"{frame.formula.text!r}."
        )
    return {name: effects / frame.deviations[:, None] for name, effects in found.items()}


def _is_left(rest: Float[ndarray, "rows columns"], columns: Float[ndarray, "rows columns"]) -> bool:
    """Whether others leave something of one of the columns."""
    return bool((np.sum(rest**2, axis=0) > LEFT * np.sum(columns**2, axis=0)).any())


def coefficients_of(
    frame: Frame, model: Weighed, translated: dict[str, ndarray]
) -> Float[ndarray, "coefficients columns"]:
    """The formula's coefficients, without the intercept, by the effects of the model's columns."""
    own = np.zeros((len(frame.names), len(model.sums.products)))
    for name, effects in translated.items():
        own[:, model.sums.places[name]] = effects @ model.sums.rotations[name].kept
    turns = [own[:, block.places] @ block.turn for block in model.blocks]
    return np.column_stack([np.zeros((len(own), 0)), *turns])


def _posterior(
    frame: Frame, sums: g_prior.Sums, model: Weighed, translated: dict[str, ndarray], seed: int
) -> dict[str, Float[ndarray, " draws"]]:
    """Draws of the formula's own coefficients, in units of the table."""
    generator = np.random.default_rng(seed)
    draws = draws_of(model, NUM_DRAWS, generator)
    effects = draws.effects @ coefficients_of(frame, model, translated).T
    noise = np.sqrt(draws.variance / frame.num_rows) * generator.standard_normal(NUM_DRAWS)
    g = {f"g({block.name})": values for block, values in zip(model.blocks, draws.g.T, strict=True)}
    return {
        "Intercept": sums.means[-1] + noise - effects @ frame.means,
        **dict(zip(frame.names, effects.T, strict=True)),
        "scale": np.sqrt(draws.variance),
        **g,
    }
