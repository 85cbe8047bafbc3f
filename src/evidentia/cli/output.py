"""What the commands show: messages and progress on stderr, results on stdout."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evidentia import text
from evidentia.compare import Comparison, compare
from evidentia.errors import ConfigurationError, EvidenceWarning
from evidentia.progress import Listener, plain_lines, progress_bar
from evidentia.report import results_dict, write_results
from evidentia.result import Evidence


@dataclass(frozen=True, eq=False)
class Results:
    """What a command found, for the folder of results and for `--json`; `more` are entries of its own."""

    title: str
    evidences: Mapping[str, Evidence]
    notes: Sequence[str]
    data: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def comparison(self) -> Comparison:
        """Of all the evidences."""
        return compare(self.evidences)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return results_dict(self.evidences, self.comparison, **self._about())

    def write(self, folder: Path) -> None:
        """Write numbers, pictures and the page.

        Raises:
            ConfigurationError: the folder cannot be written to.
        """
        try:
            write_results(folder, self.evidences, self.comparison, **self._about())
        except OSError as error:
            raise _cannot_write(folder, error) from error

    def _about(self) -> dict[str, Any]:
        return {"title": self.title, "notes": self.notes, "data": self.data, "more": self.more}


def show_error(message: str) -> None:
    """One message on stderr."""
    _say("Error", "bold red", message)


def show_note(message: str) -> None:
    """Something that the reader of a result should know, on stderr."""
    _say("Note", "bold yellow", message)


def show_comparison(comparison: Comparison) -> None:
    """The table of models and its conclusion, on stdout."""
    header, rows = comparison.cells()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index else "left", no_wrap=bool(index), overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print()
    console.print(comparison.conclusion)


def show_evidence(evidence: Evidence, notes: Sequence[str]) -> None:
    """One result and what to know of it, on stdout."""
    stopped = "" if evidence.completed else " (stopped early)"
    rows = {
        "log evidence": f"{text.with_error(evidence.log_evidence, evidence.standard_error)} nats",
        "per row": f"{evidence.log_evidence / evidence.num_observations:.5f} nats",
        "rows": f"{evidence.num_observations:,}{stopped}",
        "particles": f"{evidence.num_particles:,}, effective {evidence.ess:,.0f}",
        "seed": str(evidence.seed),
        "time": text.duration(evidence.seconds),
        "warnings": str(evidence.diagnostics.get("warnings") or "none"),
    }
    show_line(evidence.model_name, style="bold")
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        grid.add_row(name, value)
    Console(highlight=False, markup=False).print(grid)
    for note in notes:
        show_line(f"\n{note}", style="dim")


def show_experiments(experiments: Iterable[Any]) -> None:
    """The names that `reproduce` knows, and the figures and tables that they are, on stdout."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("reproduces")
    for experiment in experiments:
        table.add_row(experiment.name, f"{experiment.title}: {experiment.reproduces}")
    Console(highlight=False, markup=False).print(table)


def show_line(line: str, style: str = "") -> None:
    """A line of text on stdout, wrapped on a terminal only."""
    console = Console(highlight=False)
    console.print(line, style=style or None, markup=False, soft_wrap=not console.is_terminal)


def print_json(value: Mapping[str, Any], indent: int | None = 2) -> None:
    """One object on stdout, on a single line without an indent."""
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def progress(name: str, *, quiet: bool, plain: bool = False) -> AbstractContextManager[Listener]:
    """A bar on a terminal; elsewhere plain lines if `plain`, else nothing."""
    if quiet:
        return nullcontext(lambda update: None)
    if plain and not Console(stderr=True).is_terminal:
        return plain_lines(name)
    return progress_bar(name)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show the package's warnings as notes, without file names and lines of code."""
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


def show_written(folder: Path) -> None:
    """Where the results are, on stdout."""
    show_line(f"Written to {folder}/: open index.html.")


def make_folder(folder: Path) -> None:
    """Make the folder for results before the work starts, so that a mistake is not found after it.

    Raises:
        ConfigurationError: if it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".evidentia"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _cannot_write(folder: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or error
    return ConfigurationError(f"--out {folder}: cannot write to this folder ({reason}). Name another.")


def _say(label: str, style: str, message: str) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(f"[{style}]{label}:[/] ", end="")
    console.print(message, markup=False, soft_wrap=not console.is_terminal)
