"""`evidentia select`: how probable the terms of a formula are."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from evidentia.cli import options, output
from evidentia.cli.deliveries import deliver
from evidentia.cli.tables import reads_tables, with_levels
from evidentia.data.form import PLAIN, Form
from evidentia.errors import check_seed

EXAMPLES = """[bold]Examples[/bold]

  evidentia select plants.csv "biomass ~ temp + rain + site" --out results

  evidentia select visits.csv "visits ~ age + sex" --family poisson"""


@reads_tables
def command(
    table: options.Table,
    formula: Annotated[
        str, typer.Argument(metavar="FORMULA", help="The largest model, as in R: 'price ~ carat + cut'.")
    ],
    family: Annotated[
        str, typer.Option(metavar="FAMILY", help="gaussian, or another of evidentia regress.")
    ] = "gaussian",
    link: options.Link = None,
    prior: options.Prior = None,
    prior_scale: options.PriorScale = None,
    prior_probabilities: Annotated[
        str, typer.Option(metavar="WORD", help="uniform over models, or beta-binomial over their sizes.")
    ] = "uniform",
    g: options.G = "shared",
    weights: options.Weights = None,
    missing: options.Missing = "drop",
    form: Form = PLAIN,
    levels: options.Levels = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    as_json: options.AsJson = False,
    compilation_cache: options.CompilationCache = None,
) -> None:
    """Which terms of a formula matter: their probabilities, over all its sub-models.

    A model with an interaction has its parts as well. With --out, results.json
    and terms.png are written into a folder.
    """
    from evidentia.cli.run import keep_compiled_programs
    from evidentia.data.tables import in_pieces, read_columns
    from evidentia.regression import Regression, select_terms
    from evidentia.regression.table import as_table

    check_seed(seed, "--seed")
    chosen = prior and prior.value
    asked = Regression(formula, family, link, chosen, prior_scale, weights=weights, g=g)
    keep_compiled_programs(compilation_cache)
    with output.warnings_as_notes():
        data = None if levels else in_pieces(table, form)
        if data is None:
            data = with_levels(read_columns(table, asked.variables, form), levels)
            data = as_table(data, asked.variables, missing, where=table)
        run = partial(
            select_terms,
            formula,
            data,
            family=family,
            link=link,
            prior=chosen,
            prior_scale=prior_scale,
            prior_probabilities=prior_probabilities,
            missing=missing,
            weights=weights,
            seed=seed,
            g=g,
        )
        deliver(run, out, as_json, keys=("formula", "terms", "models"))
