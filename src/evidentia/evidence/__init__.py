"""The estimators of the log evidence, one file each: compositions of weights, gradients and kernels."""

from evidentia.evidence.nested_sampling import NestedSampling
from evidentia.evidence.online_nested_sampling import OnlineNestedSampling
from evidentia.evidence.sgais import SGAIS

__all__ = ["SGAIS", "NestedSampling", "OnlineNestedSampling"]
