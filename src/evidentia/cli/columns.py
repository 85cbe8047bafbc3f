"""Mapping of file columns to model arrays, from the options of a command."""

from collections.abc import Sequence
from typing import Any

from evidentia.data.files import near_columns
from evidentia.data.sources.columns import check_unique
from evidentia.errors import ConfigurationError, DataError


def split_features(given: str | None) -> list[str] | None:
    """Split the comma-separated names of `--features`; ConfigurationError for an empty name."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if not all(names):
        raise ConfigurationError(f"--features must be column names separated by commas; got {given!r}.")
    return names


def arrays_of(
    where: Any, names: Sequence[str], target: str | None, features: Sequence[str] | None
) -> dict[str, str | list[str]]:
    """Assign columns to arrays: features to x and the target to y, or without a target all to y.

    By default all columns except the target are features. Errors call the file `where`.

    Raises:
        DataError: the target is not a column, or several columns have the same name.
        ConfigurationError: no features, a feature named twice, or the target among them.
    """
    if target is not None and target not in names:
        raise DataError(f"{where} has no column {target!r} for --target. {near_columns(target, names)}")
    chosen = [name for name in names if name != target] if features is None else list(features)
    if features is None:
        check_unique(where, [name for name in names if name != target], names)
    if not chosen:
        raise ConfigurationError(
            f"{where} has no column left for a feature; name some with --features a,b,c, or leave out --target, if the model has "
            "no features."
        )
    if twice := [name for name in dict.fromkeys(chosen) if chosen.count(name) > 1]:
        raise ConfigurationError(f"--features names {', '.join(twice)} more than once.")
    if target in chosen:
        raise ConfigurationError(f"--features must not name the target, {target!r}.")
    return {"y": chosen} if target is None else {"x": chosen, "y": target}


def features_of(source: Any, target: str | None) -> list[str]:
    """The feature columns of a source, which `arrays_of` chose."""
    return list(source.selection.arrays["y" if target is None else "x"])


def types_of(
    names: Sequence[str], target: str | None, models: Sequence[str]
) -> dict[str, type[int] | type[float]]:
    """Types that do not depend on the first rows: real features, and the models' target type."""
    types: dict[str, type[int] | type[float]] = {name: float for name in names if name != target}
    if target is not None and "softmax" in models:
        types[target] = int
    elif target is not None and all(name == "linear" for name in models):
        types[target] = float
    return types


def listed(names: Sequence[str], most: int = 50) -> str:
    """Join the first names, and count the rest."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
