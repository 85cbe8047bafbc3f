"""Exact log evidence of short hidden Markov chains, by a sum over all paths of the states."""

import itertools

import numpy as np
from scipy.special import gammaln, logsumexp


def exact_log_evidence(y, num_states, emission, num_categories=3):
    """log Σ_paths p(path) p(y | path): given a path, all parameters are conjugate.

    The priors are those of `ev.models.hidden_markov`; NaN is a missing value.
    """
    y = np.asarray(y, float)
    of_values = {"categorical": _categorical(num_categories), "normal": _normal, "poisson": _poisson}[
        emission
    ]
    terms = []
    for path in itertools.product(range(num_states), repeat=len(y)):
        states, moves = np.array(path), np.zeros((num_states, num_states))
        np.add.at(moves, (states[:-1], states[1:]), 1)
        first = np.eye(num_states)[states[0]]
        log_path = _dirichlet(first) + sum(map(_dirichlet, moves)) if num_states > 1 else 0.0
        of_states = (of_values(y[(states == state) & ~np.isnan(y)]) for state in range(num_states))
        terms.append(log_path + sum(of_states))
    return float(logsumexp(terms))


def _dirichlet(counts):
    """log of ∫ Π p_k^{c_k} Dirichlet(p; 1, …, 1) dp."""
    return gammaln(len(counts)) - gammaln(len(counts) + counts.sum()) + gammaln(1 + counts).sum()


def _categorical(num_categories):
    return lambda values: _dirichlet(np.bincount(values.astype(int), minlength=num_categories).astype(float))


def _poisson(values, shape=1.0, rate=0.1):
    total, count = values.sum(), len(values)
    prior = shape * np.log(rate) - gammaln(shape)
    return prior + gammaln(shape + total) - (shape + total) * np.log(rate + count) - gammaln(values + 1).sum()


def _normal(values, precision=0.25, shape=1.0, scale=1.0):
    """Normal values with the mean and variance of a normal-inverse-gamma prior."""
    count = len(values)
    if not count:
        return 0.0
    mean, after = values.mean(), precision + count
    squares = np.sum((values - mean) ** 2) + precision * count * mean**2 / after
    new_shape, new_scale = shape + count / 2, scale + squares / 2
    constant = 0.5 * np.log(precision / after) - 0.5 * count * np.log(2 * np.pi)
    ratio = gammaln(new_shape) - gammaln(shape) + shape * np.log(scale) - new_shape * np.log(new_scale)
    return constant + ratio
