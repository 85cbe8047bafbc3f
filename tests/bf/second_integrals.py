"""Bayes factors of effects of one number by other integrals than the package's, in float64.

Everything is summed in the domain of logarithms, over panels that are much finer than needed. A
t statistic is that of a normal and a chi-squared number, a correlation's likelihood Jeffreys' form
with another integral; neither has a function in common with `ev.bf`.
"""

import numpy as np

POINTS, WEIGHTS = np.polynomial.legendre.leggauss(14)
STEPS = np.concatenate([np.linspace(0, 12, 25), np.geomspace(14, 1e14, 100)])
NEAR = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 28)])
SIDES = {"two-sided": (-1, 1), "greater": (1,), "less": (-1,)}


def log_sum(terms):
    top = terms.max()
    return top + np.log(np.exp(terms - top).sum()) if np.isfinite(top) else -np.inf


def log_cosh(z):
    return np.logaddexp(z, -z) - np.log(2)


def panels(centres, cuts, bounds):
    """Nodes and log weights on a range; `centres` are pairs of a place and a width."""
    cuts = [*cuts, *(bound for bound in bounds if abs(bound) < 1e6)]
    edges = [np.array(cuts)]
    for place, width in centres:
        edges += [place + width * STEPS, place - width * STEPS]
    least = min(width for _, width in centres)
    edges += [cut + sign * least * NEAR for cut in cuts for sign in (-1, 1)]
    edges = np.unique(np.concatenate([np.ravel(edge) for edge in edges]))
    edges = np.unique(np.concatenate([edges[(edges > bounds[0]) & (edges < bounds[1])], cuts, bounds]))
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half * (1 + POINTS)).ravel()
    return nodes, np.log(half * WEIGHTS).ravel()


def intervals(alternative, null):
    """H₁ and H₀ as intervals of the effect."""
    low, high = null if isinstance(null, tuple) else (null, null)
    one = [(-np.inf, low) if side < 0 else (high, np.inf) for side in SIDES[alternative]]
    return one, [(low, high)] if isinstance(null, tuple) else []


def log_bayes_factor(log_prior, log_likelihood, nodes, log_weights, one, zero):
    """log BF₁₀, of a likelihood relative to that of the null value."""
    prior = log_prior + log_weights

    def log_mean(parts):
        inside = np.any([(nodes > low) & (nodes < high) for low, high in parts], axis=0)
        return log_sum(prior[inside] + log_likelihood[inside]) - log_sum(prior[inside])

    return log_mean(one) - (log_mean(zero) if zero else 0.0)


def log_t(effects, t, freedom, size):
    """log p(t | δ) / p(t | 0): even steps of log s, where t = (z + δ √N) / s and ν s² is χ²."""
    return _log_t(np.asarray(effects, float), t, freedom, size) - _log_t(np.zeros(1), t, freedom, size)


def _log_t(effects, t, freedom, size):
    mu = effects * np.sqrt(size)
    root = np.sqrt((t * mu) ** 2 + 4 * (freedom + t**2) * (freedom + 1))
    peak = np.where(
        t * mu > 0,
        (t * mu + root) / (2 * (freedom + t**2)),
        2 * (freedom + 1) / (root - np.minimum(t * mu, 0)),
    )
    width = 1 / np.sqrt((freedom + t**2) * peak**2 + freedom + 1)
    found = []
    for centre, shift, narrow in zip(
        *(np.array_split(each, -(-len(mu) // 500)) for each in (peak, mu, width)), strict=True
    ):
        place = np.arange(-80, 50) / 10  # sinh of it in widths: over the tails of few degrees of freedom
        x = np.minimum(np.log(centre)[:, None] + np.minimum(narrow[:, None] * np.sinh(place), 3.0), 300.0)
        terms = (freedom + 1) * x - freedom * np.exp(2 * x) / 2 - (t * np.exp(x) - shift[:, None]) ** 2 / 2
        terms += np.log(np.cosh(place)) + np.log(narrow)[:, None]
        top = terms.max(1)
        found.append(top + np.log(np.exp(terms - top[:, None]).sum(1)))
    return np.concatenate(found)


def log_r(z, r, count):
    """log L(ρ) / L(0) of ρ = tanh z: (1 - ρ²)^((n-1)/2) ∫ (cosh t - ρ r)^(1-n) dt (Jeffreys)."""
    return _log_r(np.asarray(z, float), r, count) - _log_r(np.zeros(1), r, count)


def _log_r(z, r, count):
    cosh_z = log_cosh(z)
    log_rest = np.logaddexp(np.log1p(-r) + z, np.log1p(r) - z) - np.log(2) - cosh_z  # 1 - ρ r
    found = []
    for part, cosh in zip(
        *(np.array_split(each, -(-len(z) // 500)) for each in (log_rest, cosh_z)), strict=True
    ):
        width = (part - np.log(count)) / 2  # of t, where cosh t - 1 is like (1 - ρ r) / n
        y = width[:, None] + np.arange(-40, 40, 0.1)
        y = np.minimum(y, 6.0)
        log_t = np.log(2) + 2 * np.log(np.sinh(np.exp(y) / 2))
        terms = y + (1 - count) * np.logaddexp(log_t, part[:, None])
        top = terms.max(1)
        found.append(top + np.log(np.exp(terms - top[:, None]).sum(1)) - (count - 1) * cosh)
    return np.concatenate(found)
