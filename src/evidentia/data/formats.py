"""Files of tables in other forms than plain CSV and Parquet, each read as a whole.

The readers are those of PyArrow and pandas; which one, the ending of the name says.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sqlite3
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather as arrow_feather
import pyarrow.ipc as arrow_ipc
import pyarrow.json as arrow_json

from evidentia.data.form import COMMA, PLAIN, Form
from evidentia.data.records import Records, checked_text
from evidentia.errors import ConfigurationError, DataError, EvidentiaError, near
from evidentia.system.storage import content, is_remote, opened

COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda text: pa.CompressedInputStream(pa.BufferReader(text), "zstd").read(),
}


def is_whole(path: Path, form: Form) -> bool:
    """Whether a file is read as a whole here: any but plain CSV and Parquet."""
    kind, compressed = _kind(path)
    if kind in ("", ".parquet", ".pq") and not compressed:
        return False
    return compressed or kind != ".csv" or not form.is_plain


def whole_table(path: Path, form: Form = PLAIN) -> pa.Table:
    """All columns of a file.

    Raises:
        DataError: a form that is not known, or a file that cannot be read in it.
        ConfigurationError: a package is missing; several tables, and none is named.

    Example:
        >>> whole_table(Path("sleep.tsv")).column_names  # doctest: +SKIP
        ['extra', 'group', 'ID']
    """
    kind, _ = _kind(path)
    if kind not in READERS:
        raise DataError(
            f"{path}: the name of a table's file must end in .parquet, {', '.join(READERS)}; text and JSON may "
            f"also be compressed ({', '.join(COMPRESSED)})."
        )
    try:
        table = READERS[kind](path, form)
    except EvidentiaError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path.") from None
    except ImportError as error:
        raise ConfigurationError(
            f"{path}: Excel files need a package. Install it with: pip install 'evidentia[excel]'."
        ) from error
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        OverflowError,
        RecursionError,
        EOFError,
        KeyError,
        sqlite3.Error,
        lzma.LZMAError,
    ) as error:
        said = str(error).splitlines()[0].removeprefix("CSV parse error: ").rstrip(".")
        raise DataError(f"{path} cannot be read as {NAMES.get(kind, 'text')}: {said}.") from error
    if not table.num_columns or not table.num_rows:
        raise DataError(f"{path} is empty; a table with column names and rows is needed.")
    return table


def _kind(path: Path) -> tuple[str, bool]:
    """The ending of a name, without that of compression, and whether there is one."""
    endings = [one.lower() for one in path.suffixes]
    compressed = bool(endings) and endings[-1] in COMPRESSED
    endings = endings[:-1] if compressed else endings
    return (endings[-1] if endings else ""), compressed


def _bytes_of(path: Path) -> bytes:
    return COMPRESSED.get(path.suffix.lower(), bytes)(content(path))


def _text(path: Path, form: Form) -> pa.Table:
    given = _bytes_of(path)
    if form.comment is not None:
        mark = form.comment.encode()
        lines = given.splitlines(keepends=True)
        given = b"".join(
            b"\n" if line.startswith(mark) else line for line in lines
        )  # lines keep their numbers
    sep = form.sep or ("\t" if _kind(path)[0] in (".tsv", ".tab") else COMMA)
    convert = arrow_csv.ConvertOptions(
        decimal_point=form.decimal, strings_can_be_null=True, timestamp_parsers=[]
    )
    convert.null_values = [*convert.null_values, *form.na]
    text = checked_text(BytesIO(given), Records(path, len(given) + 1, ord(sep)))
    return arrow_csv.read_csv(
        pa.BufferReader(text),
        arrow_csv.ReadOptions(encoding=form.codec, block_size=text.size + 1),
        arrow_csv.ParseOptions(delimiter=sep, newlines_in_values=True),
        convert,
    )


def _json_lines(path: Path, form: Form) -> pa.Table:
    return arrow_json.read_json(pa.BufferReader(_bytes_of(path)))


def _json(path: Path, form: Form) -> pa.Table:
    import pandas as pd

    found = json.loads(_bytes_of(path), object_pairs_hook=_with_different_names)
    return _from_pandas(pd.DataFrame(found, dtype=object))  # integers stay so beside missing values


def _with_different_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise ValueError for a row with two values of one name, of which the last would win."""
    if len(found := dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"a row has several values of {twice!r}")
    return found


