"""`evidentia regress`: the evidence of regressions by formula on a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evidentia.cli import options, output
from evidentia.errors import ConfigurationError, EvidentiaError, check_seed

if TYPE_CHECKING:
    from pandas import DataFrame

    from evidentia.cli.results import Results
    from evidentia.regression import Regression
    from evidentia.result import Evidence

EXAMPLES = """[bold]Examples[/bold]

  evidentia regress diamonds.csv "log(price) ~ log(carat) + cut" "log(price) ~ log(carat)"

  evidentia regress penguins.csv "species ~ bill_length_mm + sex" --family categorical

  evidentia regress visits.csv "visits ~ age + offset(log(years))" --family negative-binomial --out results"""


class FamilyName(StrEnum):
    """Values of `--family`."""

    GAUSSIAN = "gaussian"
    STUDENT_T = "student-t"
    BERNOULLI = "bernoulli"
    BINOMIAL = "binomial"
    POISSON = "poisson"
    NEGATIVE_BINOMIAL = "negative-binomial"
    GAMMA = "gamma"
    BETA = "beta"
    CATEGORICAL = "categorical"
    ORDINAL = "ordinal"


class PriorName(StrEnum):
    """Values of `--prior`."""

    JZS = "jzs"
    UNIT_INFORMATION = "unit-information"
    NORMAL = "normal"


def command(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="CSV with a header line, Parquet, or a pattern such as 'parts/*.csv'."
        ),
    ],
    formulas: Annotated[
        list[str], typer.Argument(metavar="FORMULA...", help="As in R: 'log(price) ~ log(carat) + cut'.")
    ],
    family: Annotated[
        FamilyName, typer.Option(metavar="FAMILY", help="gaussian, or another listed above.")
    ] = FamilyName.GAUSSIAN,
    link: Annotated[
        str | None, typer.Option(metavar="LINK", help="bernoulli: probit in place of logit.")
    ] = None,
    prior: Annotated[
        PriorName | None,
        typer.Option(
            metavar="PRIOR", help="jzs, unit-information or normal. Default: jzs for gaussian, else normal."
        ),
    ] = None,
    prior_scale: Annotated[
        float | None,
        typer.Option(metavar="SCALE", help="Width of the prior. Default: 0.354 for jzs, 2.5 for normal."),
    ] = None,
    missing: options.Missing = "drop",
    encoding: options.Encoding = "utf-8",
    seed: options.Seed = 0,
    out: options.Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    compilation_cache: options.CompilationCache = None,
) -> None:
    """Compare regressions by formula on a table, CSV or Parquet.

    Text columns are coded against their first category; a:b and a*b are
    interactions, bs(x, df=4) is a spline, offset(x) has the effect one, - 1
    leaves the intercept out. Rows with missing values in the columns of any
    formula are left out. With one formula, it is compared with the intercept
    alone. Formulas may call Python's functions: run only those you trust.

    FAMILY is gaussian, student-t, bernoulli, binomial ("successes | trials ~ x"),
    poisson, negative-binomial, gamma, beta, categorical or ordinal.
    """
    from evidentia.cli.results import Results, make_folder
    from evidentia.cli.run import Candidate, estimate_each, keep_compiled_programs
    from evidentia.data.tables import read_columns
    from evidentia.regression import Regression
    from evidentia.regression.formula import parse
    from evidentia.regression.table import as_table, fingerprint

    check_seed(seed, "--seed")
    chosen = prior and prior.value
    regressions = {
        formula: Regression(formula, family.value, link, chosen, prior_scale)
        for formula in _compared(formulas)
    }
    variables = list(dict.fromkeys(name for one in regressions.values() for name in one.variables))
    if out is not None:
        make_folder(out)
    keep_compiled_programs(compilation_cache)
    with output.warnings_as_notes():
        data = as_table(read_columns(table, variables, encoding), variables, missing)
    candidates = [Candidate(formula, one, data) for formula, one in regressions.items()]
    evidences, stopped = estimate_each(candidates, method=None, seed=seed, quiet=quiet)
    evidences = _comparable(evidences)
    if evidences:
        constant = next(iter(evidences.values())).constant
        response = parse(next(iter(regressions))).response_variables
        about = About(
            table, tuple(variables), family.value, len(data), constant, fingerprint(data.loc[:, response])
        )
        results = Results(f"{family.value} regression: {table}", evidences, about.notes(), about.to_dict())
        if out is not None:
            if stopped is None:
                try:
                    results, stopped = _with_sections(results, regressions, data, seed=seed, quiet=quiet)
                except (EvidentiaError, KeyboardInterrupt) as error:  # the results themselves are there
                    stopped = error
            results.write(out)
        if as_json:
            output.print_json(results.to_dict())
        else:
            results.show()
            if out is not None:
                output.show_written(out)
    if stopped is not None:
        raise stopped
    output.end(evidence.verdict for evidence in evidences.values())


def _comparable(evidences: dict[str, Evidence]) -> dict[str, Evidence]:
    """The results for all rows if there are any, with a note on one that was stopped before."""
    whole = {formula: one for formula, one in evidences.items() if one.completed}
    left_out = [formula for formula in evidences if formula not in whole]
    if not whole or not left_out:
        return evidences
    output.show_note(f"{', '.join(left_out)} was stopped before all rows, and is left out.")
    return whole


def _with_sections(
    results: Results, regressions: Mapping[str, Regression], data: DataFrame, *, seed: int, quiet: bool
) -> tuple[Results, BaseException | None]:
    """The results with what a regression's report has besides, and what stopped the work on it."""
    from evidentia.cli.run import Candidate, estimate_each
    from evidentia.regression.formula import parse
    from evidentia.report.regression import regression_sections, term_factors

    comparison = results.comparison
    best = regressions[comparison.best]
    formulas = parse(best.formula).without_each_term()
    missing = [formula for formula in formulas.values() if formula not in results.evidences]
    candidates = [Candidate(formula, replace(best, formula=formula), data) for formula in missing]
    found, stopped = estimate_each(candidates, method=None, seed=seed, quiet=quiet)
    whole = {formula: one for formula, one in found.items() if one.completed}
    found = {**results.evidences, **whole}
    without = {term: found[formula] for term, formula in formulas.items() if formula in found}
    with output.warnings_as_notes():
        sections = regression_sections(regressions, results.evidences, comparison, without, data)
    factors = term_factors(results.evidences[comparison.best], without)
    terms = {
        term: {"log_bayes_factor": factor, "standard_error": error}
        for term, (factor, error) in factors.items()
    }
    return replace(results, sections=sections, more={"formula": best.formula, "terms": terms}), stopped


