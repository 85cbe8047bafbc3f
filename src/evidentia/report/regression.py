"""The sections of a regression's report: which terms matter, coefficients, fit, sensitivity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.stats import binom

from evidentia.display import text, words
from evidentia.display.coefficients_plot import CUTS, WIDTH, draw_coefficients, height_of, natural
from evidentia.display.plots import draw_fit, draw_sensitivity
from evidentia.posterior.summary import summarise
from evidentia.regression.design import learn
from evidentia.regression.formula import Formula, parse
from evidentia.regression.prediction import Fitted, GroupedFit, fitted, grouped
from evidentia.regression.regression import Regression
from evidentia.regression.sampled_coefficients import SampledCoefficients
from evidentia.report.pictures import MOST_SCALARS, Picture, png
from evidentia.report.section import Section
from evidentia.results.comparison import Comparison
from evidentia.results.result import Evidence
from evidentia.results.sensitivity import PriorSensitivity, prior_sensitivity

if TYPE_CHECKING:
    from pandas import DataFrame

    from evidentia.regression.streamed import Streamed

Factor = tuple[float, float]  # a log Bayes factor and its standard error, in nats

CODING = " Categories are compared with the first one."
FACTORS = "BF10 is the Bayes factor of the formula against the same without the column."
MOST_ERROR = 0.1  # nats, of a Bayes factor from the posterior


def regression_sections(
    regressions: Mapping[str, Regression],
    evidences: Mapping[str, Evidence],
    comparison: Comparison,
    factors: Mapping[str, Factor],
    table: DataFrame,
) -> list[Section]:
    """What the page of a comparison of regressions says besides the comparison.

    Args:
        regressions: by formula.
        evidences: by formula.
        comparison: of these evidences.
        factors: for terms of the best formula, the log Bayes factor against this formula without
            the term, and its standard error.
        table: without missing values.
    """
    best = comparison.best
    found = fitted(regressions[best], evidences[best], table)
    sections = [terms_section(best, factors)] if factors else []
    if coefficients := coefficients_section(regressions[best], evidences[best], table, found.labels):
        sections.append(coefficients)
    if len(found.observed):
        sections.append(fit_section(best, found))
    if sensitivity := sensitivity_section(evidences, comparison):
        sections.append(sensitivity)
    return sections


def factors_from_posterior(
    regression: Regression, evidence: Evidence, formulas: Mapping[str, str], table: DataFrame | Streamed
) -> dict[str, Factor]:
    """The log Bayes factors and errors of terms that the posterior tells, without other estimates.

    They are those of the effects at 0, which is the formula without the term if its other columns,
    and their priors, are the same.

    Args:
        regression: whose formula has the terms.
        evidence: of it.
        formulas: the formula without each term.
        table: without missing values.
    """
    coefficients = evidence._coefficients
    if not isinstance(coefficients, SampledCoefficients) or regression.prior == "unit-information":
        return {}
    design = learn(parse(regression.formula), parse(regression.formula).terms, table)
    found = {}
    for term, formula in formulas.items():
        if term not in design.terms:  # effects that vary by group
            factor = coefficients.log_factor_of_groups()
            if factor.error < MOST_ERROR and not parse(formula).varying:
                found[term] = tuple(factor)
            continue
        own = design.names[design.terms[term]]
        rest = learn(parse(formula), parse(formula).terms, table).names
        if (*own, *rest) and set(own).isdisjoint(rest) and {*own, *rest} == set(coefficients.names):
            factor = coefficients.log_factor_of(own)
            if factor.error < MOST_ERROR:  # not NaN
                found[term] = tuple(factor)
    return found


def factors_of_estimates(evidence: Evidence, without: Mapping[str, Evidence]) -> dict[str, Factor]:
    """The log Bayes factor of each term and its standard error, from the results without it."""
    return {
        term: (
            evidence.log_evidence - other.log_evidence,
            float(np.hypot(evidence.standard_error, other.standard_error)),
        )
        for term, other in without.items()
    }


def terms_section(formula: str, factors: Mapping[str, tuple[float, float]]) -> Section:
    """The Bayes factor of each term, in words and as a table."""
    return Section(
        "Which terms matter",
        [verdict(term, factor) for term, (factor, _) in factors.items()],
        header=("term", "log Bayes factor (nats)", "Bayes factor"),
        rows=[(term, text.with_error(*factor), words.short(factor[0])) for term, factor in factors.items()],
        note=f"Each row compares {formula} with the same formula without the term.",
        headline=_smaller(formula, factors),
    )


def _smaller(formula: str, factors: Mapping[str, Factor]) -> str:
    """A sentence on the term without which the formula would lead most clearly; "" if none."""
    term, (factor, error) = min(factors.items(), key=lambda item: item[1][0])
    if factor > -2 * error or factor == 0:
        return ""
    return f"A smaller formula is ahead: {formula} without {term}, under which the data are {words.short(-factor)} times as probable."


def verdict(term: str, factor: float) -> str:
    """One sentence on a log Bayes factor for a term, in the words of the tables.

    Example:
        >>> verdict("cut", 412.3)[:48]
        'cut: extreme evidence that it matters; the data '
    """
    if factor == 0:
        return f"{term}: the data are as probable with it as without it."
    claim, with_it, without = (
        ("matters", "with", "without") if factor > 0 else ("is not needed", "without", "with")
    )
    times = words.short(abs(factor))
    return (
        f"{term}: {words.grade(factor)} evidence that it {claim}; the data are {times} times as probable {with_it} it as "
        f"{without} it."
    )


def coefficients_section(
    regression: Regression, evidence: Evidence, table: DataFrame, labels: tuple[str, ...]
) -> Section | None:
    """The effects of the best formula with their intervals; None if it has none.

    `labels` are the categories of a categorical response; the first is the reference.
    """
    formula = parse(regression.formula)
    if not formula.terms:
        return None
    names = learn(formula, formula.terms, table).names
    effects = {name: evidence.weighted[name] for name in names if name in evidence.weighted}
    if regression.family == "categorical":
        effects = {
            f"{name}, {label}": draws[:, place]
            for name, draws in effects.items()
            for place, label in enumerate(labels[1:])
        }
    summaries = summarise(effects, evidence.weighted.log_weights, CUTS)
    shown = min(len(summaries), MOST_SCALARS)
    figure = Figure(figsize=(WIDTH, height_of(shown)))
    draw_coefficients(summaries[:shown], figure)
    picture = Picture(
        "coefficients",
        f"Posterior median, 50% and 95% interval of {shown} of {len(summaries)} coefficients of {formula.text}.",
        f"Coefficients of {formula.text} in the units of the table, each on a scale of its own; dashed is 0, where it is near.",
        png(figure),
    )
    found = evidence.summary()
    header, rows = found.cells()
    left_out = f" Left out, as others stand for them: {found.left_out}." if found.left_out else ""
    has_factors = "BF10" in header
    return Section(
        "Coefficients",
        header=header,
        rows=[(natural(name), *cells) for name, *cells in rows],
        note=(FACTORS if has_factors else "") + (CODING if "[" in "".join(effects) else "") + left_out,
        pictures=[picture],
    )


def kept_formula(regression: Regression, evidence: Evidence, table: DataFrame | Streamed) -> Formula:
    """The formula of a result without terms all of whose columns were left out."""
    formula = parse(regression.formula)
    if "left_out" not in evidence.diagnostics:
        return formula
    design = learn(formula, formula.terms, table)
    kept = {
        term
        for term, place in design.terms.items()
        if any(name in evidence.weighted for name in design.names[place])
    }
    return replace(formula, terms=tuple(term for term in formula.terms if term in kept))


def fit_section(formula: str, found: Fitted) -> Section:
    """Predictions of the best formula against the data."""
    fit = grouped(found)
    figure = Figure(figsize=(8, 5), layout="constrained")
    draw_fit(fit, figure.subplots())
    picture = Picture(
        "predictions",
        f"Mean observations against mean predictions of {formula}, with a line where they are equal.",
        "Points are means of groups of rows with similar predictions; bars have 95% of the means that the formula predicts "
        f"for such groups. {_outside(fit)}",
        png(figure),
    )
    return Section("Predictions against data", pictures=[picture])


def _outside(fit: GroupedFit) -> str:
    """A sentence on the means outside of their bars: by chance fewer than one in twenty."""
    outside, count = fit.num_outside, fit.num_groups
    are = "is" if outside == 1 else "are"
    if outside <= binom.ppf(0.95, count, 0.05):
        return f"Outside {are} {outside} of {count}, which chance explains."
    return f"Outside {are} {outside} of {count}, more than by chance: the formula misses something."


def sensitivity_section(evidences: Mapping[str, Evidence], comparison: Comparison) -> Section | None:
    """How log Bayes factors for the best formula move with the priors' width; None if alone."""
    if len(comparison.names) == 1:
        return None
    found = {name: _sensitivity(evidences[name]) for name in comparison.names}
    if all(one is None for one in found.values()):
        return None
    factors = next(one.factor for one in found.values() if one is not None)
    changes = {name: np.zeros(len(factors)) if one is None else one.change for name, one in found.items()}
    errors = {
        name: np.zeros(len(factors)) if one is None else one.change_error for name, one in found.items()
    }
    best, *others = comparison.names
    curves = {
        f"against {name}": (changes[best] - changes[name], np.hypot(errors[best], errors[name]))
        for name in others
    }
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    draw_sensitivity(
        factors, curves, "change of the log Bayes factor\nof the best formula (nats)", figure.subplots()
    )
    picture = Picture(
        "prior_sensitivity",
        f"Change of the log Bayes factor of {best} against the other formulas for several widths of the priors.",
        f"Change of the log Bayes factors of {best} with narrower and wider priors of the effects.",
        png(figure),
    )
    leads = changes[best] - changes[others[0]] - comparison.log_bayes_factor[1]
    return Section("How much the priors matter", [_range(best, others[0], leads)], pictures=[picture])


def _range(best: str, second: str, leads: Float[np.ndarray, " widths"]) -> str:
    """One sentence on the lead of the best formula under all priors."""
    low, high = f"{leads.min():,.1f}", f"{leads.max():,.1f}"
    span = f"{low} nats" if low == high else f"{low} to {high} nats"
    if leads.min() > 0:
        return f"With priors of the effects from half to twice as wide, {best} leads {second} by {span}."
    return (
        f"With priors of the effects from half to twice as wide, the lead of {best} over {second} goes from {low} to "
        f"{high} nats: the answer depends on the prior."
    )


def _sensitivity(evidence: Evidence) -> PriorSensitivity | None:
    """None if no prior has a width."""
    has_width = evidence.widths is not None and evidence.widths.parameters
    return prior_sensitivity(evidence) if has_width else None
