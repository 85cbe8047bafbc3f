"""The built-in models, one file each. Each has `simulate`, checks its data, and equal calls give
the same model.
"""

from evidentia.model.built_in.linear import linear_regression
from evidentia.model.built_in.mixture import gaussian_mixture
from evidentia.model.built_in.softmax import softmax_regression

__all__ = ["gaussian_mixture", "linear_regression", "softmax_regression"]
