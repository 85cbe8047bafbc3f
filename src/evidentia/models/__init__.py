"""The built-in models, one file each. Each has `simulate`, checks its data, and equal calls give the same model."""

from evidentia.models.linear import linear_regression
from evidentia.models.mixture import gaussian_mixture
from evidentia.models.softmax import softmax_regression

__all__ = ["gaussian_mixture", "linear_regression", "softmax_regression"]
