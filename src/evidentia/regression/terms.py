"""Terms of a formula as Formulaic reads them, bounded before it multiplies them out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evidentia.errors import ConfigurationError
from evidentia.regression.expressions import columns_of, tree_of
from evidentia.regression.quoting import decoded, encoded, factors_of, name_of, shortened

if TYPE_CHECKING:
    from formulaic.parser.types import Factor, Term

MOST_PRODUCTS = 2500  # of columns: 50 columns by twos, or 11 in all ways
MOST_POWER = 20
MOST_CHARACTERS = 200_000
_WORDS = {
    r"The `\.` operator": "'.' for all other columns is not supported. Name them.",
    r"Missing operator between `(.*)` and `(.*)`\.": "an operator is missing between {0} and {1}. If this is one name, write it "
    "within backticks: `{0} {1}`.",
    r"invalid syntax": "it is no expression. A name with spaces is written within backticks, as in log(`my column`).",
    r"context was closed\. Expected: (\S)": "a closing {} is missing.",
}
_COLOUR = re.compile(r"\x1b\[[\d;]*m|[⧛⧚]")
_LITERAL = re.compile(r"[\d.]+")


def formulaic_of(expression: str) -> Any:
    """Formulaic's own formula of an expression, with its quoted names as words.

    Raises:
        ConfigurationError: more terms than can be used.
        FormulaicError: it does not parse.
    """
    import formulaic
    from formulaic.parser import DefaultFormulaParser

    if len(expression) > MOST_CHARACTERS:
        raise ConfigurationError(f"it has more than {MOST_CHARACTERS:,} characters.")
    text = encoded(expression)
    if "``" in text:
        raise ConfigurationError("a name within backticks is missing.")
    try:
        _check_products(DefaultFormulaParser().get_ast(text))
        found = formulaic.Formula(text)  # pyright: ignore[reportAbstractUsage]
    except (RecursionError, MemoryError):
        raise ConfigurationError("its parentheses and signs are nested too deeply.") from None
    except (AttributeError, TypeError, LookupError, NotImplementedError):  # of Formulaic's parser
        raise ConfigurationError("its signs and parentheses do not fit together.") from None
    if not isinstance(found, formulaic.SimpleFormula):
        raise ConfigurationError("~ and | may not stand inside of it.")
    return found


def terms_in(expression: str) -> list[str]:
    """The terms of a part of a formula, each as it is written by itself; "1" is the intercept.

    Raises:
        ConfigurationError: something in it cannot be computed.
        FormulaicError, SyntaxError, ValueError: it does not parse.
    """
    return list(map(text_of, formulaic_of(expression or "?")))


def text_of(term: Term) -> str:
    """A term as text, which gives the same term again."""
    return ":".join(map(_text_of_factor, term.factors))


def columns_in(term: str) -> Iterator[str]:
    """The names of the columns that a term uses."""
    for factor in map(encoded, factors_of(term)):
        if is_name(factor):
            yield name_of(factor)
        elif not _LITERAL.fullmatch(factor):
            yield from columns_of(tree_of(factor))


def operators_in(expression: str) -> set[str]:
    """The signs between the factors of an expression, such as + and :."""
    from formulaic.parser.algos.tokenize import tokenize

    tokens = tokenize(encoded(expression))
    return {token.token for token in tokens if token.kind is token.Kind.OPERATOR}


def is_name(factor: str) -> bool:
    """Whether a factor is a column as it is."""
    return re.fullmatch(r"[\w.]+", factor) is not None and not _LITERAL.fullmatch(factor)


def problem_of(error: Exception) -> str:
    """What Formulaic says on one line, or plainer words for common mistakes."""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    said = shortened(decoded(" ".join(_COLOUR.sub("", said).split())))
    for pattern, words in _WORDS.items():
        if found := re.search(pattern, said):
            return words.format(*found.groups())
    return said


def _text_of_factor(factor: Factor) -> str:
    if factor.eval_method.value != "python":
        return decoded(factor.expr)
    tree = tree_of(factor.expr)
    is_call = factor.expr.endswith(")") and re.match(r"[\w.]+\(", factor.expr)
    return decoded(factor.expr if is_call and type(tree).__name__ == "Call" else f"I({factor.expr})")


def _check_products(root: Any) -> None:
    """Raise ConfigurationError if Formulaic would multiply out too much of a tree of operators."""
    counts: dict[int, int] = {}
    waiting = [root]
    while waiting:  # without recursion, as sums are as deep as they are long
        node = waiting[-1]
        parts = list(getattr(node, "args", ()))
        if new := [part for part in parts if id(part) not in counts]:
            waiting.extend(new)
            continue
        waiting.pop()
        counts[id(node)] = _num_terms(node, [counts[id(part)] for part in parts])


def _num_terms(node: Any, counts: list[int]) -> int:
    """At least the number of terms of an operator, of the numbers of those of its parts."""
    symbol = node.operator.symbol if hasattr(node, "operator") else ""
    if symbol in ("**", "^"):
        power = str(getattr(node.args[1], "token", ""))
        if not power.isdecimal() or not 1 <= int(power[:9]) <= MOST_POWER:
            raise ConfigurationError(
                f"the power after {symbol} must be a whole number from 1 to {MOST_POWER}; got {power or 'a formula'}."
            )
        products = counts[0] ** int(power)
    elif symbol in ("*", ":"):
        products = counts[0] * counts[1] + (sum(counts) if symbol == "*" else 0)
    else:
        return sum(counts) or 1
    if products > MOST_PRODUCTS:
        raise ConfigurationError(
            f"{symbol} stands for more than {MOST_PRODUCTS:,} products of columns. Write fewer columns with it."
        )
    return products
