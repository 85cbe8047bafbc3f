"""Quoted names: a column between backticks, as a word that Formulaic and Python read as a name.

Within formulas that other code takes apart, `` `a+b` `` is the word `quoted_612b62_`. Nothing
depends on what a name looks like then, and whatever is shown has the backticks again.
"""

from __future__ import annotations

import ast
import keyword
import re
import unicodedata

MOST_SHOWN = 300  # characters of a formula in messages
_WORD = re.compile(r"quoted_((?:[0-9a-f]{2})+)_")
_PIECES = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]+`|[^\W\d]\w*""")
_WHOLE = re.compile(rf"(^|:)({_WORD.pattern})(?=$|:|\[)")


def encoded(text: str) -> str:
    """A formula with words in place of quoted names, and strings without special characters.

    Names outside of ASCII become such words, too, as Python reads `µ` as another letter.

    Example:
        >>> encoded("`a+b` + x")
        'quoted_612b62_ + x'
    """
    return _PIECES.sub(_encoded, text)


def decoded(text: str) -> str:
    """The text with quoted names in place of words.

    Example:
        >>> decoded("quoted_612b62_ + x")
        '`a+b` + x'
    """
    return _WORD.sub(lambda word: quoted(_named(word[1])), text)


def name_of(word: str) -> str:
    """The name of a column that a word stands for."""
    found = _WORD.fullmatch(word)
    return _named(found[1]) if found else word


def quoted(name: str) -> str:
    """A name as it is written in a formula: within backticks, if it is not a plain word."""
    is_plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    return name if is_plain and not keyword.iskeyword(name) else f"`{name}`"


def unquoted(name: str) -> str:
    """A name as results have it: without backticks, unless it could be read as something else.

    Example:
        >>> unquoted("fixed acidity"), unquoted("log(x)")
        ('fixed acidity', '`log(x)`')
    """
    return f"`{name}`" if re.search(r"[()\[\]:]", name) else name


def column_name(text: str) -> str:
    """The name of a column of a design, in which words stand for quoted names."""
    return decoded(_WHOLE.sub(lambda found: found[1] + unquoted(_named(found[3])), text))


def shortened(text: str) -> str:
    """A text for messages."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def factors_of(term: str) -> list[str]:
    """The parts of an interaction.

    Example:
        >>> factors_of("x:`a:b`")
        ['x', '`a:b`']
    """
    return [decoded(factor) for factor in encoded(term).split(":")]


def _named(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-8", "replace")


def _encoded(piece: re.Match[str]) -> str:
    text = piece[0]
    if text[0] in "'\"":
        return _plain_string(text)
    if text[0] != "`" and text.isascii():
        return text
    name = text.strip("`")
    if name.isascii() and name.isidentifier() and not keyword.iskeyword(name):
        return name
    return f"quoted_{name.encode('utf-8', 'replace').hex()}_"


def _plain_string(text: str) -> str:
    """A string in which all but letters, digits and blanks is written as its number."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    plain = (
        one if one.isascii() and (one.isalnum() or one == " ") else f"\\U{ord(one):08x}" for one in value
    )
    return f'"{"".join(plain)}"'
