"""`evidentia demo`: three models on simulated data, from rows to a report."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from evidentia.cli import output
from evidentia.cli.run import CompilationCache, check_seed, estimate_each, keep_compiled_programs
from evidentia.demo import NUM_CLASSES, NUM_FEATURES, candidates
from evidentia.errors import ConfigurationError
from evidentia.evidence import SGAIS
from evidentia.result import Evidence

EXAMPLES = """[bold]Example[/bold]

  evidentia demo --num-observations 100000 --out demo-results"""

TITLE = "Which features matter?"


def command(
    num_observations: Annotated[int, typer.Option(metavar="ROWS", help="Rows to simulate.")] = 1_000_000,
    num_particles: Annotated[
        int, typer.Option(metavar="COUNT", help="Four times as many halve the standard error.")
    ] = 256,
    seed: Annotated[int, typer.Option(metavar="SEED", help="Of the data and the estimator.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Write results here; index.html shows them.")
    ] = Path("evidentia-demo"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    compilation_cache: CompilationCache = None,
) -> None:
    """Find the true one of three models, on a million simulated rows.

    Each row has 10 features and one of 4 classes. One candidate is the model
    that made the rows, one lacks two of the features, one has five more that
    are noise.
    """
    check_seed(seed)
    if num_observations < 2:
        raise ConfigurationError(f"--num-observations must be at least 2; got {num_observations}.")
    method = SGAIS(num_particles=num_particles)
    output.make_folder(out)
    keep_compiled_programs(compilation_cache)
    started = time.perf_counter()
    made = candidates(num_observations, seed)
    simulated = (
        f"{num_observations:,} rows with {NUM_FEATURES} features and one of {NUM_CLASSES} classes, simulated from a "
        f"softmax regression with seed {seed}"
    )
    output.show_line(f"{TITLE} {simulated}.")
    evidences, stopped = estimate_each(made, method=method, seed=seed, quiet=quiet, plain=True)
    notes = [
        f"{simulated}.",
        "One candidate is the model that made the rows, one lacks two of the features, one has five more that are noise.",
    ]
    for folder, group in _folders(out, evidences):
        results = output.Results(TITLE, group, notes, data={"simulated": True, "seed": seed})
        results.write(folder)  # before anything is shown: the reader of a pipe may have gone
        output.show_comparison(results.comparison)
        output.show_written(folder)
    if stopped is not None:
        raise stopped
    output.show_line(f"Done in {time.perf_counter() - started:.0f} s.")


def _folders(out: Path, evidences: Mapping[str, Evidence]) -> list[tuple[Path, dict[str, Evidence]]]:
    """Models that saw all rows are compared; one that was stopped cannot be, and gets a folder of its own."""
    completed = {name: evidence for name, evidence in evidences.items() if evidence.completed}
    stopped = {name: evidence for name, evidence in evidences.items() if not evidence.completed}
    return [(folder, group) for folder, group in ((out, completed), (out / "stopped", stopped)) if group]
