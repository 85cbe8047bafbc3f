"""The options of commands that read a table: how its text is written, and which table is meant."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from evidentia.data.form import UTF_8, Form
from evidentia.errors import ConfigurationError, DataError

OPTIONS: dict[str, tuple[Any, Any]] = {
    "encoding": (
        Annotated[
            str, typer.Option(metavar="NAME", help="CSV: encoding of the text, such as latin-1 or cp1252.")
        ],
        UTF_8,
    ),
    "sep": (
        Annotated[
            str | None,
            typer.Option(metavar="CHARACTER", help="Text: between values, as ';' or tab. Default: a comma."),
        ],
        None,
    ),
    "decimal": (
        Annotated[str, typer.Option(metavar="CHARACTER", help="Text: of numbers, a dot or ','.")],
        ".",
    ),
    "na": (
        Annotated[
            list[str] | None,
            typer.Option(metavar="WORD", help="Text: a missing value, as '?'; may be given several times."),
        ],
        None,
    ),
    "comment": (
        Annotated[str | None, typer.Option(metavar="TEXT", help="Text: how lines begin that are no rows.")],
        None,
    ),
    "sheet": (
        Annotated[
            str | None,
            typer.Option("--table", metavar="NAME", help="The table of SQLite, or sheet of Excel."),
        ],
        None,
    ),
}


def with_levels(table: Any, given: list[str] | None) -> Any:
    """An Arrow table with columns of text in the order of `--levels`, as "size=small,large".

    Raises:
        ConfigurationError: an option that does not read so, or names another column.
        DataError: a value that is none of the levels.
    """
    if not given:
        return table
    from pandas import Categorical

    found = table.to_pandas()
    for option in given:
        name, _, listed = option.partition("=")
        levels = [level.strip() for level in listed.split(",")]
        if name not in found or not all(levels) or len(set(levels)) < len(levels):
            raise ConfigurationError(
                f"--levels must read COLUMN=FIRST,SECOND,… with a column that a formula uses; got {option!r}."
            )
        odd = found[name].notna() & ~found[name].astype(str).isin(levels)
        if odd.any():
            raise DataError(
                f"column {name!r} holds {found[name][odd.argmax()]!r} in data row {odd.argmax() + 1:,}, which is none of "
                f"--levels {option!r}."
            )
        found[name] = Categorical(found[name].astype(str).where(found[name].notna()), levels, ordered=True)
    return found


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose argument `form` is made of options; a list of them is written once."""
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    own = [one for one in signature.parameters.values() if one.name != "form"]
    parameters = [one.replace(annotation=hints[one.name], kind=one.KEYWORD_ONLY) for one in own]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in OPTIONS.items()
    ]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        encoding, sep, decimal, na, comment, table = (given.pop(name) for name in OPTIONS)
        command(**given, form=Form(sep, decimal, tuple(na or ()), comment, table, encoding))

    wrapped.__signature__ = signature.replace(parameters=[*parameters, *more])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in (*parameters, *more)} | {"return": None}
    del wrapped.__wrapped__  # type: ignore[attr-defined]
    return wrapped
