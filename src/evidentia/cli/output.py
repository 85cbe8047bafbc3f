"""Output of the commands: results on stdout, everything else on stderr."""

import codecs
import io
import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from evidentia.errors import EvidenceWarning
from evidentia.results.verdict import Verdict

# Text from files could move the cursor or change colours.
CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])
# Bytes of file names that are not UTF-8, which Python keeps as halves of pairs of code units.
UNDECODED = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
ASCII = {"±": "+-", "−": "-", "–": "-", "…": "...", "·": "*", "²": "2", "×": "x"}


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: no markup, no emoji codes, no highlights."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def plain(text: str) -> str:
    """Text without control characters, other than tabs and line ends, that UTF-8 can encode."""
    return text.translate(CONTROLS).translate(UNDECODED)


def encodable(value: Any) -> Any:
    """A text, or the texts in lists and mappings, with U+FFFD for what UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.translate(UNDECODED)
    if isinstance(value, Mapping):
        return {encodable(key): encodable(each) for key, each in value.items()}
    return [encodable(each) for each in value] if isinstance(value, list | tuple) else value


def write_any_text() -> None:
    """Let streams that know only some characters, as in the C locale, write others in ASCII."""

    def in_ascii(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(ASCII.get(char, "?") for char in error.object[error.start : error.end]), error.end

    codecs.register_error("evidentia-ascii", in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="evidentia-ascii")


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
    plain_console().print(table)


def show_line(line: str, style: str = "") -> None:
    """Print a line of text on stdout, wrapped only on a terminal."""
    console = plain_console()
    console.print(plain(line), style=style or None, soft_wrap=not console.is_terminal)


def show_written(folder: Path) -> None:
    """Print the location of the results on stdout."""
    show_line(f"Written to {folder}/: open index.html.")


def print_json(value: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print an object as JSON on stdout, on one line if `indent` is None."""
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def end(verdicts: Iterable[Verdict | None]) -> None:
    """Leave the command with exit code 3 if a log evidence must not be used."""
    if any(verdict is not None and verdict.word == "failed" for verdict in verdicts):
        raise typer.Exit(3)


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
    console = plain_console(stderr=True)
    console.print(f"{label}: ", style=style, end="")
    console.print(plain(message), soft_wrap=not console.is_terminal)
