"""The axes that plots draw into: those that were given, or those of a new pyplot figure."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evidentia.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes that were given, or those of a new pyplot figure of a size in inches.

    Raises:
        ConfigurationError: what was given are no axes of Matplotlib.
    """
    if ax is None:
        import matplotlib.pyplot

        return matplotlib.pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not _are_axes(ax):
        raise ConfigurationError(
            f"ax must be axes of Matplotlib, as of figure.subplots(); got {reprlib.repr(ax)}."
        )
    return ax


def pair_or_new(axes: Sequence[Axes] | None, least: int = 2) -> Sequence[Axes]:
    """The two axes that were given, or those of a new pyplot figure, one above the other.

    Where `least` is 1, one may be given for both.

    Raises:
        ConfigurationError: what was given are not two axes of Matplotlib.
    """
    if axes is None:
        import matplotlib.pyplot

        return matplotlib.pyplot.subplots(2, 1, figsize=(7, 6.4), sharex=True, layout="constrained")[1]
    given = list(axes) if hasattr(axes, "__iter__") else []
    if not least <= len(given) <= 2 or not all(map(_are_axes, given)):
        raise ConfigurationError(
            f"axes must be two axes of Matplotlib, as of figure.subplots(2, 1); got {reprlib.repr(axes)}."
        )
    return given[0], given[-1]


def _are_axes(value: Any) -> bool:
    from matplotlib.axes import Axes

    return isinstance(value, Axes)
