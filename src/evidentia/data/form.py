"""How the text of a table is written, and which table of a file is meant."""

import codecs
from dataclasses import dataclass

from evidentia.errors import ConfigurationError, is_one_of

COMMA = ","
UTF_8 = "utf-8"


def checked_encoding(encoding: str) -> str:
    """The encoding's usual name. Raises ConfigurationError unless lines can be cut in it."""
    try:
        name = codecs.lookup(encoding).name
        name = UTF_8 if name == "utf-8-sig" else name  # PyArrow skips the byte order mark
        b"0".decode(name, errors="replace")
        cuts_lines = "0,\n".encode(name) == b"0,\n"
    except (LookupError, TypeError, ValueError):
        raise ConfigurationError(
            f"encoding must be the name of a text encoding, such as utf-8, latin-1 or cp1252; got {encoding!r}."
        ) from None
    if not cuts_lines:
        raise ConfigurationError(
            "encoding must be one in which ASCII characters are single bytes, such as utf-8, latin-1 or cp1252; got "
            f"{encoding!r}. Save the file as UTF-8 instead."
        )
    return name


@dataclass(frozen=True)
class Form:
    """How the text of a table is written, and which table of a file is meant.

    Attributes:
        sep: between values; by default a comma, and a tab in .tsv and .tab.
        decimal: in numbers.
        na: words that stand for a missing value, besides NA, NaN, null and nothing.
        comment: the beginning of lines that are no rows.
        table: of an SQLite file, or the sheet of an Excel file; the only or the first one if None.
        encoding: of the text. ASCII characters must be single bytes in it, unlike in UTF-16.

    Raises:
        ConfigurationError: separators or comments that are no single character, or an encoding
            that is not known.
    """

    sep: str | None = None
    decimal: str = "."
    na: tuple[str, ...] = ()
    comment: str | None = None
    table: str | None = None
    encoding: str = UTF_8

    def __post_init__(self) -> None:
        checked_encoding(self.encoding)
        sep = "\t" if is_one_of(self.sep, ("\\t", "tab")) else self.sep
        object.__setattr__(self, "sep", sep)
        if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n'):
            raise ConfigurationError(f"sep must be one character, such as ';' or 'tab'; got {self.sep!r}.")
        if not is_one_of(self.decimal, (".", ",")):
            raise ConfigurationError(f"decimal must be '.' or ','; got {self.decimal!r}.")
        if self.decimal == (self.sep or COMMA):
            raise ConfigurationError(
                f"decimal={self.decimal!r} (--decimal) needs another separator: pass sep=';' (--sep ';')."
            )
        if self.comment is not None and not (isinstance(self.comment, str) and self.comment):
            raise ConfigurationError(
                f"comment must be the beginning of a line, such as '#'; got {self.comment!r}."
            )

    @property
    def codec(self) -> str:
        """The usual name of the encoding."""
        return checked_encoding(self.encoding)

    @property
    def is_plain(self) -> bool:
        """Whether text is comma-separated, as the readers of large CSV files have it."""
        return (self.sep or COMMA) == COMMA and self.decimal == "." and not self.na and self.comment is None


PLAIN = Form()
