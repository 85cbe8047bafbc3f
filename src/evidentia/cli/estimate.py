"""`evidentia estimate`: the log evidence of a model on a file."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import evidentia as ev
from evidentia.cli import options, output
from evidentia.cli.tables import reads_tables
from evidentia.data.form import PLAIN, Form
from evidentia.errors import EstimationError, check_seed


class Method(StrEnum):
    """Values of `--method`."""

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
    BRIDGE = "bridge-sampling"
    AMIS = "amis"


CONFIGURATIONS = {
    Method.SGAIS: lambda: ev.SGAIS(),
    Method.PUBLISHED: lambda: ev.SGAIS.published(),
    Method.SMC: lambda: ev.SMC(),
    Method.AIS: lambda: ev.AIS(),
    Method.NESTED: lambda: ev.NestedSampling(),
    Method.ONLINE_NESTED: lambda: ev.OnlineNestedSampling(),
    Method.SEQUENTIAL: lambda: ev.Sequential(),
    Method.JARZYNSKI: lambda: ev.Jarzynski(),
    Method.LAPLACE: lambda: ev.Laplace(),
    Method.PRIOR: lambda: ev.PriorSampling(),
    Method.HARMONIC: lambda: ev.HarmonicMean(),
    Method.BRIDGE: lambda: ev.BridgeSampling(),
    Method.AMIS: lambda: ev.AMIS(),
}

EXAMPLES = """[bold]Examples[/bold]

  evidentia estimate ijcnn1.parquet --model softmax --target label

  evidentia estimate table.csv --model linear --target price --out results/price

  evidentia estimate table.csv --model mixture --features x,y --standardise

  evidentia estimate table.csv --model my_models.py:robust --target price --json

  evidentia estimate 'parts/*.parquet' --model linear --target y"""


@reads_tables
def command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="CSV with a header line, Parquet, or a pattern such as 'parts/*.parquet'."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="linear, softmax, mixture, or path/to/file.py:name."
        ),
    ],
    target: options.Target = None,
    features: options.Features = None,
    missing: options.Missing = "error",
    form: Form = PLAIN,
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Shift and scale each feature to mean 0, deviation 1.")
    ] = False,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Keep the order of the rows. Default: random order.")
    ] = False,
    num_classes: Annotated[
        int | None, typer.Option(metavar="COUNT", help="softmax: classes. Default: counted in the target.")
    ] = None,
    num_components: options.NumComponents = None,
    noise_scale: options.NoiseScale = None,
    method: Annotated[
        Method,
        typer.Option(metavar="METHOD", help="sgais, or another method listed above."),
    ] = Method.SGAIS,
    num_particles: Annotated[
        int | None,
        typer.Option(metavar="COUNT", help="Particles, draws or live points. Default: the method's."),
    ] = None,
    seed: options.Seed = 0,
    max_seconds: options.MaxSeconds = None,
    out: options.Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    compilation_cache: options.CompilationCache = None,
) -> None:
    """Estimate the log evidence of a model on the files of a table.

    A pattern, a folder, or a file of more than a gigabyte is read once, in
    order, and need not fit in memory. Any other file is read into memory, and
    its rows are used in random order.

    MODEL is linear, softmax or mixture, or your own: path/to/file.py:name,
    where the name is an evidentia.Model or a NumPyro function. It gets the
    features as x and the target as y; without --target, all columns as y.

    METHOD is sgais for any number of rows; smc, ais, jarzynski, laplace,
    nested-sampling, online-nested-sampling, sequential, bridge-sampling or
    amis for a few thousand; sgais-published, prior-sampling or harmonic-mean
    for comparison.
    """
    from evidentia.cli.columns import split_features
    from evidentia.cli.models import check_names, model_for
    from evidentia.cli.results import Results, make_folder
    from evidentia.cli.run import Candidate, estimate_each, keep_compiled_programs
    from evidentia.cli.table import check_streamable, is_read_once, open_table, read_table

    check_seed(seed, "--seed")
    options.check_seconds(max_seconds)
    settings = {"num_classes": num_classes, "num_components": num_components, "noise_scale": noise_scale}
    check_names([model], target, settings)
    if out is not None:
        make_folder(out)
    keep_compiled_programs(compilation_cache)
    chosen = split_features(features)
    if is_read_once(file):
        check_streamable(standardise, [model], num_classes)
        table, in_order = open_table(file, model, target, chosen, missing, form), True
    else:
        table = read_table(file, target, chosen, missing, standardise=standardise, form=form)
        table = replace(table, shuffle_seed=None if in_order else seed)
    the_model, data = model_for(model, table, settings)
    the_method = CONFIGURATIONS[method]()
    if num_particles is not None:
        the_method = replace(the_method, num_particles=num_particles)

    candidate = Candidate(the_model.name, the_model, data)
    evidences, stopped = estimate_each(
        [candidate], method=the_method, seed=seed, quiet=quiet, in_order=in_order, max_seconds=max_seconds
    )
    if evidences:
        title = f"{the_model.name}: {Path(file).name}"
        results = Results(title, evidences, table.notes(), table.to_dict())
        stopped = results.deliver(out, as_json, stopped)
    if isinstance(stopped, EstimationError) and not in_order:
        output.show_note("Rows are numbered in random order; with --in-order, in file order.")
    if stopped is not None:
        raise stopped
    output.end(evidence.verdict for evidence in evidences.values())
