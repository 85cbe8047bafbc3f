"""Results of a command, for the terminal, `--json` and the folder of `--out`."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from evidentia.cli import output
from evidentia.comparison import Comparison, compare
from evidentia.display import text
from evidentia.errors import CheckpointError, ConfigurationError
from evidentia.report import results_dict, write_results
from evidentia.report.folder import not_ours
from evidentia.report.section import Section
from evidentia.result import Evidence


@dataclass(frozen=True, eq=False)
class Results:
    """Evidences by name with notes, and the entries of `--json` for the data (`more`: others)."""

    title: str
    evidences: Mapping[str, Evidence]
    notes: Sequence[str]
    data: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)
    sections: Sequence[Section] = ()

    @property
    def comparison(self) -> Comparison:
        """Comparison of all evidences."""
        return compare(self.evidences)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as a dictionary for JSON."""
        return results_dict(self.evidences, self.comparison, **self._about())

    def write(self, folder: Path) -> None:
        """Write numbers, pictures and the page. Raises ConfigurationError if that fails."""
        try:
            write_results(folder, self.evidences, self.comparison, self.sections, **self._about())
        except OSError as error:
            raise _cannot_write(folder, error) from error
        except CheckpointError as error:
            raise ConfigurationError(f"--out {folder}: {error}") from error
        except KeyboardInterrupt:
            output.show_note(f"Stopped while {folder} was written: some of its files may be missing or old.")
            raise

    def show(self) -> None:
        """Print one evidence or a table of several, with the notes, on stdout."""
        if len(self.evidences) == 1:
            show_evidence(*self.evidences.values())
        else:
            show_comparison(self.comparison)
        for note in self.notes:
            output.show_line(f"\n{note}", style="dim")

    def _about(self) -> dict[str, Any]:
        about = {"title": self.title, "notes": self.notes, "data": self.data, "more": self.more}
        return output.encodable(about)  # names of files may hold any bytes


def show_comparison(comparison: Comparison) -> None:
    """Print the table of models and its conclusion on stdout."""
    header, rows = comparison.cells()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index else "left", no_wrap=bool(index), overflow="fold")
    for row in rows:
        table.add_row(*map(output.plain, row))
    console = output.plain_console()
    console.print(table)
    console.print()
    console.print(output.plain(comparison.conclusion))


def show_evidence(evidence: Evidence) -> None:
    """Print one result on stdout."""
    stopped = "" if evidence.completed else " (stopped early)"
    rows = {
        "log evidence": f"{text.with_error(evidence.log_evidence, evidence.standard_error)} nats",
        "per row": f"{evidence.log_evidence / evidence.num_observations:.5f} nats",
        "rows": f"{evidence.num_observations:,}{stopped}",
        "particles": f"{evidence.num_particles:,}, effective {evidence.ess:,.0f}",
        "seed": str(evidence.seed),
        "time": text.duration(evidence.seconds),
        "verdict": evidence.verdict.word + (f": {', '.join(evidence.signs)}" if evidence.signs else ""),
    }
    output.show_line(evidence.model_name, style="bold")
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        grid.add_row(name, value)
    output.plain_console().print(grid)


def make_folder(folder: Path) -> None:
    """Create the results folder before the work starts, so that errors appear early.

    Raises:
        ConfigurationError: the folder cannot be created or written to, or has a file of the same
            name as a result that evidentia did not write.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        foreign = not_ours(folder)
    except OSError as error:
        raise _cannot_write(folder, error) from error
    if foreign is not None:
        raise ConfigurationError(
            f"--out {folder}: {foreign.relative_to(folder)} there was not written by evidentia and would be replaced. Name another folder, or move "
            "the file."
        )


def _cannot_write(folder: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or error
    return ConfigurationError(f"--out {folder}: cannot write to this folder ({reason}). Name another.")
