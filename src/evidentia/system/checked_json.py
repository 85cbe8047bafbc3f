"""JSON objects that hold their own SHA-256, so that a change of any bit shows."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

KEY = "sha256"


def encode(values: Mapping[str, Any]) -> bytes:
    """A JSON object with the SHA-256 of its other entries as the last one.

    Example:
        >>> decode(encode({"seed": 1}))["seed"]
        1
    """
    checked = {**values, KEY: digest(values)}
    return json.dumps(checked, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def decode(data: bytes) -> dict[str, Any]:
    """The object that `encode` wrote. Raises ValueError if it is no such object, or damaged."""
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict) or found.get(KEY) != digest(found):
        raise ValueError("it does not match its SHA-256")
    return found


def digest(values: Mapping[str, Any]) -> str:
    """The SHA-256 of an object, whatever the order and the spaces in its file."""
    rest = {name: value for name, value in values.items() if name != KEY}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
