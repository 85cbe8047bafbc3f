"""Markov moves of the particles, one file each.

A kernel is a small frozen configuration. Its `move(key, positions, gradient, scale)` is pure and compiled by the caller:
`gradient(key, positions)` estimates the gradient of the log density to leave invariant, one row a particle, and `scale`
(`Scale`) says how wide that density is. `noise_share(differences, scale)` tells how much of the noise in a step is that of
the gradient; that is for those of `STOCHASTIC`. Those with Metropolis' correction (`METROPOLIS`) take an exact log density
in place of the gradient. Those whose errors are made up for by weights (`WEIGHTED`) take it too, and return what they add
to the log weights beside the positions. A kernel knows no weights of its own and no data.

The moves of nested sampling (`CONSTRAINED`) keep to a `Region` of high likelihood:
`move(key, points, region, factor)`.
"""

from evidentia.kernels.baoab import BAOAB
from evidentia.kernels.constrained_walk import ConstrainedWalk
from evidentia.kernels.hmc import HMC
from evidentia.kernels.langevin import ULA
from evidentia.kernels.mala import MALA
from evidentia.kernels.random_walk import RandomWalk
from evidentia.kernels.reflecting import ReflectingSGHMC
from evidentia.kernels.region import Points, Region
from evidentia.kernels.rejection import Rejection
from evidentia.kernels.scale import Scale, posterior_scale
from evidentia.kernels.sghmc import SGHMC
from evidentia.kernels.sgld import SGLD
from evidentia.kernels.sgnht import SGNHT

METROPOLIS = HMC, MALA, RandomWalk
STOCHASTIC = BAOAB, SGHMC, SGLD, SGNHT
WEIGHTED = (ULA,)
CONSTRAINED = ReflectingSGHMC, ConstrainedWalk, Rejection

__all__ = [
    "BAOAB",
    "CONSTRAINED",
    "HMC",
    "MALA",
    "METROPOLIS",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "STOCHASTIC",
    "ULA",
    "WEIGHTED",
    "ConstrainedWalk",
    "Points",
    "RandomWalk",
    "ReflectingSGHMC",
    "Region",
    "Rejection",
    "Scale",
    "posterior_scale",
]
