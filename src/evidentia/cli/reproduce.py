"""`evidentia reproduce`: figures and tables of the papers, reproduced and compared."""

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from evidentia.cli import output
from evidentia.cli.options import folder_named
from evidentia.errors import ConfigurationError, EvidentiaError, check_seed

EXAMPLES = """[bold]Examples[/bold]

  evidentia reproduce --list

  evidentia reproduce error-model --quick --out reproduced

  evidentia reproduce all --quick"""


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A name from --list, or [bold]all[/bold].", show_default=False),
    ] = None,
    wants_list: Annotated[
        bool, typer.Option("--list", help="Show the names and what they reproduce.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Under a minute each, instead of the papers' settings.")
    ] = False,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", parser=folder_named, help="Write numbers and pictures here."
        ),
    ] = Path("evidentia-reproduced"),
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Folder with real data. Default: download them."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="SEED", help="Seed of all random numbers.")] = 0,
) -> None:
    """Reproduce a figure or a table of the papers behind evidentia.

    Shows the paper's claim, the measurement here, and a verdict computed from
    the numbers. With the papers' settings, some experiments take hours; an
    interrupted run resumes when called again. [bold]all[/bold] writes one
    page, report.html.
    """
    from evidentia.cli.results import make_folder

    check_seed(seed, "--seed")
    experiments = _room("catalogue").EXPERIMENTS
    if wants_list:
        output.show_experiments(experiments.values())
        return
    if name is None or (name != "all" and name not in experiments):
        given = "no name" if name is None else repr(name)
        raise ConfigurationError(f"NAME must be all, or one of {', '.join(experiments)}; got {given}.")
    if data_dir is not None and not data_dir.is_dir():
        raise ConfigurationError(f"--data-dir must be a folder; got {data_dir}.")
    make_folder(out, _files_of(experiments))
    execute = _room("execute")
    options = {"quick": quick, "seed": seed, "data_dir": data_dir}
    if name != "all":
        execute.show(execute.execute(experiments[name], out, **options))
        return
    outcomes, not_run = [], {}
    for each, experiment in experiments.items():
        try:
            outcomes.append(execute.execute(experiment, out, **options))
        except EvidentiaError as error:  # usually missing data; continue with the others
            not_run[each] = str(error)
            output.show_note(f"{each} was not run: {error}")
        else:
            execute.show(outcomes[-1])
        path = _room("report").write_report(out, outcomes, not_run)  # after each: nothing is lost
    output.show_line(f"Report: {path}")


def _files_of(experiments: Iterable[str]) -> dict[str, Callable[[Path], bool]]:
    """The files that a run may write, with what tells that one is ours."""
    from evidentia.report.own_files import has_keys, is_page, is_picture

    records = {f"{name}.json": partial(has_keys, keys=("about", "record")) for name in experiments}
    parts = {f"{name}.parts.json": partial(has_keys, keys=("done", "seconds")) for name in experiments}
    return {**records, **parts, "report.html": is_page, **{f"{name}.png": is_picture for name in experiments}}


def _room(module: str) -> ModuleType:
    """Import a module of the experiments, from the installed package or the repository."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "_repository", package.parents[1]):
        if (root / "experiments" / "catalogue.py").is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return importlib.import_module(f"experiments.{module}")
    raise ConfigurationError(
        "the experiments are not installed here: run this command in a clone of the repository."
    )
