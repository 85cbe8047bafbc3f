"""`anova`: all models of a design with fixed and random factors and covariates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evidentia.bf.curves import Repeats
from evidentia.bf.factors.compared_models import INTERCEPT, Anova
from evidentia.bf.factors.variables import models_of, notes_on, top_down, variables_of
from evidentia.bf.prior import scale_of
from evidentia.bf.samples import numbers_of
from evidentia.errors import ConfigurationError, DataError, EvidentiaError, is_one_of, names_in
from evidentia.regression.design import evaluate
from evidentia.regression.formula import Formula, parse
from evidentia.regression.per_term.blocks import Design, Scales
from evidentia.regression.per_term.evidence import weighed
from evidentia.regression.per_term.sums import Sums, sums_of
from evidentia.regression.table import as_table

if TYPE_CHECKING:
    from pandas import DataFrame

FIXED = {"medium": 0.5, "wide": np.sqrt(0.5), "ultrawide": 1.0}
RANDOM = {"nuisance": 1.0, **FIXED}
COVARIATE = {"medium": np.sqrt(2) / 4, "wide": 0.5, "ultrawide": np.sqrt(0.5)}
MODELS = "all", "top-down"
MOST_MODELS = 2000
EXACT = 1e-12  # of the response's squares, which are left where the terms explain it
SUSPICIOUS = 1e-7  # of them, above which sums of products tell that they do not
PROMISED = 1e-4  # nats
ROUGH = "The integrals are uncertain by up to {:.1g} nats: see the errors."


def anova(
    formula: str,
    data: Any,
    random: str | Sequence[str] | None = (),
    scale: str | float = "medium",
    random_scale: str | float = "nuisance",
    covariate_scale: str | float = "medium",
    models: str = "all",
) -> Anova:
    """Bayes factors of the models of an analysis of variance, with fixed and random factors.

    Each factor and interaction has effects that are normal with a variance g σ² of its own, g ~
    InverseGamma(1/2, r²/2); those of fixed factors sum to zero. The mean and σ² have Jeffreys'
    priors, shared by all models. The integral over the g's is exact to about 10⁻⁴ nats, or a note
    says to how much; names and order of levels do not matter. Numeric columns are covariates, with
    one g for all of them; text, categories, C(x) and random columns are factors. An interaction of
    a covariate with a random factor is a random slope, with a g of its own.

    Args:
        formula: as in R, of columns: "RT ~ shape * colour + ID".
        data: a table: a data frame, or a mapping of columns.
        random: columns with random effects, such as the participants; None for none. Their terms
            are in all models.
        scale: r of fixed factors: "medium" (1/2), "wide" (√2/2), "ultrawide" (1) or a number.
        random_scale: r of random terms: "nuisance" (1), or as for fixed ones.
        covariate_scale: r of covariates: "medium" (√2/4), "wide" (1/2), "ultrawide" (√2/2).
        models: "all" in which an interaction comes with its parts, or "top-down": the full model,
            those that lack one term, and the one with random terms alone.

    Raises:
        ConfigurationError: an argument of another kind, or too many models.
        DataError: a table that cannot be used.

    Example:
        >>> ev.bf.anova("RT ~ shape * colour + ID", puzzles, random=["ID"])  # doctest: +SKIP

    Source: Rouder, Morey, Speckman, Province (2012), Default Bayes factors for ANOVA designs.
    """
    parsed = parse(formula)
    if parsed.varying or parsed.offsets or parsed.left.second or not parsed.has_intercept:
        raise ConfigurationError(
            f"an ANOVA's formula has a response, an intercept and terms of columns; got {formula!r}. Random factors are terms, "
            "named in random=."
        )
    if not is_one_of(models, MODELS):
        raise ConfigurationError(f"models must be 'all' or 'top-down'; got {models!r}.")
    asked = Asked(
        parsed,
        [] if random is None else names_in("random", random),
        Scales(scale_of(scale, FIXED), scale_of(random_scale, RANDOM), scale_of(covariate_scale, COVARIATE)),
        models,
    )
    factors = set(parsed.variables) - set(parsed.response_variables)
    return _analysed(asked, as_table(data, parsed.variables, factors=factors))


class Asked(NamedTuple):
    """An analysis of any rows: the arguments of `anova`, checked."""

    formula: Formula
    random: list[str]
    scales: Scales
    models: str


def _analysed(asked: Asked, table: DataFrame) -> Anova:
    formula, scales = asked.formula, asked.scales
    response = numbers_of(formula.response, evaluate(formula.response, table, formula))
    if len(response) < 3 or np.ptp(response) == 0:
        raise DataError(
            f"the response {formula.response} must vary, in three rows or more; got {len(response)} rows."
        )
    design = variables_of(formula.terms, table, asked.random, scales)
    sums = sums_of(design.terms, response)
    _check_not_explained(sums, design, response, formula.response)
    fixed = design.fixed
    sets = top_down(fixed) if asked.models == "top-down" else models_of(fixed, MOST_MODELS)
    if len(sets) > MOST_MODELS:
        raise ConfigurationError(
            f"{formula.text!r} has more than {MOST_MODELS:,} models. Ask for models='top-down'."
        )
    found = {
        _name(terms, design): (terms, weighed(sums, [*terms, *design.random], scales.covariate))
        for terms in sets
    }
    null = _name((), design)
    base = found[null][1]
    largest = max(one.error for _, one in found.values())
    rough = (ROUGH.format(largest),) if largest > PROMISED else ()
    return Anova(
        formula=formula.text,
        log_bf10={
            INTERCEPT: -base.log_bf,
            **{name: one.log_bf - base.log_bf for name, (_, one) in found.items()},
        },
        error={INTERCEPT: base.error}
        | {
            name: 0.0 if name == null else float(np.hypot(one.error, base.error))
            for name, (_, one) in found.items()
        },
        null=null,
        fixed=fixed,
        num_observations=len(response),
        models=found,
        again=_repeats(asked, table),
        notes=(*notes_on(formula.terms, asked.random, table), *rough),
    )


def _repeats(asked: Asked, table: DataFrame) -> Repeats:
    """The analysis with other scales, and of the first levels of a random factor, or rows."""
    from pandas import factorize

    order = np.arange(len(table))
    if asked.random:
        order = factorize(table[asked.random[0]])[0]

    def of_scale(scale: float) -> dict[str, float]:
        factor = scale / asked.scales.fixed
        scales = asked.scales._replace(fixed=scale, covariate=factor * asked.scales.covariate)
        return _analysed(asked._replace(scales=scales), table).log_inclusion_bf

    def of_first(count: int) -> tuple[int, dict[str, float]]:
        rows = order < count
        try:
            found = _analysed(asked, table.loc[rows]).log_inclusion_bf
        except EvidentiaError:  # such as a factor with one level up to here
            found = {}
        return int(rows.sum()), found

    return Repeats(asked.scales.fixed, FIXED, of_scale, of_first, int(order.max()) + 1, least=2)


def _check_not_explained(sums: Sums, design: Design, response: np.ndarray, name: str) -> None:
    """Raise DataError if the full model explains the response exactly, with rows to spare."""
    if sums.unexplained > SUSPICIOUS:
        return
    columns = np.column_stack([np.ones(len(response)), *(term.columns for term in design.terms.values())])
    y = response / np.abs(response).max()
    y = y - y.mean()
    effects, _, rank, _ = np.linalg.lstsq(columns, y)
    if rank < len(y) - 1 and np.sum((y - columns @ effects) ** 2) <= EXACT * np.sum(y**2):
        raise DataError(
            f"the terms explain the response {name} exactly: Bayes factors against models without them have no bound."
        )


def _name(terms: Sequence[str], design: Design) -> str:
    return " + ".join([*terms, *design.random]) or INTERCEPT
