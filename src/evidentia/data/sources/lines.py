"""Parsing of the lines of CSV files, in any encoding, with errors that name the row."""

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from evidentia.data.digits import LOOKED_AT, WHOLE, check_texts
from evidentia.data.form import UTF_8
from evidentia.data.records import BYTE_ORDER_MARK
from evidentia.data.sources.columns import NOT_UTF_8
from evidentia.errors import DataError


@dataclass(frozen=True)
class Lines:
    """A parser of the lines of a file, after its header line, in an encoding."""

    path: Path
    header: bytes
    encoding: str

    def parsed(
        self, block: bytes = b"", types: dict[str, pa.DataType] | None = None, row: int = 0
    ) -> pa.Table:
        """Parse a block after `row` rows: the columns in `types`, or all, with inferred types."""
        text = self._in_utf_8(block)
        # Use one thread, so that errors give the row.
        read = arrow_csv.ReadOptions(use_threads=False, block_size=len(text) + 1)
        parse = arrow_csv.ParseOptions(newlines_in_values=b'"' in text)
        convert = arrow_csv.ConvertOptions(
            include_columns=list(types or ()), column_types=types, strings_can_be_null=True
        )
        try:
            table = arrow_csv.read_csv(pa.BufferReader(text), read, parse, convert)
            list(table.column_names)  # decodes them
            return table
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from error
        except pa.ArrowException as error:
            raise self._unreadable(row, error) from error

    def check_digits(self, block: bytes, table: pa.Table) -> None:
        """Check numbers of a parsed block that float64 may have rounded, against their text."""
        for name in table.column_names:
            if pa.types.is_floating(table.schema.field(name).type):
                extremes = pc.min_max(table[name]).as_py()  # type: ignore[attr-defined]
                if max(abs(value or 0) for value in extremes.values()) >= WHOLE:
                    texts = self.parsed(block, {name: pa.string()})[name].drop_null()
                    some = texts.take(pa.array(range(0, len(texts), -(-len(texts) // LOOKED_AT))))
                    check_texts(some.to_pylist(), f"{self.path}: column {name!r}")

    def _in_utf_8(self, block: bytes) -> bytes:
        """The header and a block; as in UTF-8, only columns in use need valid characters."""
        if self.encoding == UTF_8:
            return self.header + block
        if self.header.startswith(BYTE_ORDER_MARK):
            raise DataError(
                f"{self.path} begins with the byte order mark of UTF-8, but encoding={self.encoding!r} was given. Leave "
                "encoding= (--encoding) out."
            )
        try:
            header = self.header.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from error
        return (header + block.decode(self.encoding, errors="replace")).encode(UTF_8)

    def _undecodable(self, error: UnicodeDecodeError) -> DataError:
        byte = error.object[error.start]
        if self.encoding != UTF_8:
            return DataError(
                f"{self.path}: the header has the byte {byte:#x}, which is not text in the encoding {self.encoding!r}. "
                "Give another encoding= (--encoding)."
            )
        return DataError(
            f"{self.path} is not UTF-8 text: its header has the byte {byte:#x}, as in Latin-1 or Windows-1252. {NOT_UTF_8}, or save "
            "the file as UTF-8, for example with: iconv -f WINDOWS-1252 -t UTF-8."
        )

    def _unreadable(self, row: int, error: Exception) -> DataError:
        message = str(error).splitlines()[0]
        counted = re.search(r"Row #(\d+): ", message)  # counted from 1, the header
        where = f"data row {row + int(counted[1]) - 1:,}" if counted else f"the rows after data row {row:,}"
        if value := re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", message):
            name = self.parsed().column_names[int(value[1])]
            remedy = "Encode text as numbers, or leave this column out of columns=."
            if "\ufffd" in value[2]:  # stands for bytes that are not text
                remedy = (
                    f"It is not text in the encoding {self.encoding!r}. {NOT_UTF_8}, for example. {remedy}"
                )
            return DataError(
                f"{self.path}: column {name!r} holds {value[2]!r} in {where}, which is not a number. {remedy}"
            )
        problem = re.sub(r"(CSV parse error: )?Row #\d+: ", "", message).rstrip(".")
        return DataError(f"{self.path} cannot be read as CSV text: {problem} (in {where}).")
