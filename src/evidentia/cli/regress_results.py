"""What `evidentia regress` tells beside the evidences: the table, coefficients, the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evidentia.cli import output

if TYPE_CHECKING:
    from pandas import DataFrame

    from evidentia.cli.results import Results
    from evidentia.regression import Regression
    from evidentia.regression.streamed import Streamed


@dataclass(frozen=True)
class About:
    """The table of a command, for its notes and `--json`."""

    name: str
    variables: tuple[str, ...]
    family: str
    num_rows: int
    constant: str | None
    observations: str
    priors: Mapping[str, str]
    weights: str | None

    def notes(self) -> list[str]:
        """Describe the table and the log evidences in sentences."""
        notes = [
            f"{self.name}: {self.num_rows:,} rows, columns {', '.join(self.variables)}; family {self.family}."
        ]
        if self.weights is not None:
            notes.append(f"Each row of the file counts as often as its number in {self.weights} says.")
        formulas: dict[str, list[str]] = {}
        for formula, prior in self.priors.items():
            formulas.setdefault(prior, []).append(formula)
        if len(formulas) == 1:
            notes.append(f"Prior of the effects: {next(iter(formulas))}.")
        else:
            notes += [
                f"Prior of the effects of {', '.join(those)}: {prior}." for prior, those in formulas.items()
            ]
        if self.constant is not None:
            notes.append(
                f"The priors of {self.constant} are improper and shared by all models: only differences of the log evidences "
                "mean something."
            )
        return notes

    def to_dict(self) -> dict[str, Any]:
        """The description as a dictionary for JSON."""
        return {
            "file": self.name,
            "columns": list(self.variables),
            "family": self.family,
            "num_rows": self.num_rows,
            "weights": self.weights,
            "observations": self.observations,
        }


def with_coefficients(results: Results) -> Results:
    """The results with the coefficients of the best formula that has terms."""
    from evidentia.regression.formula import parse
    from evidentia.results.configurations import jsonable

    with_terms = [formula for formula in results.comparison.names if parse(formula).terms]
    if not with_terms:
        return results
    found = results.evidences[with_terms[0]].summary()
    shown = jsonable({with_terms[0]: found.to_dict()})
    return replace(results, coefficients=found, more={**results.more, "coefficients": shown})


def with_sections(
    results: Results,
    regressions: Mapping[str, Regression],
    data: DataFrame | Streamed,
    *,
    seed: int,
    quiet: bool,
) -> tuple[Results, BaseException | None]:
    """The results with what a regression's report has besides, and what stopped the work on it."""
    from evidentia.cli.run import Candidate, estimate_each
    from evidentia.regression.formula import parse
    from evidentia.regression.nested import nested
    from evidentia.regression.streamed import Streamed
    from evidentia.report.regression import (
        factors_from_posterior,
        factors_of_estimates,
        kept_formula,
        regression_sections,
    )

    comparison = results.comparison
    best, evidence = regressions[comparison.best], results.evidences[comparison.best]
    if parse(best.formula).varying and best.prior is None:  # also of the formula without groups
        best = replace(best, prior="normal")
    formulas = kept_formula(best, evidence, data).without_each_term()
    found = factors_from_posterior(best, evidence, formulas, data)
    left = {term: formula for term, formula in formulas.items() if term not in found}
    missing = [formula for formula in left.values() if formula not in results.evidences]
    candidates = [
        Candidate(formula, nested(replace(best, formula=formula), [best]), data) for formula in missing
    ]
    others, stopped = estimate_each(candidates, method="auto", seed=seed, quiet=quiet)
    others = {**results.evidences, **{name: one for name, one in others.items() if one.completed}}
    without = {term: others[formula] for term, formula in left.items() if formula in others}
    found |= factors_of_estimates(evidence, without)
    factors = dict(sorted(found.items(), key=lambda item: -item[1][0]))
    with output.warnings_as_notes():
        shown = data.sample if isinstance(data, Streamed) else data
        sections = regression_sections(regressions, results.evidences, comparison, factors, shown)
    terms = {
        term: {"log_bayes_factor": factor, "standard_error": error}
        for term, (factor, error) in factors.items()
    }
    more = {**results.more, "formula": best.formula, "terms": terms}
    return replace(results, sections=sections, more=more), stopped
