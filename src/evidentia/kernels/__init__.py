"""Markov moves of the particles, one per file.

`Kernel` is the protocol of the moves of the annealed path; `ConstrainedKernel` that of nested
sampling, whose moves stay in a `Region` of high likelihood.
"""

from evidentia.kernels.baoab import BAOAB
from evidentia.kernels.constrained_walk import ConstrainedDifferentialEvolution, ConstrainedWalk
from evidentia.kernels.differential_evolution import DifferentialEvolution
from evidentia.kernels.hmc import HMC
from evidentia.kernels.kernel import Density, GradientKernel, Kernel, Moved, Scale, posterior_scale
from evidentia.kernels.langevin import ULA
from evidentia.kernels.mala import MALA
from evidentia.kernels.metropolis import whitened
from evidentia.kernels.random_walk import RandomWalk
from evidentia.kernels.reflecting import ReflectingSGHMC
from evidentia.kernels.region import ConstrainedKernel, Points, Region
from evidentia.kernels.rejection import Rejection
from evidentia.kernels.sghmc import SGHMC
from evidentia.kernels.sgld import SGLD
from evidentia.kernels.sgnht import SGNHT
from evidentia.kernels.slices import ConstrainedSlice, Slice
from evidentia.kernels.unscaled import Unscaled

__all__ = [
    "BAOAB",
    "HMC",
    "MALA",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "ULA",
    "ConstrainedDifferentialEvolution",
    "ConstrainedKernel",
    "ConstrainedSlice",
    "ConstrainedWalk",
    "Density",
    "DifferentialEvolution",
    "GradientKernel",
    "Kernel",
    "Moved",
    "Points",
    "RandomWalk",
    "ReflectingSGHMC",
    "Region",
    "Rejection",
    "Scale",
    "Slice",
    "Unscaled",
    "posterior_scale",
    "whitened",
]
