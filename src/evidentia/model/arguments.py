"""The arguments of a NumPyro function and the names in data."""

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from evidentia.errors import ModelError


def check_arguments(function: Callable[..., Any], data: Any) -> None:
    """Raise ModelError unless `data` is a mapping with the names of the function's arguments."""
    if not isinstance(data, Mapping):
        raise ModelError(
            "a NumPyro model is called as function(**batch): data must be a mapping from the names of its arguments "
            f"to arrays; got {type(data).__name__}."
        )
    unknown, lacking = unlike_arguments(function, data)
    if unknown or lacking:
        raise ModelError(
            f"the NumPyro model takes the arguments {inspect.signature(function)}, but data holds {', '.join(data)}: "
            f"{advice(function, data)}."
        )


def unlike_arguments(function: Callable[..., Any], data: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Names in `data` that a function does not take, and arguments without a default not there."""
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    takes_any = any(one.kind == one.VAR_KEYWORD for one in parameters)
    unknown = [name for name in data if name not in {one.name for one in named} and not takes_any]
    return unknown, [one.name for one in named if one.default is one.empty and one.name not in data]


def advice(function: Callable[..., Any], data: Mapping[str, Any]) -> str:
    """What to do about names that a function does not take, and those that it lacks."""
    unknown, lacking = unlike_arguments(function, data)
    absent = [name for name in inspect.signature(function).parameters if name not in data]
    meant = {name: difflib.get_close_matches(name, absent, n=1) for name in unknown}
    found = [
        f"{name!r} may mean {close[0]!r}" if close else f"leave out {name!r}" for name, close in meant.items()
    ]
    return "; ".join(found + [f"{name!r} is missing" for name in lacking if [name] not in meant.values()])


def unset(function: Callable[..., Any], data: Mapping[str, Any]) -> list[str]:
    """Arguments that are None by default and not in the data, as an observation may be."""
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is None and one.name not in data]
