"""`evidentia test`: the standard tests on a table, or on the numbers of a paper."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from evidentia.cli import options, output
from evidentia.cli.deliveries import columns_of, deliver, samples_of, width_of
from evidentia.cli.tables import reads_tables
from evidentia.data.form import PLAIN, Form
from evidentia.errors import ConfigurationError

EXAMPLES = """[bold]Examples[/bold]

  evidentia test t sleep.csv --x drug2 --y drug1 --paired --out results/sleep

  evidentia test t --t 3.5 --n 20 --n-other 20 --alternative greater

  evidentia test anova puzzles.csv "RT ~ shape * colour + ID" --random ID

  evidentia test proportion 15 25 --null 0.5

  evidentia test design 0.5 --n-max 200 --upper 6 --out results/plan"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog=EXAMPLES,
    help="Bayes factors of t tests, correlations, ANOVAs, tables, proportions, studies; designs.",
)

Table = Annotated[str, typer.Argument(metavar="TABLE", help="CSV with a header line, or Parquet.")]
MaybeTable = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="CSV or Parquet; not needed with numbers of a paper.")
]
Alternative = Annotated[
    str, typer.Option(metavar="WORD", help="two-sided, greater or less: of x, or of the proportion.")
]
Scale = Annotated[
    str | None, typer.Option(metavar="SCALE", help="Width of the prior: medium, wide, ultrawide or a number.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="DIR", parser=options.folder_named, help="Write numbers and pictures here."
    ),
]
Column = Annotated[str | None, typer.Option(metavar="COLUMN")]


@app.command("t")
@reads_tables
def t(
    table: MaybeTable = None,
    x: Annotated[str | None, typer.Option("--x", metavar="COLUMN", help="The numbers.")] = None,
    y: Annotated[
        str | None,
        typer.Option("--y", metavar="COLUMN", help="A second sample, or the other halves of pairs."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="A column with two groups, in place of --y.")
    ] = None,
    paired: Annotated[bool, typer.Option("--paired", help="Rows of x and y belong together.")] = False,
    null: Annotated[float, typer.Option(metavar="MEAN", help="The mean (or difference) under H0.")] = 0.0,
    t: Annotated[
        float | None, typer.Option("--t", metavar="T", help="A published t, in place of data.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", metavar="ROWS", help="Rows or pairs that t is of.")] = None,
    n_other: Annotated[int | None, typer.Option(metavar="ROWS", help="Rows of a second sample.")] = None,
    scale: Scale = None,
    alternative: Alternative = "two-sided",
    form: Form = PLAIN,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """A t test of one sample, of pairs, or of two samples."""
    from evidentia import bf

    given: dict[str, Any] = {"alternative": alternative, "scale": width_of(scale, "medium")}
    if table is None:
        run = partial(bf.t_test, t=t, n=n, n_other=n_other, **given)
    else:
        if x is None or (y is not None and by is not None):
            raise ConfigurationError("a t test of a table needs --x, and at most one of --y and --by.")
        first, second = samples_of(columns_of(table, [x, y or by], form), x, y, by)
        run = partial(bf.t_test, first, second, paired, null, t=t, n=n, n_other=n_other, **given)
    deliver(run, out, as_json)


@app.command("correlation")
@reads_tables
def correlation(
    table: MaybeTable = None,
    x: Annotated[str | None, typer.Option("--x", metavar="COLUMN", help="The numbers.")] = None,
    y: Annotated[str | None, typer.Option("--y", metavar="COLUMN", help="Those that belong to them.")] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="pearson or kendall.")] = "pearson",
    r: Annotated[
        float | None, typer.Option("--r", metavar="R", help="A published r, in place of data.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", metavar="PAIRS", help="Pairs that r is of.")] = None,
    scale: Scale = None,
    alternative: Alternative = "two-sided",
    form: Form = PLAIN,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """A correlation, Pearson's or Kendall's."""
    from evidentia import bf

    columns: list[Any] = [None, None]
    if table is not None:
        if x is None or y is None:
            raise ConfigurationError("a correlation of a table needs --x and --y.")
        found = columns_of(table, [x, y], form)
        columns = [found[x], found[y]]
    width = width_of(scale, "ultrawide")
    deliver(partial(bf.correlation, *columns, method, width, alternative, r=r, n=n), out, as_json)


@app.command("anova")
@reads_tables
def anova(
    table: Table,
    formula: Annotated[str, typer.Argument(metavar="FORMULA", help="As in R: 'RT ~ shape * colour + ID'.")],
    random: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A random factor; may be given several times.")
    ] = None,
    scale: Scale = None,
    models: Annotated[str, typer.Option(metavar="WORD", help="all, or top-down.")] = "all",
    form: Form = PLAIN,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """All models of fixed and random factors and covariates."""
    from evidentia import bf
    from evidentia.regression.formula import parse

    rows = columns_of(table, parse(formula).variables, form)
    with output.warnings_as_notes():
        run = partial(bf.anova, formula, rows, random or (), width_of(scale, "medium"), models=models)
        deliver(run, out, as_json)


