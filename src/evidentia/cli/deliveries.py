"""What commands of tests and selection share: columns of tables, results printed, written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidentia.cli import output
from evidentia.data.form import Form
from evidentia.errors import ConfigurationError, EvidentiaError

if TYPE_CHECKING:
    from pandas import DataFrame


def width_of(given: str | None, default: str) -> str | float:
    """The name of a width, or a number."""
    try:
        return float(given) if given is not None else default
    except ValueError:
        return str(given)


def columns_of(table: str, names: Sequence[str | None], form: Form) -> DataFrame:
    """The columns of a table that are named."""
    from evidentia.data.tables import read_columns

    wanted = list(dict.fromkeys(name for name in names if name is not None))
    return read_columns(table, wanted, form).to_pandas()


def samples_of(table: DataFrame, x: str, y: str | None, by: str | None) -> tuple[Any, Any]:
    """One sample or two, from two columns, or from one and the groups of another."""
    if by is None:
        return table[x], None if y is None else table[y]
    groups = sorted(table[by].dropna().unique())
    if len(groups) != 2:
        shown = ", ".join(map(str, groups[:5]))
        raise ConfigurationError(f"--by must name a column with two groups; {by} has {len(groups)}: {shown}.")
    first, second = (table.loc[table[by] == group, x] for group in groups)
    return first, second


def deliver(
    run: Any, out: Path | None, as_json: bool, keys: tuple[str, ...] = ("test", "conclusion")
) -> None:
    """Compute, write into a folder if one is given, and print.

    `keys` are some of the result as JSON, by which a file is known as one of the same command.
    """
    from evidentia.cli.results import make_folder
    from evidentia.report.own_files import has_keys, is_picture
    from evidentia.report.standard_tests import PICTURES, write_test

    if out is not None:
        kinds = {"results.json": partial(has_keys, keys=keys)}
        make_folder(out, {**kinds, **dict.fromkeys(PICTURES, is_picture)})
    result = run()
    problem: Exception | None = None
    if out is not None:
        try:
            write_test(out, result)
        except (OSError, EvidentiaError) as error:  # the number must not be lost
            problem = error
    if as_json:
        output.print_json(json.loads(json.dumps(result.to_dict())))
    else:
        for line in repr(result).splitlines():
            output.show_line(line)
        if out is not None and problem is None:
            output.show_line(f"Written to {out}/.")
    if problem is not None:
        raise problem
