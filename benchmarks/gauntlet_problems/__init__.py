"""The problems of the gauntlet, by family."""

from . import conjugate, edges, impossible, latents, modes, nonlinear, regressions, ridges, samplers
from .problem import Problem

FAMILIES = {
    "conjugate": conjugate.PROBLEMS,
    "few rows": regressions.FEW_ROWS,
    "many rows": regressions.MANY_ROWS,
    "heavy tails": regressions.TAILS,
    "ridges, rings, funnels": ridges.PROBLEMS,
    "latents of rows and groups": latents.PROBLEMS,
    "several modes": {**modes.EXACT, **modes.LONG},
    "nonlinear curves": nonlinear.PROBLEMS,
    "tests of nested samplers": samplers.PROBLEMS,
    "jumps and edges": edges.PROBLEMS,
    "order of rows": {**conjugate.ORDERS, **regressions.ORDERS},
    "scale of features": conjugate.SCALES,
    "dimension": conjugate.DIMENSIONS,
    "impossible": impossible.PROBLEMS,
}
PROBLEMS = {name: make for family in FAMILIES.values() for name, make in family.items()}
LONG = modes.LONG

__all__ = ["FAMILIES", "LONG", "PROBLEMS", "Problem"]
