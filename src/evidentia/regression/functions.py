"""The functions that a formula may call: of a row, of all rows, and codings of categories."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evidentia.errors import ConfigurationError

MOST = {"df": 1000, "degree": 30, "levels": 1000, "knots": 1000}  # of arguments that make columns
SPLINES = "bs", "cc", "cr", "cs"
LEARNT = *SPLINES, "poly", "center", "scale", "standardize"  # from all rows, by Formulaic
CODINGS = "C", "hashed"
CONSTANTS = {"np.pi": np.pi, "np.e": np.e}
CONTRASTS = "Treatment", "Poly", "Sum", "Helmert", "Diff"
INSTEAD = {
    "lag": "a column of the table that holds the earlier values",
    "Q": "`name`, within backticks",
}
_SEVERAL_ROWS = (
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "diff",
    "rank",
    "shift",
    "rolling",
    "ewm",
    "lag",
    "gradient",
)
OF_NUMPY = {"where": np.where, "clip": np.clip, "round": np.round, "around": np.round}
PLAIN = "sqrt", "log1p", "expm1", "sin", "cos", "tan", "tanh", "sign", "floor", "ceil"
OF_ROWS: dict[str, Callable[..., Any]] = {
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "exp": np.exp,
    **{name: getattr(np, name) for name in PLAIN},
    "exp2": np.exp2,
    "exp10": lambda x: np.float_power(10.0, x),
    "abs": np.abs,
    "round": np.round,
    "I": lambda x: x,
    "offset": lambda x: x,
}
OF_ALL_ROWS = {"mean": np.mean, "median": np.median, "min": np.min, "max": np.max, "sum": np.sum}
DEVIATIONS = {"std": np.std, "var": np.var}


def of_rows(name: str) -> Callable[..., Any] | None:
    """The function of the numbers of a row: `log`, or as `np.tanh` any such function of NumPy."""
    if not name.startswith("np."):
        return OF_ROWS.get(name)
    found = getattr(np, name.removeprefix("np."), None)
    is_of_rows = isinstance(found, np.ufunc) and found.nout == 1 and found.signature is None
    return found if is_of_rows else OF_NUMPY.get(name.removeprefix("np."))


def num_arguments(name: str) -> tuple[int, ...]:
    """How many numbers a function of rows may be given."""
    function, last = of_rows(name), name.removeprefix("np.")
    if isinstance(function, np.ufunc):
        return (function.nin,)  # a further one would be overwritten with the result
    return {"where": (3,), "clip": (3,), "round": (1, 2), "around": (1, 2)}.get(last, (1,))


def of_all_rows(name: str) -> Callable[..., Any] | None:
    """The function of a whole column to one number: `np.mean`, or as a method `.mean`.

    The deviations of NumPy divide by n, those of pandas by n - 1.
    """
    owner, _, last = name.rpartition(".")
    if owner not in ("", "np") or "." not in name:
        return None
    if last in DEVIATIONS:
        return lambda values: DEVIATIONS[last](values, ddof=0 if owner else 1)
    return OF_ALL_ROWS.get(last)


def of_formulaic(name: str) -> Callable[..., Any] | None:
    """A function that Formulaic has learn from a column, or one that codes categories."""
    from formulaic.transforms import TRANSFORMS

    if name in (*LEARNT, *CODINGS, *CONTRASTS):
        return TRANSFORMS[name]
    last = name.removeprefix("contr.")
    is_contrast = last != name and not last.startswith("_") and last != "mro"
    return getattr(TRANSFORMS["contr"], last, None) if is_contrast else None


def check_call(
    name: str, function: Callable[..., Any], arguments: Sequence[Any], more: dict[str, Any]
) -> None:
    """Raise ConfigurationError for arguments that do not fit, or would make too many columns.

    Raises TypeError for those that the function does not have.
    """
    given = inspect.signature(function).bind(*arguments, **more).arguments
    if hidden := [one for one in more if one.startswith("_") or one == "hash_func"]:
        raise ConfigurationError(f"{name} takes no {hidden[0]} in a formula.")
    for argument, most in MOST.items():
        value = given.get(argument)
        size = len(value) if isinstance(value, list | tuple) else value
        if isinstance(size, int | float) and not 0 <= size <= most:
            raise ConfigurationError(f"{argument} of {name} must be at most {most:,}; got {size:,}.")


def unknown(name: str) -> str:
    """What to write in place of a function that formulas do not have."""
    last = name.rpartition(".")[2]
    if last in _SEVERAL_ROWS and name not in INSTEAD:
        return (
            f"{name} takes several rows at a time, and a formula is computed of each row by itself. Make a column of it in "
            "the table first."
        )
    if name in INSTEAD:
        return f"there is no function {name}. Write {INSTEAD[name]}."
    if of_rows(f"np.{name}") is not None or of_all_rows(f"np.{name}") is not None:
        return f"there is no function {name}. Write np.{name}(x)."
    return (
        f"there is no function {name}. A logarithm is log(x), a spline bs(x, df=4); of NumPy there are the functions of "
        "single numbers, such as np.sqrt(x), and np.mean, np.std, np.median, np.min and np.max. Make a column of anything "
        "else in the table first."
    )
