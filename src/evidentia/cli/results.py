"""Results of a command, for the terminal, `--json` and the folder of `--out`."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from evidentia.cli import output
from evidentia.display import text
from evidentia.display.summary_table import Summary
from evidentia.errors import CheckpointError, ConfigurationError
from evidentia.report import results_dict, write_results
from evidentia.report.own_files import RESULTS, not_ours
from evidentia.report.section import Section
from evidentia.results.comparing import compare
from evidentia.results.comparison import Comparison
from evidentia.results.result import Evidence
from evidentia.system.locking import FolderLock


@dataclass(frozen=True, eq=False)
class Results:
    """Evidences by name with notes, and the entries of `--json` for the data (`more`: others).

    `coefficients` are those of a regression's formula.
    """

    title: str
    evidences: Mapping[str, Evidence]
    notes: Sequence[str]
    data: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)
    sections: Sequence[Section] = ()
    coefficients: Summary | None = None

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

    def deliver(
        self,
        folder: Path | None,
        as_json: bool,
        stopped: BaseException | None = None,
        indent: int | None = 2,
    ) -> BaseException | None:
        """Write into a folder, if one is given, then print; return what hindered the writing.

        Files come first, as printing fails if the reader of a pipe has closed it. Numbers that
        could not be written are printed all the same. What stopped the run is returned first; what
        hindered the writing is then a note.
        """
        unwritten = None
        if folder is not None:
            try:
                self.write(folder)
            except Exception as error:  # of any kind: no number must be lost
                unwritten = error
        if as_json:
            output.print_json(self.to_dict(), indent)
        else:
            self.show()
            if folder is not None and unwritten is None:
                output.show_written(folder)
        if stopped is not None and unwritten is not None:
            output.show_note(str(unwritten))
        return stopped or unwritten

    def show(self) -> None:
        """Print one evidence or a table of several, with the notes, on stdout."""
        if len(self.evidences) == 1:
            show_evidence(*self.evidences.values())
        else:
            show_comparison(self.comparison)
        if self.coefficients is not None:
            output.show_line(f"\nCoefficients of {self.coefficients.model_name}:")
            output.show_line(repr(self.coefficients))
        for note in self.notes:
            output.show_line(f"\n{note}", style="dim")

    def _about(self) -> dict[str, Any]:
        about = {"title": self.title, "notes": self.notes, "data": self.data, "more": self.more}
        return output.encodable(about)  # names of files may hold any bytes


def show_comparison(comparison: Comparison) -> None:
    """Print the table of models and its conclusion on stdout."""
    header, *rows = repr(comparison).splitlines()
    output.show_line(header, style="bold")
    for row in rows:
        output.show_line(row)
    console = output.plain_console()
    console.print()
    console.print(output.plain(comparison.conclusion))


def show_evidence(evidence: Evidence) -> None:
    """Print one result on stdout."""
    stopped = "" if evidence.completed else " (stopped early)"
    counted = {
        "per row": f"{evidence.log_evidence / evidence.num_observations:.5f} nats",
        "rows": f"{evidence.num_observations:,}{stopped}",
    }
    rows = {
        "log evidence": f"{text.with_error(evidence.log_evidence, evidence.standard_error)} nats",
        **(counted if text.is_count(evidence.num_observations) else {}),
        "particles": f"{evidence.num_particles:,}, effective {evidence.ess:,.0f}",
        "seed": str(evidence.seed),
        "time": text.duration(evidence.seconds),
        "verdict": evidence.verdict.word + (f": {', '.join(evidence.signs)}" if evidence.signs else ""),
        **({"prior": str(evidence.diagnostics["prior"])} if "prior" in evidence.diagnostics else {}),
    }
    output.show_line(evidence.model_name, style="bold")
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        grid.add_row(name, value)
    output.plain_console().print(grid)


def make_folder(folder: Path, kinds: Mapping[str, Callable[[Path], bool]] = RESULTS) -> None:
    """Create the results folder before the work starts, so that errors appear early.

    `kinds` are the patterns of the files that may be written, with what tells that one is ours.

    Raises:
        ConfigurationError: the folder cannot be created or written to, or has a file of the same
            name as a result that evidentia did not write.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from error
    check_folder(folder, kinds)


def check_folder(folder: Path, kinds: Mapping[str, Callable[[Path], bool]] = RESULTS) -> None:
    """Raise ConfigurationError if a folder has a file that would be replaced and is not ours."""
    try:
        foreign = not_ours(folder, kinds)
    except FileNotFoundError:  # no folder, no file
        return
    except OSError as error:
        raise _cannot_write(folder, error) from error
    if foreign is not None:
        raise ConfigurationError(
            f"--out {folder}: {foreign.relative_to(folder)} there was not written by evidentia and would be replaced. Name another folder, or move "
            "the file."
        )


def held(folder: Path | None) -> AbstractContextManager[Any]:
    """Hold the folder of `--out` during a run that adds lines to a file there."""
    return (
        nullcontext() if folder is None else FolderLock(folder, "--out", name="updates.lock", is_kept=False)
    )


def _cannot_write(folder: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or error
    return ConfigurationError(f"--out {folder}: cannot write to this folder ({reason}). Name another.")
