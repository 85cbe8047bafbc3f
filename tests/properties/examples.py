"""Runs of a property with few examples for `make test`, with many for `make test-reference`."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Values of a wrong type, or out of any range.
WORDS = [None, True, False, "", "12", "\ud800"]
NUMBERS = [-1, 0, 1, 2, 10**20, 10**400, -(10**400), -0.5, 0.5, 1.5, 1e308, math.nan, math.inf, -math.inf]
CONTAINERS = [[], [1, 2], ["a", None], {}, {"a": 1}, [[[[[[[[1]]]]]]]]]
ODD = st.sampled_from([*WORDS, *NUMBERS, *CONTAINERS])


def examples(many: int, few: int = 60) -> Any:
    """Parametrise a test by its number of examples, `count`."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.reference)])


def for_all(strategy: st.SearchStrategy, count: int) -> Callable[[Callable[[Any], None]], None]:
    """Run the decorated property at once, for `count` examples of the strategy."""

    def run(body: Callable[[Any], None]) -> None:
        settings(max_examples=count, suppress_health_check=list(HealthCheck))(given(strategy)(body))()

    return run


def paths_of(value: Any, path: tuple = ()) -> list[tuple]:
    """The paths to all entries of nested mappings and lists."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [found for key, entry in entries for found in ((*path, key), *paths_of(entry, (*path, key)))]


def changed(value: Any, path: tuple, change: Callable[[Any], Any] | None) -> Any:
    """A copy with the entry at a path changed, or left out if there is no change."""
    key, rest = path[0], path[1:]
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[key] = changed(value[key], rest, change)
    elif change is None:
        del copy[key]
    else:
        copy[key] = change(value[key])
    return copy


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes of which some are flipped, cut off, left out, or put in."""
    changes = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(changes) - 1)))
        kind = draw(st.sampled_from(["flip", "cut", "drop", "insert"]))
        if kind == "flip" and changes:
            changes[place] ^= draw(st.integers(1, 255))
        elif kind == "cut":
            del changes[place:]
        elif kind == "drop":
            del changes[place : place + draw(st.integers(1, 40))]
        else:
            changes[place:place] = draw(st.binary(min_size=1, max_size=8))
    return bytes(changes)
