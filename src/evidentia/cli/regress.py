"""`evidentia regress`: the evidence of regressions by formula on a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from evidentia.cli import options, output
from evidentia.cli.tables import reads_tables, with_levels
from evidentia.data.form import PLAIN, Form
from evidentia.errors import ConfigurationError, EvidentiaError, check_seed

if TYPE_CHECKING:
    from evidentia.regression import Regression
    from evidentia.results.result import Evidence

EXAMPLES = """[bold]Examples[/bold]

  evidentia regress diamonds.csv "log(price) ~ log(carat) + cut" "log(price) ~ log(carat)"

  evidentia regress penguins.csv "species ~ bill_length_mm + sex" --family categorical

  evidentia regress visits.csv "visits ~ age + offset(log(years))" --family negative-binomial --out results"""


@reads_tables
def command(
    table: options.Table,
    formulas: Annotated[
        list[str], typer.Argument(metavar="FORMULA...", help="As in R: 'log(price) ~ log(carat) + cut'.")
    ],
    family: Annotated[
        str, typer.Option(metavar="FAMILY", help="gaussian, or another listed above.")
    ] = "gaussian",
    link: options.Link = None,
    prior: options.Prior = None,
    prior_scale: options.PriorScale = None,
    g: options.G = "shared",
    weights: options.Weights = None,
    missing: options.Missing = "drop",
    form: Form = PLAIN,
    levels: options.Levels = None,
    seed: options.Seed = 0,
    max_seconds: options.MaxSeconds = None,
    out: options.Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    compilation_cache: options.CompilationCache = None,
) -> None:
    """Compare regressions by formula on a table.

    Text columns are coded against their first category; a:b and a*b are
    interactions, bs(x, df=4) is a spline, offset(x) has the effect one, - 1
    leaves the intercept out, `my column` in backticks is a column. Rows with
    missing values in the columns of any formula are left out. With one formula,
    it is compared with the intercept alone.

    FAMILY is gaussian, student-t, bernoulli, binomial ("successes | trials ~ x"),
    poisson, negative-binomial, gamma, beta, categorical or ordinal; for counts
    with more zeros zero-inflated-poisson, zero-inflated-negative-binomial,
    hurdle-poisson or hurdle-negative-binomial; for shares that may be 0 or 1
    zero-inflated-beta or zero-one-inflated-beta; for times, also censored ones
    ("Surv(time, status) ~ x"), exponential, weibull or lognormal.
    """
    from evidentia.cli.regress_results import About, with_coefficients, with_sections
    from evidentia.cli.results import Results, make_folder
    from evidentia.cli.run import Candidate, estimate_each, keep_compiled_programs
    from evidentia.data.tables import in_pieces, read_columns
    from evidentia.regression import Regression
    from evidentia.regression.formula import parse
    from evidentia.regression.frequencies import with_weights
    from evidentia.regression.nested import nested
    from evidentia.regression.streamed import Streamed, look_through
    from evidentia.regression.table import as_table
    from evidentia.results.comparable import check_constants

    check_seed(seed, "--seed")
    options.check_seconds(max_seconds)
    chosen = prior and prior.value
    regressions = _of_one_kind(
        {
            formula: Regression(formula, family, link, chosen, prior_scale, g=g)
            for formula in _compared(formulas)
        }
    )
    priors = {formula: one.prior_in_words for formula, one in regressions.items()}
    check_constants({formula: one.constant for formula, one in regressions.items()}, priors)
    variables = list(dict.fromkeys(name for one in regressions.values() for name in one.variables))
    if out is not None:
        make_folder(out)
    keep_compiled_programs(compilation_cache)
    used = with_weights(variables, weights)
    with output.warnings_as_notes():
        source = None if levels else in_pieces(table, form)
        if source is None:
            rows = with_levels(read_columns(table, used, form), levels)
            data = as_table(rows, variables, missing, weights, where=table)
        else:
            data = look_through(source, variables, missing, weights)
            if not all(one.is_exact and one.g == "shared" for one in regressions.values()):
                data = data.held()
    every = regressions.values()
    candidates = [Candidate(formula, nested(one, every), data) for formula, one in regressions.items()]
    evidences, stopped = estimate_each(
        candidates, method="auto", seed=seed, quiet=quiet, max_seconds=max_seconds
    )
    evidences = _comparable(evidences)
    if evidences:
        constant = next(iter(evidences.values())).constant
        response = parse(next(iter(regressions))).response_variables
        observations = next(iter(evidences.values())).fingerprints.get(", ".join(response), "")
        num_rows = data.num_rows if isinstance(data, Streamed) else len(data)
        about = About(table, tuple(used), family, num_rows, constant, observations, priors, weights)
        results = Results(f"{family} regression: {table}", evidences, about.notes(), about.to_dict())
        if stopped is None:
            try:
                results = with_coefficients(results)
                if out is not None:
                    results, stopped = with_sections(results, regressions, data, seed=seed, quiet=quiet)
            except (EvidentiaError, KeyboardInterrupt) as error:  # the results themselves are there
                stopped = error
        stopped = results.deliver(out, as_json, stopped)
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


def _of_one_kind(regressions: dict[str, Regression]) -> dict[str, Regression]:
    """The regressions, with normal priors for all where groups need them in some, with a note."""
    if (
        all(one.prior is None for one in regressions.values())
        and len({one.is_exact for one in regressions.values()}) > 1
    ):
        output.show_note(
            "Some formulas have effects that vary by group, which need normal priors. So that all can be compared, --prior normal "
            "is used for all."
        )
        return {formula: replace(one, prior="normal") for formula, one in regressions.items()}
    return regressions


def _compared(formulas: list[str]) -> list[str]:
    """The formulas, each once; with one, also that of the intercept alone."""
    from evidentia.regression.formula import parse

    formulas = list(dict.fromkeys(formulas))
    parsed = [parse(formula) for formula in formulas]
    responses = sorted({one.left_hand_side for one in parsed})
    if len(responses) > 1:
        raise ConfigurationError(
            f"the formulas must have the same response; they have {', '.join(responses)}."
        )
    if len(parsed) == 1 and parsed[0].terms and parsed[0].has_intercept:
        offsets = [f"offset({one})" for one in parsed[0].offsets]
        rest = [*offsets, *map(str, parsed[0].varying)]  # groups differ with and without the terms
        return [formulas[0], f"{parsed[0].left_hand_side} ~ {' + '.join(['1', *rest])}"]
    return formulas
