"""The methods that estimate the log evidence, one file each."""

from evidentia.evidence.ais import AIS, linear_schedule, sigmoid_schedule
from evidentia.evidence.amis import AMIS
from evidentia.evidence.bridge_sampling import BridgeSampling
from evidentia.evidence.harmonic_mean import HarmonicMean
from evidentia.evidence.jarzynski import Jarzynski
from evidentia.evidence.laplace import Laplace
from evidentia.evidence.nested_sampling import NestedSampling
from evidentia.evidence.online_nested_sampling import OnlineNestedSampling
from evidentia.evidence.prior_sampling import PriorSampling
from evidentia.evidence.sequential import Sequential
from evidentia.evidence.sgais import SGAIS
from evidentia.evidence.smc import SMC

__all__ = [
    "AIS",
    "AMIS",
    "SGAIS",
    "SMC",
    "BridgeSampling",
    "HarmonicMean",
    "Jarzynski",
    "Laplace",
    "NestedSampling",
    "OnlineNestedSampling",
    "PriorSampling",
    "Sequential",
    "linear_schedule",
    "sigmoid_schedule",
]
