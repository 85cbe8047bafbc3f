"""`evidentia stream`: the log evidence of models, batch by batch, of rows that keep coming or do not fit in memory."""

from pathlib import Path
from typing import Annotated

import typer

from evidentia.cli import output
from evidentia.cli.models import check_names
from evidentia.cli.run import CompilationCache, check_seed, keep_compiled_programs
from evidentia.cli.stream_run import Plan, run
from evidentia.cli.table import split_features
from evidentia.errors import ConfigurationError
from evidentia.evidence import SGAIS
from evidentia.fields import check_count
from evidentia.stream.sources import Missing

EXAMPLES = """[bold]Examples[/bold]

  evidentia stream 'parts/*.parquet' --model linear --target y --checkpoint run

  evidentia stream sensor.csv --follow -m linear -m my_models.py:robust -t y

  producer | evidentia stream - -m softmax -t label --num-classes 4 --json"""


def command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="CSV or Parquet files, patterns, folders of Parquet files; or - for Arrow IPC on standard input.",
        ),
    ],
    models: Annotated[
        list[str],
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="linear, softmax, mixture, or path/to/file.py:name. Repeatable.",
        ),
    ],
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="What a regression explains.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns to use. Default: all but the target.")
    ] = None,
    num_classes: Annotated[
        int | None, typer.Option(metavar="COUNT", help="softmax: classes. Needed.")
    ] = None,
    num_components: Annotated[
        int | None, typer.Option(metavar="COUNT", help="mixture: components. Default: 2.")
    ] = None,
    noise_scale: Annotated[
        float | None,
        typer.Option(metavar="SIGMA", help="linear: standard deviation of the noise. Default: 1."),
    ] = None,
    batch_size: Annotated[int, typer.Option(metavar="ROWS", help="Rows that are taken in at once.")] = 500,
    reservoir_size: Annotated[int, typer.Option(metavar="ROWS", help="Rows kept, of all seen.")] = 100_000,
    num_particles: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Four times as many halve the standard error.")
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="What to do with rows that have missing values.")
    ] = "error",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for lines that are added to a CSV file.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", "-c", metavar="DIR", help="Go on from here, and save here, now and then."
        ),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two checkpoints; 0: after each batch.")
    ] = 10.0,
    false_alarm_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Watch for changes, with so many false alarms per batch at most."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="SEED", help="The same seed, the same numbers.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Write updates and results here; index.html shows them."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    compilation_cache: CompilationCache = None,
) -> None:
    """Follow the log evidence of models, batch by batch.

    For files larger than memory, files that grow, and rows from other
    programs. Rows are taken in once, in their order.

    SIGTERM and Ctrl-C end the run after the batch at work. With --checkpoint
    the same command then goes on from there; no row is lost or counted twice,
    nor is it when the process is killed.
    """
    check_seed(seed)
    check_count("--batch-size", batch_size, 1)
    if not checkpoint_every >= 0:
        raise ConfigurationError(f"--checkpoint-every must be a number of seconds; got {checkpoint_every}.")
    options = {"num_classes": num_classes, "num_components": num_components, "noise_scale": noise_scale}
    check_names(models, target, options)
    if "softmax" in models and num_classes is None:
        raise ConfigurationError(
            "--model softmax needs --num-classes in a stream: classes that have not come yet cannot be counted."
        )
    plan = Plan(
        sources=sources,
        models=_labelled(models),
        options=options,
        target=target,
        features=split_features(features),
        batch_size=batch_size,
        reservoir_size=reservoir_size,
        method=SGAIS() if num_particles is None else SGAIS(num_particles=num_particles),
        missing=missing,
        follow=follow,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        false_alarm_rate=false_alarm_rate,
        seed=seed,
        out=out,
        as_json=as_json,
        quiet=quiet,
    )
    if out is not None:
        output.make_folder(out)
    keep_compiled_programs(compilation_cache)
    run(plan)


def _labelled(models: list[str]) -> dict[str, str]:
    """What `--model` was given by the names that results have: of a model of one's own, that in its file."""
    labels = [model.rpartition(":")[2] for model in models]
    if twice := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise ConfigurationError(
            f"--model names {', '.join(twice)} more than once; models need names of their own. Leave one out, or rename it."
        )
    return dict(zip(labels, models, strict=True))