def _compared(formulas: list[str]) -> list[str]:
    """The formulas, each once; with one, also that of the intercept alone."""
    from evidentia.regression.formula import parse

    formulas = list(dict.fromkeys(formulas))
    parsed = [parse(formula) for formula in formulas]
    responses = {(one.response, one.trials) for one in parsed}
    if len(responses) > 1:
        listed = ", ".join(
            sorted(f"{response} | {trials}" if trials else response for response, trials in responses)
        )
        raise ConfigurationError(f"the formulas must have the same response; they have {listed}.")
    if len(parsed) == 1 and parsed[0].terms and parsed[0].has_intercept:
        left = formulas[0].split("~")[0].strip()
        offsets = [f"offset({one})" for one in parsed[0].offsets]
        rest = [*offsets, *map(str, parsed[0].varying)]  # groups differ with and without the terms
        return [formulas[0], f"{left} ~ {' + '.join(['1', *rest])}"]
    return formulas


@dataclass(frozen=True)
class About:
    """The table of a command, for its notes and `--json`."""

    name: str
    variables: tuple[str, ...]
    family: str
    num_rows: int
    constant: str | None
    observations: str

    def notes(self) -> list[str]:
        """Describe the table and the log evidences in sentences."""
        notes = [
            f"{self.name}: {self.num_rows:,} rows, columns {', '.join(self.variables)}; family {self.family}."
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
            "observations": self.observations,
        }
