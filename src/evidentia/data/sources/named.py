"""The arguments `columns` and `types` of the readers: what they may be, and what they mean."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

from evidentia.errors import ConfigurationError, EvidentiaError

Arrays: TypeAlias = Mapping[str, str | Sequence[str]]
Columns: TypeAlias = Arrays | Sequence[str] | Callable[[list[str]], Arrays | Sequence[str]] | None
Kinds: TypeAlias = Mapping[str, type[int] | type[float]]
Types: TypeAlias = Kinds | Callable[[list[str]], Kinds] | None


def arrays_named(columns: Any, known: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """Normalize `columns` to a mapping."""
    if columns is None:
        columns = known
    names = columns if isinstance(columns, Mapping) else _names(columns)
    if not names or isinstance(columns, str):
        raise ConfigurationError(
            'columns must be column names, or a mapping such as {"x": ["f0", "f1"], "y": "label"}; '
            f"got {columns!r}."
        )
    arrays = {}
    for array, wanted in (names if isinstance(names, Mapping) else {one: one for one in names}).items():
        chosen = _names(wanted)
        if not chosen or not isinstance(array, str):
            raise ConfigurationError(f"columns[{array!r}] must be one or more column names; got {wanted!r}.")
        if len(set(chosen)) < len(chosen):
            raise ConfigurationError(
                f"columns[{array!r}] names a column more than once: {', '.join(chosen)}."
            )
        arrays[array] = wanted if isinstance(wanted, str) else chosen
    return arrays


def check_types(types: Any, known: Sequence[str]) -> None:
    """Raise ConfigurationError unless `types` maps column names to int or float."""
    if not isinstance(types, Mapping):
        raise ConfigurationError(
            f"types must map names of columns to int or float, such as {{'price': float}}; got {types!r}."
        )
    for name, kind in types.items():
        if kind is not int and kind is not float:
            raise ConfigurationError(f"types[{name!r}] must be int or float; got {kind!r}.")
        if name not in known:
            raise ConfigurationError(f"types names a column {name!r} that does not exist.")


def called(argument: str, value: Any, known: Sequence[str]) -> Any:
    """The value of an argument that may be a function of the names of all columns."""
    if not callable(value) or isinstance(value, type):
        return value
    try:
        return value(list(known))
    except EvidentiaError:
        raise
    except Exception as error:  # of any kind, as the function is the user's
        raise ConfigurationError(
            f"{argument} failed as a function of the list of all columns: {type(error).__name__}: {error}."
        ) from error


def _names(given: Any) -> tuple[str, ...]:
    """One or more names in an order; empty if it is anything else."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping | Set) or not isinstance(given, Iterable):
        return ()
    names = tuple(given)
    return names if all(isinstance(name, str) for name in names) else ()
