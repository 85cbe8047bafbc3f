"""`evidentia stream`: the log evidence of models, batch by batch, on streams and large files."""

from pathlib import Path
from typing import Annotated

import typer

import evidentia as ev
from evidentia.cli import options
from evidentia.cli.tables import reads_tables
from evidentia.data.form import PLAIN, Form
from evidentia.errors import ConfigurationError, check_count, check_seed

EXAMPLES = """[bold]Examples[/bold]

  evidentia stream 'parts/*.parquet' --model linear --target y --checkpoint run

  evidentia stream sensor.csv --follow -m linear -m my_models.py:robust -t y

  producer | evidentia stream - -m softmax -t label --num-classes 4 --json

  evidentia stream redis://host/readings -m linear -t y --features a,b -c run"""


@reads_tables
def command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="CSV or Parquet files, patterns or folders; - for Arrow IPC on standard input; or the URL "
            "of a broker: kafka, mqtt, redis, nats, http, ws.",
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
    target: options.Target = None,
    features: options.Features = None,
    missing: options.Missing = "error",
    form: Form = PLAIN,
    num_classes: Annotated[
        int | None, typer.Option(metavar="COUNT", help="softmax: classes. Required.")
    ] = None,
    num_components: options.NumComponents = None,
    noise_scale: options.NoiseScale = None,
    batch_size: Annotated[int, typer.Option(metavar="ROWS", help="Rows in a batch.")] = 500,
    reservoir_size: Annotated[int, typer.Option(metavar="ROWS", help="Rows in the reservoir.")] = 100_000,
    num_particles: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Four times as many halve the standard error.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines of a CSV file.")] = False,
    payload: Annotated[
        str, typer.Option(metavar="FORM", help="Brokers: json, arrow or avro in a message.")
    ] = "json",
    dead_letters: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Brokers: messages without valid rows go here. Default: an error."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            *("--checkpoint", "-c"),
            metavar="DIR",
            parser=options.folder_named,
            help="Resume from this folder, and save to it.",
        ),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between checkpoints; 0: after each batch.")
    ] = 10.0,
    false_alarm_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Detect changes, with at most RATE false alarms per batch."),
    ] = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    compilation_cache: options.CompilationCache = None,
) -> None:
    """Follow the log evidence of models, batch by batch.

    For files larger than memory, growing files, and rows from other
    programs. Rows are processed once, in order.

    SIGTERM and Ctrl-C end the run after the current batch. With --checkpoint,
    the same command then resumes there. No row is lost or counted twice, even
    if the process is killed.
    """
    from evidentia.cli.columns import split_features
    from evidentia.cli.models import check_names
    from evidentia.cli.results import make_folder
    from evidentia.cli.run import keep_compiled_programs
    from evidentia.cli.stream.plan import Plan
    from evidentia.cli.stream.run import run
    from evidentia.cli.table import check_streamable

    check_seed(seed, "--seed")
    check_count("--batch-size", batch_size, 1)
    if not checkpoint_every >= 0:
        raise ConfigurationError(f"--checkpoint-every must be a number of seconds; got {checkpoint_every}.")
    settings = {"num_classes": num_classes, "num_components": num_components, "noise_scale": noise_scale}
    check_names(models, target, settings)
    check_streamable(False, models, num_classes)
    plan = Plan(
        sources=sources,
        models=_labelled(models),
        options=settings,
        target=target,
        features=split_features(features),
        batch_size=batch_size,
        reservoir_size=reservoir_size,
        method=ev.SGAIS() if num_particles is None else ev.SGAIS(num_particles=num_particles),
        missing=missing,
        form=form,
        follow=follow,
        payload=payload,
        dead_letters=dead_letters,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        false_alarm_rate=false_alarm_rate,
        seed=seed,
        out=out,
        as_json=as_json,
        quiet=quiet,
    )
    if out is not None:
        make_folder(out)
    keep_compiled_programs(compilation_cache)
    run(plan)


def _labelled(models: list[str]) -> dict[str, str]:
    """Map result names to models; a user's own model has its name in the file."""
    labels = [model.rpartition(":")[2] for model in models]
    if twice := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise ConfigurationError(
            f"--model names {', '.join(twice)} more than once; each model needs its own name. Leave one out, or rename it."
        )
    return dict(zip(labels, models, strict=True))
