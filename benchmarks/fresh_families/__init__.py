"""Families of random problems with exact evidences, by name."""

import zlib

import numpy as np

from . import (
    conjugate,
    densities,
    edges,
    exchangeable,
    formulas,
    grouped,
    labelled,
    laws,
    nonlinear,
    sequences,
    symmetric,
    vague,
)
from .problem import Candidate, Drawn, Family

FAMILIES: dict[str, Family] = {
    **conjugate.FAMILIES,
    **densities.FAMILIES,
    **edges.FAMILIES,
    **exchangeable.FAMILIES,
    **formulas.FAMILIES,
    **grouped.FAMILIES,
    **labelled.FAMILIES,
    **laws.FAMILIES,
    **nonlinear.FAMILIES,
    **sequences.FAMILIES,
    **symmetric.FAMILIES,
    **vague.FAMILIES,
}


def draw(family: str, seed: int) -> Drawn:
    """The problem of a family and a seed; the same seed gives each family other numbers."""
    return FAMILIES[family](np.random.default_rng([seed, zlib.crc32(family.encode())]))


__all__ = ["FAMILIES", "Candidate", "Drawn", "draw"]
