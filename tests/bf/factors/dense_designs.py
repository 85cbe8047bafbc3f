"""Bayes factors of ANOVAs by dense covariances of the rows, at even steps of every log g.

With C an orthonormal basis of contrasts of the rows, which a flat mean leaves, and K_k the
covariance of the k-th term's effects for g = σ² = 1,

    log BF = -½ log |M| - (N - 1)/2 log (yᵀCᵀ M⁻¹ C y / yᵀCᵀC y),    M = I + Σ g_k C K_k Cᵀ.

Terms are kernels of the rows here, not columns: I - 1/k of levels for a factor whose effects sum
to zero, I for a random one, products of these for interactions.
"""

from functools import reduce

import numpy as np
from scipy.linalg import null_space
from scipy.special import logsumexp

STEPS = {1: 0.25, 2: 0.5, 3: 0.7}
LOWEST, HIGHEST = -14.0, 24.0


def kernel_of(column, is_random):
    """The covariance of one variable's effects; of numbers, of a slope for one deviation."""
    column = np.asarray(column)
    if column.dtype.kind == "f":
        standard = (column - column.mean()) / column.std()
        return np.outer(standard, standard)
    same = (column[:, None] == column).astype(float)
    return same if is_random else same - 1 / len(np.unique(column))


def blocks_of(table, terms, random):
    """Covariances and scales of the terms' effects: covariates share a g, and a Zellner prior."""
    kernels, scales, shared = [], [], []
    for term in terms:
        names = term.split(":")
        own = reduce(np.multiply, (kernel_of(table[name], name in random) for name in names))
        if set(names) & set(random):
            kernels.append(own), scales.append(1.0)
        elif any(np.asarray(table[name]).dtype.kind == "f" for name in names):
            shared.append(own)
        else:
            kernels.append(own), scales.append(0.5)
    if shared:
        basis = contrasts(len(shared[0]))
        values, vectors = np.linalg.eigh(basis @ sum(shared) @ basis.T)
        span = basis.T @ vectors[:, values > 1e-9 * values.max()]
        kernels.append(len(span) * span @ span.T), scales.append(np.sqrt(2) / 4)
    return kernels, np.array(scales)


def contrasts(count):
    return null_space(np.ones((1, count))).T


def log_bayes_factor(table, response, terms, random=()):
    """Of the model of some terms against the intercept alone."""
    kernels, scales = blocks_of(table, terms, random)
    if not kernels:
        return 0.0
    basis = contrasts(len(response))
    y = basis @ np.asarray(response, float)
    kernels = [basis @ kernel @ basis.T for kernel in kernels]
    values, vectors = np.linalg.eigh(sum(kernels))
    span = vectors[:, values > 1e-9 * values.max()]
    kernels = np.array([span.T @ kernel @ span for kernel in kernels])
    own = span.T @ y
    rest = max(y @ y - own @ own, 0.0)
    step = STEPS[len(kernels)]
    log_g = np.arange(LOWEST, HIGHEST, step)
    points = np.stack(np.meshgrid(*[log_g] * len(kernels), indexing="ij"), -1).reshape(-1, len(kernels))
    found = []
    for part in np.array_split(points, max(1, len(points) // 2_000)):
        covariance = np.eye(len(own)) + np.tensordot(np.exp(part), kernels, 1)
        root = np.linalg.cholesky(covariance)
        left = np.linalg.solve(root, np.broadcast_to(own[:, None], (len(part), len(own), 1)))
        volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
        ratio = (rest + (left**2).sum((1, 2))) / (y @ y)
        prior = (np.log(scales / np.sqrt(2 * np.pi)) - part / 2 - scales**2 / 2 * np.exp(-part)).sum(1)
        found.append(logsumexp(prior - volume - len(y) / 2 * np.log(ratio)))
    return float(logsumexp(found) + len(kernels) * np.log(step))
