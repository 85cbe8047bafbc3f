"""A section of a report: words first, then a table and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass

from evidentia.report.pictures import Picture


@dataclass(frozen=True)
class Section:
    """A heading, sentences, and what shows them: a table with a note, and pictures.

    `headline` is a sentence for the top of the page.
    """

    heading: str
    sentences: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""
    pictures: Sequence[Picture] = ()
    headline: str = ""
