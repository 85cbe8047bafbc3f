"""Families of random problems with exact evidences, by name."""

from . import conjugate
from .problem import Candidate, Drawn, Family

FAMILIES: dict[str, Family] = {**conjugate.FAMILIES}

__all__ = ["FAMILIES", "Candidate", "Drawn"]
