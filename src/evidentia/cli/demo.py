"""`evidentia demo`: three models on simulated data."""

import time
from pathlib import Path
from typing import Annotated

import typer

from evidentia.cli import output
from evidentia.cli.options import CompilationCache, Quiet, folder_named
from evidentia.errors import EvidentiaError, check_count, check_seed

EXAMPLES = """[bold]Example[/bold]

  evidentia demo --num-observations 100000 --out demo-results"""

TITLE = "Which features matter?"
NOTE = "One candidate is the model that generated the rows, one lacks two features, one adds five noise features."


def command(
    num_observations: Annotated[int, typer.Option(metavar="ROWS", help="Rows to simulate.")] = 1_000_000,
    num_particles: Annotated[
        int, typer.Option(metavar="COUNT", help="Four times as many halve the standard error.")
    ] = 256,
    seed: Annotated[int, typer.Option(metavar="SEED", help="Seed of the data and the estimator.")] = 0,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            parser=folder_named,
            help="Write results here; index.html shows them.",
        ),
    ] = Path("evidentia-demo"),
    quiet: Quiet = False,
    compilation_cache: CompilationCache = None,
) -> None:
    """Find the true model among three, on a million simulated rows.

    Each row has 10 features and one of 4 classes. One candidate is the model
    that generated the rows, one lacks two features, one adds five noise
    features.
    """
    check_seed(seed, "--seed")
    check_count("--num-observations", num_observations, 2)
    from evidentia.cli.candidates import NUM_CLASSES, NUM_FEATURES, candidates
    from evidentia.cli.results import Results, check_folder, make_folder, show_comparison
    from evidentia.cli.run import estimate_each, keep_compiled_programs
    from evidentia.data.fingerprint import as_text, sum_of_hashes
    from evidentia.evidence import SGAIS

    method = SGAIS(num_particles=num_particles)
    make_folder(out)
    check_folder(out / "stopped")
    keep_compiled_programs(compilation_cache)
    started = time.perf_counter()
    made = candidates(num_observations, seed)
    simulated = (
        f"{num_observations:,} rows with {NUM_FEATURES} features and one of {NUM_CLASSES} classes, simulated from a "
        f"softmax regression with seed {seed}"
    )
    about = {"simulated": True, "seed": seed, "observations": as_text(sum_of_hashes(made[0].data["y"]))}
    output.show_line(f"{TITLE} {simulated}.")
    evidences, stopped = estimate_each(made, method=method, seed=seed, quiet=quiet, plain=True)
    # Only models that saw all rows are compared; a stopped one gets its own folder.
    groups = {
        out: {name: found for name, found in evidences.items() if found.completed},
        out / "stopped": {name: found for name, found in evidences.items() if not found.completed},
    }
    for folder, group in groups.items():
        if group:
            results = Results(TITLE, group, [f"{simulated}.", NOTE], about)
            unwritten = None
            try:
                results.write(folder)  # first: printing fails if the reader of a pipe has closed it
            except EvidentiaError as error:  # the numbers are shown all the same
                unwritten = error
            show_comparison(results.comparison)
            if unwritten is None:
                output.show_written(folder)
            stopped = stopped or unwritten
    if stopped is not None:
        raise stopped
    output.show_line(f"Done in {time.perf_counter() - started:.0f} s.")
