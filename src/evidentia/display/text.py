"""Numbers and tables formatted for the terminal, notebooks and the report."""

import math
from collections.abc import Sequence


def with_error(value: float, error: float) -> str:
    """An estimate, rounded to two significant digits of its error; '± ?' if that is NaN.

    A value without error, such as an integral, has two decimals.

    Example:
        >>> with_error(-1234567.891, 0.1234), with_error(-31.41592, math.nan)
        ('-1,234,567.89 ± 0.12', '-31.42 ± ?')
    """
    digits = decimals(error)
    if error == 0:
        return f"{value:,.{digits}f}"
    if math.isnan(error):
        return f"{value:,.{digits}f} ± ?"
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def decimals(error: float) -> int:
    """Decimals (0 to 4) for two significant digits of an error; 2 unless positive and finite."""
    if not math.isfinite(error) or error <= 0:
        return 2
    return min(max(1 - math.floor(math.log10(error)), 0), 4)


def probability(value: float, error: float | None = None) -> str:
    """A probability, with its error if it shows; '> 0.999' or '< 0.001' near the ends.

    Example:
        >>> probability(0.731, 0.042)
        '0.731 ± 0.042'
    """
    if value > 0.9995:
        return "> 0.999"
    if value < 0.0005:
        return "< 0.001"
    if error is None or error < 0.0005:  # as of an exact one, too
        return f"{value:.3f}"
    return f"{value:.3f} ± ?" if math.isnan(error) else f"{value:.3f} ± {error:.3f}"


def is_count(num_observations: int) -> bool:
    """Whether a number of observations is shown: one is all data, as of a plain function."""
    return num_observations > 1


def duration(seconds: float) -> str:
    """A time in seconds, or in minutes or hours if it is long.

    Example:
        >>> duration(3.14159), duration(312)
        ('3.1 s', '5 min 12 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells under a header; the first column left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])

    return "\n".join(line(cells) for cells in (header, *rows))


def narrow_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 80) -> str:
    """A table for the terminal: a name that leaves no room has a line of its own above its row."""
    others = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(1, len(header)))
    room = max(len(header[0]), width - others)
    names = [row[0] for row in rows]
    cells = [(name if len(name) <= room else "", *row[1:]) for name, row in zip(names, rows, strict=True)]
    first, *lines = table(header, cells).splitlines()
    shown = [first]
    for name, line in zip(names, lines, strict=True):
        shown += [line] if len(name) <= room else [name, line]
    return "\n".join(line.rstrip() for line in shown)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table as HTML, for notebooks."""
    from html import escape

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>"
