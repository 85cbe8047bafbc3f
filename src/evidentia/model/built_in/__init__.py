"""Built-in models, one per file. Each simulates and checks data; equal models share programs."""

from evidentia.model.built_in.autoregressive import autoregression
from evidentia.model.built_in.conditional_variance import garch
from evidentia.model.built_in.gaussian_processes import gaussian_process
from evidentia.model.built_in.linear import linear_regression
from evidentia.model.built_in.markov import hidden_markov
from evidentia.model.built_in.mixture import gaussian_mixture
from evidentia.model.built_in.softmax import softmax_regression
from evidentia.model.built_in.structural import state_space
from evidentia.model.built_in.volatility import stochastic_volatility

__all__ = [
    "autoregression",
    "garch",
    "gaussian_mixture",
    "gaussian_process",
    "hidden_markov",
    "linear_regression",
    "softmax_regression",
    "state_space",
    "stochastic_volatility",
]
