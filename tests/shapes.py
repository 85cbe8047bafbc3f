"""The axes and dtypes of arrays that annotations promise, checked while tests run (conftest.py).

All else is left to pyright, also whether an array is NumPy's or JAX's.
"""

from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

from beartype import beartype
from jaxtyping import AbstractArray


def checked(function):
    """The function with those of its annotations checked that name arrays by their axes."""
    hints = {name: _axes_of(hint) for name, hint in function.__annotations__.items()}
    function.__annotations__ = {name: hint for name, hint in hints.items() if hint is not None}
    return beartype(function)


def _axes_of(hint):
    """An array of any library with the axes of the hint, or a union of such with None; else None.

    Not of `Sequence[float] | Float[ndarray, " values"]`: constructors check what users may write.
    """
    if isinstance(hint, type) and not get_args(hint):
        return hint.dtype[Any, hint.dim_str] if issubclass(hint, AbstractArray) else None
    if get_origin(hint) not in (Union, UnionType):
        return None
    parts = [part if part is type(None) else _axes_of(part) for part in get_args(hint)]
    return None if None in parts else reduce(or_, parts)
