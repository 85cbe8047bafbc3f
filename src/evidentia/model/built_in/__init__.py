"""Built-in models, one per file. Each simulates and checks data; equal calls share one model."""

from evidentia.model.built_in.hidden_markov import hidden_markov
from evidentia.model.built_in.linear import linear_regression
from evidentia.model.built_in.mixture import gaussian_mixture
from evidentia.model.built_in.softmax import softmax_regression

__all__ = ["gaussian_mixture", "hidden_markov", "linear_regression", "softmax_regression"]
