"""Errors of a schema as sentences that name the key, what is needed, and what was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evidentia.errors import near

SHAPES = {  # of keys that take more than one type
    "columns": "the name of a column, a list of names, or (not for run_lengths) a table of these",
    "hazard": "a number between 0 and 1, or a table with the numbers alpha and beta",
    "model": "the name of a model, or a table with type and the model's options",
}
WORDS = (
    ("Input should", "must"),
    ("String should", "must"),
    ("List should", "must"),
    ("Dictionary should", "must"),
    ("a valid integer", "an integer"),
    ("a valid ", "a "),
    ("a dictionary or object to extract fields from", "a table"),
    ("a dictionary", "a table"),
)


def problem(
    error: Mapping[str, Any],
    content: Mapping[str, Any],
    keys_at: Callable[[Sequence[Any], Mapping[str, Any]], list[str]],
) -> str:
    """One sentence: the key, what is needed, what was given.

    Args:
        error: one of pydantic's `ValidationError.errors()`.
        content: what was checked.
        keys_at: the keys of the table that a location is in.
    """
    location = [part for part in error["loc"] if part != "[key]"]
    if len(location) > 4 and location[2] == "monitors":
        del location[4]  # the kind, by which the schema is chosen
    place = _place(location, content)
    key, kind, context = ".".join(place), error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        known = keys_at(location, content)
        return f"{key} is not a key of this table. {near(place[-1], known)}"
    if kind == "missing":
        return f"{key} is missing."
    if kind.startswith("union_tag"):
        expected = str(context.get("expected_tags", "'models', 'changes', 'run_lengths'"))
        kind_key = f"{key}.kind"
        given = f"got {context['tag']!r}" if "tag" in context else "it is missing"
        return f"{kind_key} must be one of {expected}; {given}."
    shape = "model" if place[-2:-1] == ["models"] and len(place) > 2 else place[-1]
    if shape in SHAPES and len(location) > len(place):
        needed = f"must be {SHAPES[shape]}"
    elif kind == "string_pattern_mismatch" and place[-1] != "url":
        needed = "must begin with a letter or digit, and hold only these and _ . -"
    elif kind == "string_pattern_mismatch":
        return f"{key} must be an http or https URL without credentials; see url_env and token_env."
    else:
        said = error["msg"].split(" after validation")[0]
        for before, after in WORDS:
            said = said.replace(before, after)
        needed = said
    given = "" if "options" in place else f"; got {_shown(error['input'])}"
    return f"{key} {needed}{given}."


def _place(location: Sequence[Any], content: Any) -> list[str]:
    """The keys of a location that are in the file, without the branches of a union."""
    found: list[str] = []
    for index, part in enumerate(location):
        is_last = index == len(location) - 1
        if isinstance(content, Mapping) and (part in content or (is_last and isinstance(part, str))):
            if is_last and part not in content and found and found[-1] in SHAPES:
                break
            found.append(str(part))
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            found.append(str(part))
            content = content[part]
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
