"""Command line: `evidentia demo | estimate | regress | select | test | compare | stream | …`.

Commands are thin wrappers of the Python interface. They import JAX and the rest only when they
run, so that help and completion are fast.
"""

import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from evidentia.cli import (
    compare,
    demo,
    estimate,
    output,
    regress,
    reproduce,
    select,
    serve,
    standard_tests,
)
from evidentia.cli.stream import command as stream_command
from evidentia.errors import EvidentiaError

app = typer.Typer(
    name="evidentia",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=demo.EXAMPLES)(demo.command)
app.command("estimate", epilog=estimate.EXAMPLES)(estimate.command)
app.command("regress", epilog=regress.EXAMPLES)(regress.command)
app.command("select", epilog=select.EXAMPLES)(select.command)
app.add_typer(standard_tests.app, name="test")
app.command("compare", epilog=compare.EXAMPLES)(compare.command)
app.command("stream", epilog=stream_command.EXAMPLES)(stream_command.command)
app.command("serve", epilog=serve.EXAMPLES)(serve.command)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evidentia {version('evidentia')}")
        raise typer.Exit


@app.callback(epilog="Start with:  [bold]evidentia demo[/bold]   or   [bold]evidentia estimate --help[/bold]")
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Bayesian model evidence, online and at scale.

    Computes the log evidence log p(data) of a model, with its standard error, from tables of up to
    millions of rows.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: the words after the program's name; by default those of the process.

    Returns:
        0; 2 for a mistake in the command, the data or the model, after one message on stderr; 3 if
        a log evidence must not be used (its verdict is "failed"); 130 after Ctrl-C.

    Example:
        >>> words = ["estimate", "table.parquet", "--model", "softmax", "--target", "label"]
        >>> main(words)  # doctest: +SKIP
        0
    """
    # JAX 0.9 logs false alarms when it loads programs from the compilation cache
    # (openxla/xla#44565); real errors are exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    output.write_any_text()
    try:
        app(args=arguments, prog_name="evidentia")
    except EvidentiaError as error:
        output.show_error(str(error))
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, a name that is too long
        where = f"{str(error.filename)[:200]}: " if error.filename else "standard output: "
        output.show_error(f"{where}{error.strerror or error}.")
        return 2
    except SystemExit as stop:  # from typer: 0, 2 after a usage error, 130 after Ctrl-C
        return stop.code if isinstance(stop.code, int) else 1
    return 0