@app.command("contingency")
@reads_tables
def contingency(
    table: Table,
    rows: Annotated[str, typer.Option(metavar="COLUMN", help="A column of categories.")],
    columns: Annotated[str, typer.Option(metavar="COLUMN", help="Another one.")],
    sampling: Annotated[
        str,
        typer.Option(
            metavar="PLAN", help="joint multinomial, independent multinomial, poisson, hypergeometric."
        ),
    ] = "joint multinomial",
    fixed: Annotated[
        str | None, typer.Option(metavar="MARGIN", help="independent multinomial: rows or columns.")
    ] = None,
    concentration: Annotated[float, typer.Option(metavar="A", help="Shape of the cells' priors.")] = 1.0,
    form: Form = PLAIN,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """Independence of two columns of categories."""
    from evidentia import bf

    found = columns_of(table, [rows, columns], form)
    if rows == columns:
        raise ConfigurationError(f"--rows and --columns must be different columns; got {rows!r} twice.")
    both = {name: found[name] for name in (rows, columns)}
    deliver(partial(bf.contingency, both, sampling, fixed, concentration), out, as_json)


@app.command("proportion")
def proportion(
    successes: Annotated[int, typer.Argument(metavar="SUCCESSES")],
    trials: Annotated[int, typer.Argument(metavar="TRIALS")],
    null: Annotated[float, typer.Option(metavar="SHARE", help="The proportion under H0.")] = 0.5,
    scale: Scale = None,
    alternative: Alternative = "two-sided",
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """A proportion against a value."""
    from evidentia import bf

    width = width_of(scale, "medium")
    deliver(partial(bf.proportion, successes, trials, null, width, alternative), out, as_json)


@app.command("meta")
@reads_tables
def meta(
    table: Table,
    t: Column = None,
    n: Column = None,
    n_other: Column = None,
    effects: Column = None,
    errors: Column = None,
    scale: Scale = None,
    alternative: Alternative = "two-sided",
    form: Form = PLAIN,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """Studies, a row each: --t and --n (and --n-other), or --effects and --errors."""
    from evidentia import bf

    width = width_of(scale, "medium")
    used = [name for name in (t, n, n_other, effects, errors) if name is not None]
    found = columns_of(table, used, form)
    if t is not None and n is not None and effects is None and errors is None:
        others = None if n_other is None else found[n_other].tolist()
        run = partial(bf.meta_t_test, found[t].tolist(), found[n].tolist(), others, width, alternative)
    elif effects is not None and errors is not None and used == [effects, errors]:
        run = partial(bf.meta_analysis, found[effects], found[errors], width, alternative)
    else:
        raise ConfigurationError("studies need --t and --n (and --n-other), or --effects and --errors.")
    deliver(run, out, as_json)


@app.command("design")
def design(
    effect: Annotated[float, typer.Argument(metavar="EFFECT", help="The effect size under H1.")],
    test: Annotated[
        str, typer.Option(metavar="TEST", help="two samples, pairs or one sample.")
    ] = "two samples",
    n: Annotated[int | None, typer.Option("--n", metavar="ROWS", help="Rows of a fixed design.")] = None,
    n_min: Annotated[
        int, typer.Option(metavar="ROWS", help="Rows at the first look of a sequential one.")
    ] = 20,
    n_max: Annotated[int | None, typer.Option(metavar="ROWS", help="Rows at which it ends.")] = None,
    step: Annotated[int, typer.Option(metavar="ROWS", help="Rows between looks.")] = 1,
    upper: Annotated[float, typer.Option(metavar="BF", help="BF10 at which it stops for H1.")] = 10.0,
    lower: Annotated[
        float | None, typer.Option(metavar="BF", help="BF10 at which it stops for H0: 1 / upper.")
    ] = None,
    null: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="An interval of effect sizes in place of 0 under H0."),
    ] = None,
    scale: Scale = None,
    alternative: Alternative = "two-sided",
    num_runs: Annotated[
        int, typer.Option("--runs", metavar="RUNS", help="Simulated under each hypothesis.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(metavar="SEED")] = 0,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """How often a planned t test would find an effect, and how often it would mislead."""
    from evidentia import bf

    run = partial(
        bf.design,
        effect,
        test,
        n,
        n_min=n_min,
        n_max=n_max,
        step=step,
        upper=upper,
        lower=lower,
        scale=width_of(scale, "medium"),
        alternative=alternative,
        null=null or 0.0,
        num_runs=num_runs,
        seed=seed,
    )
    deliver(run, out, as_json)
