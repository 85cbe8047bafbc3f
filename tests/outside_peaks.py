"""A likelihood outside JAX that workers and other processes can import."""

import numpy as np
from scipy.stats import norm

import evidentia as ev

WIDTH, SIZE = 0.1, 2
EXACT = -SIZE * np.log(2.0)  # of a normalised peak in a box of width 2


def log_likelihood(x):
    return float(norm.logpdf(x, 0.3, WIDTH).sum())


def log_likelihoods(x):
    return norm.logpdf(x, 0.3, WIDTH).sum(1)


def fails_on_the_right(x):
    if x[0] > 0.9:
        raise ZeroDivisionError("too far right")
    return log_likelihood(x)


def transform(u):
    return 2 * u - 1


class Unsendable:
    def __call__(self, x):
        return 0.0

    def __reduce__(self):
        raise TypeError("it holds a telescope")


def peak(**changes):
    """The model of a peak in a box, with other arguments."""
    usual = {
        "log_likelihood": log_likelihood,
        "prior_transform": transform,
        "num_parameters": SIZE,
        "name": "peak",
    }
    return ev.Model.from_callable(**usual | changes)
