"""Output of the commands: results on stdout, everything else on stderr."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evidentia.errors import EvidenceWarning


def show_error(message: str) -> None:
    """Print an error on stderr."""
    _say("Error", "bold red", message)


def show_note(message: str) -> None:
    """Print a note about a result on stderr."""
    _say("Note", "bold yellow", message)


def show_experiments(experiments: Iterable[Any]) -> None:
    """Print the names of the experiments, and what they reproduce, on stdout."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("reproduces")
    for experiment in experiments:
        table.add_row(experiment.name, f"{experiment.title}: {experiment.reproduces}")
    Console(highlight=False, markup=False).print(table)


def show_line(line: str, style: str = "") -> None:
    """Print a line of text on stdout, wrapped only on a terminal."""
    console = Console(highlight=False)
    console.print(line, style=style or None, markup=False, soft_wrap=not console.is_terminal)


def show_written(folder: Path) -> None:
    """Print the location of the results on stdout."""
    show_line(f"Written to {folder}/: open index.html.")


def print_json(value: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print an object as JSON on stdout, on one line if `indent` is None."""
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show the package's warnings as notes, without file names and code lines."""
    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.simplefilter("always", EvidenceWarning)

        def show_warning(message, category, filename, lineno, file=None, line=None):
            if issubclass(category, EvidenceWarning):
                show_note(f"{str(message)[:1].upper()}{str(message)[1:]}")
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = show_warning
        yield


def _say(label: str, style: str, message: str) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(f"[{style}]{label}:[/] ", end="")
    console.print(message, markup=False, soft_wrap=not console.is_terminal)
