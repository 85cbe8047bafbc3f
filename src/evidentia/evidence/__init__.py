"""The estimators of the log evidence, one file each: compositions of weights, gradients and kernels."""

from evidentia.evidence.harmonic_mean import HarmonicMean
from evidentia.evidence.laplace import Laplace
from evidentia.evidence.prior_sampling import PriorSampling
from evidentia.evidence.sgais import SGAIS

__all__ = ["SGAIS", "HarmonicMean", "Laplace", "PriorSampling"]
