"""Numbers with commas that were read as text, and what to do about them."""

import re
from collections.abc import Sequence

MOST_ODD = 0.1  # of the different texts that are no numbers, such as "NA." or "n. d."
_DECIMAL = re.compile(r"\s*[-+]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(,\d{3})+(\.\d*)?\s*")


def comma_advice(texts: Sequence[str]) -> str:
    """What to do about texts nearly all of which are numbers, at least half with a comma.

    Returns:
        An example of them and what to pass, for the end of a message; "" for other texts.

    Example:
        >>> comma_advice(["16,19", "7", "12,5"])[:57]
        "numbers with commas as text, such as '16,19'. Pass decima"
        >>> comma_advice(["1", "2", "1,2"]), comma_advice(["a,b", "c"])
        ('', '')
    """
    known = set(texts)
    thousands = [one for one in known if _THOUSANDS.fullmatch(one)]
    commas = [one for one in known if _DECIMAL.fullmatch(one)]
    with_comma = {*thousands, *commas}
    odd = [one for one in known - with_comma if not is_a_number(one)]
    if not with_comma or 2 * len(with_comma) < len(known) or len(odd) > MOST_ODD * len(known):
        return ""
    example = next(one for one in texts if one in with_comma)
    advice = (
        "Pass decimal=',' where the file is read (--decimal , on the command line; read_csv of evidentia and pandas has "
        "it, too)"
    )
    if len(thousands) == len(with_comma):  # 1,234 may be either
        advice += "; if the commas separate thousands, remove them first"
    return f"numbers with commas as text, such as {example!r}. {advice}."


def is_a_number(value: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(value or 0)
    except ValueError:
        return False
    return True
