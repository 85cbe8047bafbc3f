"""`evidentia serve`: monitors of live streams as a service, with metrics, alarms and a page."""

from pathlib import Path
from typing import Annotated

import typer

from evidentia.cli import options, output
from evidentia.errors import ConfigurationError, check_path

EXAMPLES = """[bold]Examples[/bold]

  evidentia serve service.toml

  evidentia serve service.toml --check"""


def command(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration.")],
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration and its models, and end.")
    ] = False,
    compilation_cache: options.CompilationCache = None,
) -> None:
    """Watch live streams, for months.

    The configuration names streams, from brokers or growing files, and what
    is computed of each: the evidence of models, changes, run lengths, for
    every key. Results are on a page, in a JSON API and as metrics.

    SIGTERM and Ctrl-C end it with a checkpoint. After that, or after a crash,
    the same command goes on: each row counts once.
    """
    check_path(config, "the configuration")
    try:
        from evidentia.service.logs import logging_to_stderr
        from evidentia.service.running import Service
        from evidentia.service.serving import serve
        from evidentia.service.settings import read_settings
    except ImportError as error:
        if (error.name or "evidentia").startswith("evidentia"):
            raise
        raise ConfigurationError(
            f"evidentia serve needs the package {error.name}: pip install 'evidentia[serve]'."
        ) from error
    from evidentia.cli.models import load_model
    from evidentia.cli.run import keep_compiled_programs
    from evidentia.cli.stream.loop import stop_on_signals

    settings = read_settings(config)
    base = config.resolve().parent
    keep_compiled_programs(compilation_cache)
    service = Service(settings, base, lambda name, key: load_model(str(base / name), key))
    if check:
        output.show_line(f"{config} is valid: {', '.join(settings.streams)}.")
        return
    with logging_to_stderr(), stop_on_signals() as stop:
        code = serve(service, stop, lambda url: output.show_line(f"Listening on {url}"))
    if code:
        raise typer.Exit(code)
