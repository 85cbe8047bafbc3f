"""Options shared by several commands."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from evidentia.errors import check_path, check_positive
from evidentia.system.storage import is_url

Target = Annotated[
    str | None,
    typer.Option("--target", "-t", metavar="COLUMN", help="The column that a regression predicts."),
]
Features = Annotated[
    str | None, typer.Option(metavar="A,B,C", help="Columns to use. Default: all except the target.")
]
NumComponents = Annotated[int | None, typer.Option(metavar="COUNT", help="mixture: components. Default: 2.")]
NoiseScale = Annotated[
    float | None, typer.Option(metavar="SIGMA", help="linear: standard deviation of the noise. Default: 1.")
]
Missing = Annotated[
    Literal["error", "drop"], typer.Option(help="What to do with rows that have missing values.")
]
Seed = Annotated[int, typer.Option(metavar="SEED", help="The same seed gives the same numbers.")]
MaxSeconds = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="End each estimate after so long, with its result so far."),
]

# Of regressions by formula.
Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="CSV with a header line, Parquet, Excel, …, a pattern as 'parts/*.csv', or - for CSV on standard input.",
    ),
]
Link = Annotated[str | None, typer.Option(metavar="LINK", help="bernoulli: probit in place of logit.")]


class PriorName(StrEnum):
    """Values of `--prior`."""

    JZS = "jzs"
    UNIT_INFORMATION = "unit-information"
    NORMAL = "normal"


Prior = Annotated[
    PriorName | None,
    typer.Option(
        metavar="PRIOR", help="jzs, unit-information or normal. Default: jzs for gaussian, else normal."
    ),
]
PriorScale = Annotated[
    float | None,
    typer.Option(metavar="SCALE", help="Width of the prior. Default: 0.354 for jzs, 2.5 for normal."),
]
G = Annotated[
    str,
    typer.Option("--g", metavar="WORD", help="of jzs: shared by all columns, or per-term as in ANOVAs."),
]
Weights = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="How often each row occurred: a row of 3 counts as 3 rows."),
]
Levels = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=A,B,C", help="The order of a column of text, the reference first."),
]


def check_seconds(max_seconds: float | None) -> None:
    """Raise ConfigurationError unless the limit is positive, or there is none."""
    if max_seconds is not None:
        check_positive("--max-seconds", max_seconds)


def folder_named(given: str | Path) -> Path:
    """The folder that an option, or its default, names; "" would be the current folder."""
    if is_url(given):
        raise typer.BadParameter(f"{given}: a folder of this machine is needed, not a URL.")
    check_path(given)
    if not str(given).strip():
        raise typer.BadParameter("the name of a folder is empty; for the current folder, write a dot.")
    shown = str(given).encode(errors="surrogateescape").decode(errors="replace")
    if shown != str(given):
        raise typer.BadParameter(
            f"{shown}: the name is not UTF-8 text, which Parquet files need; name another folder."
        )
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise typer.BadParameter(f"{given}: there is no such user.") from None


Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="DIR", parser=folder_named, help="Write results here; index.html shows them."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
CompilationCache = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        envvar="EVIDENTIA_COMPILATION_CACHE",
        help="Folder for compiled programs, or off. Default: the user's cache folder.",
    ),
]
