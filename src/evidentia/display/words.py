"""Bayes factors in the words and digits of a paper."""

from __future__ import annotations

import math

from evidentia.display import text

# Jeffreys (1961, Appendix B) in the words of Lee and Wagenmakers (2013): the least factors.
GRADES = {100.0: "extreme", 30.0: "very strong", 10.0: "strong", 3.0: "moderate", 1.0: "anecdotal"}
PRINTED = math.log(1e6)  # nats, above which a Bayes factor is a power of ten
FAR = math.log(1e300)  # and above which it is written without being computed
UNSURE = 0.3  # nats: the error above which it is one, too


def grade(log_bf: float) -> str:
    """The word for evidence of a size in nats, in either direction."""
    size = abs(log_bf)
    return next(word for least, word in GRADES.items() if size >= math.log(least))


def evidence(log_bf: float) -> str:
    """The grade with its direction, for a table.

    Example:
        >>> evidence(2.8), evidence(-5.0), evidence(0.0)
        ('strong for', 'extreme against', 'none')
    """
    if math.isnan(log_bf):
        return ""
    return f"{grade(log_bf)} {'for' if log_bf > 0 else 'against'}" if log_bf else "none"


def digits(log_bf: float) -> str:
    """A Bayes factor of at least one in digits, however large.

    Example:
        >>> digits(2.8483), digits(2000.0)
        ('17.26', '3.88e+868')
    """
    if log_bf < PRINTED:
        value = math.exp(log_bf)
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    power = math.floor(log_bf / math.log(10))
    return f"{math.exp(log_bf - power * math.log(10)):.2f}e+{power}"


def number(log_bf: float) -> str:
    """A Bayes factor in digits, also one below one."""
    if log_bf >= 0:
        return digits(log_bf)
    if log_bf > -PRINTED:
        return f"{math.exp(log_bf):.4g}"
    power = math.floor(log_bf / math.log(10))
    return f"{math.exp(log_bf - power * math.log(10)):.2f}e{power}"


def short(log_bf: float) -> str:
    """A Bayes factor in three digits, for a table.

    Example:
        >>> short(2.8483), short(-9.7), short(2000.0)
        ('17.3', '6.13e-05', '3.88e+868')
    """
    return factor(log_bf, 0.0)


def sentence(log_bf10: float, one: str, zero: str) -> str:
    """What the Bayes factor says: of the hypothesis that it supports."""
    if log_bf10 == 0:
        return "BF10 = 1: the data say nothing about whether " + one
    name, claim = ("BF10", one) if log_bf10 > 0 else ("BF01", zero)
    return f"{name} = {digits(abs(log_bf10))}: {grade(log_bf10)} evidence that {claim}"


def threshold(bound: float) -> str:
    """A Bayes factor as a limit: 10, 1/10."""
    return f"1/{1 / bound:.4g}" if 0 < bound < 1 else f"{bound:.4g}"


def factor(log_factor: float, error: float) -> str:
    """A Bayes factor with its relative error; a power of e where it is uncertain.

    Example:
        >>> factor(math.log(17.26), 0.0), factor(-3.2, 0.02), factor(400.0, 0.9)
        ('17.3', '0.0408 ± 2%', 'e^400.00 ± 0.90')
        >>> factor(2000.0, 0.0)
        '3.88e+868'
    """
    if math.isnan(log_factor):
        return ""
    if math.isnan(error):
        return f"about e^{log_factor:,.0f}"
    if error > UNSURE:
        return f"e^{text.with_error(log_factor, error)}"
    if abs(log_factor) > FAR:
        shown = number(log_factor)
    else:
        value = math.exp(log_factor)
        shown = f"{value:,.0f}" if 1000 <= value < math.exp(PRINTED) else f"{value:.3g}"
    return shown if error < 5e-4 else f"{shown} ± {100 * error:.2g}%"
