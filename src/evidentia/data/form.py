"""How the text of a table is written, and which table of a file is meant."""

from dataclasses import dataclass

from evidentia.errors import ConfigurationError

COMMA = ","


@dataclass(frozen=True)
class Form:
    """How the text of a table is written, and which table of a file is meant.

    Attributes:
        sep: between values; by default a comma, and a tab in .tsv and .tab.
        decimal: in numbers.
        na: words that stand for a missing value, besides NA, NaN, null and nothing.
        comment: the beginning of lines that are no rows.
        table: of an SQLite file, or the sheet of an Excel file; the only or the first one if None.

    Raises:
        ConfigurationError: separators or comments that are no single character.
    """

    sep: str | None = None
    decimal: str = "."
    na: tuple[str, ...] = ()
    comment: str | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        sep = {"\\t": "\t", "tab": "\t"}.get(self.sep or "", self.sep)
        object.__setattr__(self, "sep", sep)
        if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n'):
            raise ConfigurationError(f"sep must be one character, such as ';' or 'tab'; got {self.sep!r}.")
        if self.decimal not in (".", ","):
            raise ConfigurationError(f"decimal must be '.' or ','; got {self.decimal!r}.")
        if self.decimal == (self.sep or COMMA):
            raise ConfigurationError(
                f"decimal={self.decimal!r} (--decimal) needs another separator: pass sep=';' (--sep ';')."
            )
        if self.comment is not None and not self.comment:
            raise ConfigurationError("comment must be the beginning of a line, such as '#'; got ''.")

    @property
    def is_plain(self) -> bool:
        """Whether text is comma-separated, as the readers of large CSV files have it."""
        return (self.sep or COMMA) == COMMA and self.decimal == "." and not self.na and self.comment is None


PLAIN = Form()