def _feather(path: Path, form: Form) -> pa.Table:
    data = pa.BufferReader(_bytes_of(path))
    try:
        return arrow_feather.read_table(data)
    except pa.ArrowInvalid:  # a stream, without the footer of a file
        return arrow_ipc.open_stream(data).read_all()


def _excel(path: Path, form: Form) -> pa.Table:
    import pandas as pd

    with opened(path) as file:
        sheets: Any = pd.ExcelFile(file)
        return _from_pandas(
            pd.read_excel(sheets, sheet_name=_chosen(path, form, sheets.sheet_names, "sheet"))
        )


def _stata(path: Path, form: Form) -> pa.Table:
    import pandas as pd

    with opened(path) as file:
        return _from_pandas(pd.read_stata(file, convert_dates=False))


def _sqlite(path: Path, form: Form) -> pa.Table:
    import pandas as pd

    if is_remote(path):
        raise ConfigurationError(f"{path}: an SQLite file must be on this machine.")
    if not path.is_file():
        raise FileNotFoundError(path)
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY 1"
        )
        known = [name for (name,) in found if not name.startswith("sqlite_")]
        if form.table is None and len(known) > 1:
            raise ConfigurationError(
                f"{path} has {len(known)} tables: {', '.join(known[:12])}. Name one with --table (table=)."
            )
        name = _chosen(path, form, known, "table").replace('"', '""')
        rows = connection.execute(f'SELECT * FROM "{name}"')
        columns = [column[0] for column in rows.description]
        return _from_pandas(pd.DataFrame(rows.fetchall(), columns=columns, dtype=object))  # as in JSON
    finally:
        connection.close()


def _arrays(path: Path, form: Form) -> pa.Table:
    with opened(path) as file:
        found = np.load(file, allow_pickle=False)
        named = {"": found} if isinstance(found, np.ndarray) else dict(found)
    columns: dict[str, np.ndarray] = {}
    for name, array in named.items():
        if array.dtype.names:
            columns |= {one: array[one] for one in array.dtype.names}
        elif array.ndim == 1 and name:
            columns[name] = array
        elif array.ndim == 2 and name:
            columns |= {f"{name}_{place}": column for place, column in enumerate(array.T)}
        else:
            raise DataError(
                f"{path} has no names of columns: save a structured array, or .npz with an array a column."
            )
    return pa.table({name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()})


def _chosen(path: Path, form: Form, known: Sequence[str], what: str) -> str:
    """The table that is named, or the first."""
    if not known:
        raise DataError(f"{path} has no {what}.")
    if form.table is None:
        return known[0]
    if form.table not in known:
        raise DataError(f"{path} has no {what} {form.table!r}. {near(form.table, known)}")
    return form.table


def _from_pandas(table: Any) -> pa.Table:
    table.columns = [str(name) for name in table.columns]
    return pa.Table.from_pandas(table, preserve_index=False)


Reader = Callable[[Path, Form], pa.Table]
READERS: dict[str, Reader] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt", ".dat"), _text),
    **dict.fromkeys((".jsonl", ".ndjson"), _json_lines),
    ".json": _json,
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _feather),
    **dict.fromkeys((".xlsx", ".xls"), _excel),
    ".dta": _stata,
    **dict.fromkeys((".sqlite", ".sqlite3", ".db"), _sqlite),
    **dict.fromkeys((".npz", ".npy"), _arrays),
}
NAMES = {
    ".jsonl": "JSON lines", ".ndjson": "JSON lines", ".json": "JSON", ".feather": "Feather", ".arrow": "Arrow",
    ".ipc": "Arrow", ".xlsx": "Excel", ".xls": "Excel", ".dta": "Stata", ".sqlite": "SQLite", ".sqlite3": "SQLite",
    ".db": "SQLite", ".npz": "NumPy's arrays", ".npy": "a NumPy array",
}  # fmt: skip
