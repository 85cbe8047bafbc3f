"""`evidentia estimate`: the log evidence of one model on a file."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evidentia import evidence
from evidentia.cli import output
from evidentia.cli.models import check_names, model_for, named_model
from evidentia.cli.run import CompilationCache, check_seed, estimate_each, keep_compiled_programs
from evidentia.cli.source import check_streamable, is_source, open_table
from evidentia.cli.table import read_table, split_features
from evidentia.demo import Candidate
from evidentia.errors import EstimationError


class Method(StrEnum):
    """What `--method` can be."""

    SGAIS = "sgais"
    PUBLISHED = "sgais-published"
    SMC = "smc"
    AIS = "ais"
    NESTED = "nested-sampling"
    ONLINE_NESTED = "online-nested-sampling"
    SEQUENTIAL = "sequential"
    JARZYNSKI = "jarzynski"
    LAPLACE = "laplace"
    PRIOR = "prior-sampling"
    HARMONIC = "harmonic-mean"


CONFIGURATIONS = {
    Method.SGAIS: evidence.SGAIS,
    Method.PUBLISHED: evidence.SGAIS.published,
    Method.SMC: evidence.SMC,
    Method.AIS: evidence.AIS,
    Method.NESTED: evidence.NestedSampling,
    Method.ONLINE_NESTED: evidence.OnlineNestedSampling,
    Method.SEQUENTIAL: evidence.Sequential,
    Method.JARZYNSKI: evidence.Jarzynski,
    Method.LAPLACE: evidence.Laplace,
    Method.PRIOR: evidence.PriorSampling,
    Method.HARMONIC: evidence.HarmonicMean,
}

EXAMPLES = """[bold]Examples[/bold]

  evidentia estimate ijcnn1.parquet --model softmax --target label

  evidentia estimate table.csv --model linear --target price --out results/price

  evidentia estimate table.csv --model mixture --features x,y --standardise

  evidentia estimate table.csv --model my_models.py:robust --target price --json

  evidentia estimate 'parts/*.parquet' --model linear --target y"""


def command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A CSV file with a header line, a Parquet file; many as 'parts/*.parquet'."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="linear, softmax, mixture, or path/to/file.py:name."
        ),
    ],
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="What a regression explains.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns to use. Default: all but the target.")
    ] = None,
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Shift and scale each feature to mean 0, deviation 1.")
    ] = False,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Take rows as they stand. Default: in random order.")
    ] = False,
    num_classes: Annotated[
        int | None, typer.Option(metavar="COUNT", help="softmax: classes. Default: those in the target.")
    ] = None,
    num_components: Annotated[
        int | None, typer.Option(metavar="COUNT", help="mixture: components. Default: 2.")
    ] = None,
    noise_scale: Annotated[
        float | None,
        typer.Option(metavar="SIGMA", help="linear: standard deviation of the noise. Default: 1."),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(metavar="METHOD", help="sgais, or one of those named below."),
    ] = Method.SGAIS,
    num_particles: Annotated[
        int | None,
        typer.Option(metavar="COUNT", help="Particles, draws or live points. Default: the method's."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="SEED", help="The same seed, the same numbers.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write results here; index.html shows them."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    compilation_cache: CompilationCache = None,
) -> None:
    """Estimate the log evidence of a model on a CSV or Parquet file, or on many.

    A pattern, a folder, or a file of more than a gigabyte is read once, row
    after row, and need not fit in memory. Any other is read as a whole, and
    its rows are taken in random order.

    MODEL is linear, softmax or mixture, or your own: path/to/file.py:name,
    where the name is an evidentia.Model or a NumPyro function. It is given
    the features as x and the target as y; without --target, all columns as y.

    METHOD is sgais, for any number of rows; for some thousand smc, ais,
    jarzynski, nested-sampling, online-nested-sampling, sequential or laplace;
    to compare with, sgais-published, prior-sampling or harmonic-mean.
    """
    check_seed(seed)
    options = {"num_classes": num_classes, "num_components": num_components, "noise_scale": noise_scale}
    check_names([model], target, options)
    if out is not None:
        output.make_folder(out)
    keep_compiled_programs(compilation_cache)
    chosen = split_features(features)
    if is_source(file):
        check_streamable(standardise, model, num_classes)
        table, in_order = open_table(file, model, target, chosen), True
        the_model, data = named_model(model, len(table.features), options), table.data
    else:
        shuffle_seed = None if in_order else seed
        table = read_table(Path(file), target, chosen, standardise=standardise, shuffle_seed=shuffle_seed)
        the_model, data = model_for(model, table, options)
    the_method = CONFIGURATIONS[method]()
    if num_particles is not None:
        the_method = replace(the_method, num_particles=num_particles)

    candidate = Candidate(the_model.name, the_model, data)
    evidences, stopped = estimate_each([candidate], method=the_method, seed=seed, quiet=quiet)
    for found in evidences.values():
        results = output.Results(
            title=f"{the_model.name}: {Path(file).name}",
            evidences=evidences,
            notes=table.notes(),
            data=table.to_dict(),
        )
        if out is not None:
            results.write(out)  # before anything is shown: the reader of a pipe may have gone
        if as_json:
            output.print_json(results.to_dict())
        else:
            output.show_evidence(found, table.notes())
            if out is not None:
                output.show_written(out)
    if isinstance(stopped, EstimationError) and not in_order:
        output.show_note("Rows are counted in random order; with --in-order they are those of the file.")
    if stopped is not None:
        raise stopped
