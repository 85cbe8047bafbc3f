"""Exact log evidence of short series with a changing variance, by quadrature."""

import numpy as np
from scipy.special import betaincinv, logsumexp, ndtri

from tests.exact_processes import nodes_and_log_weights


def exact_garch(y, count=48):
    """Under the prior of `ev.models.garch()`, with normal errors."""
    u, log_weights = nodes_and_log_weights(count)
    mean, scale, first, second = np.meshgrid(u, u, u, u, indexing="ij", sparse=True)
    mean, scale, arch = ndtri(mean), ndtri(0.5 + 0.5 * scale), 1 - np.sqrt(1 - first)
    garch = (1 - arch) * second
    variance, total = scale**2 + 0 * mean, 0.0
    for value in y:
        error = (value - mean) ** 2
        total = total - 0.5 * (error / variance + np.log(2 * np.pi * variance))
        variance = arch * error + garch * variance + (1 - arch - garch) * scale**2
    for axis in range(4):
        total = total + log_weights.reshape([-1 if one == axis else 1 for one in range(4)])
    return float(logsumexp(total))


def exact_stochastic_volatility(y, count=40, points=400, width=8.0):
    """Under the prior of `ev.models.stochastic_volatility()`: trapezoidal rules over the path."""
    u, log_weights = nodes_and_log_weights(count)
    level, volatility = 2 * ndtri(u)[:, None], ndtri(0.5 + 0.5 * u)[None, :]
    z, found = np.linspace(-width, width, points), []
    for persistence in 2 * betaincinv(20.0, 1.5, u) - 1:
        found.append(_log_likelihoods(y, level, persistence, volatility, z))
    weights = log_weights[:, None, None] + log_weights[:, None] + log_weights
    return float(logsumexp(np.array(found) + weights))


def _log_likelihoods(y, level, persistence, volatility, z):
    """At all levels and volatilities: the filtered density of z times the step of the grid."""
    variance = 1 - persistence**2
    h = level[..., None] + volatility[..., None] / np.sqrt(variance) * z
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    moves = np.exp(-0.5 * np.subtract.outer(z, persistence * z) ** 2 / variance)
    moves *= (z[1] - z[0]) / np.sqrt(2 * np.pi * variance)
    density, total = np.broadcast_to(density, h.shape), 0.0
    with np.errstate(over="ignore", under="ignore"):
        for value in y:
            logs = -0.5 * (np.log(2 * np.pi) + h + value**2 * np.exp(-h))
            joint = density * np.exp(logs - (largest := logs.max(-1, keepdims=True)))
            total = total + np.log(joint.sum(-1)) + largest[..., 0]
            density = joint / joint.sum(-1, keepdims=True) @ moves.T
    return total
