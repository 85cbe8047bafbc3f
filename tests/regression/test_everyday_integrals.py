"""Regressions of the everyday kind against integrals over all parameters, in float64."""

import numpy as np
import pytest
from numpy.linalg import cholesky, solve
from scipy.special import gammaln, logsumexp

import evidentia as ev

GENERATOR = np.random.default_rng(77)


def legendre(low, high, count):
    """Places of Gauss and Legendre's rule, and the logarithms of its weights."""
    places, shares = np.polynomial.legendre.leggauss(count)
    return low + (high - low) * (places + 1) / 2, np.log(shares * (high - low) / 2)


def log_normal(values, width=2.5):
    return -0.5 * (values / width) ** 2 - np.log(width * np.sqrt(2 * np.pi))


@pytest.mark.slow
def test_two_counts_with_rows_without_trials():
    """Such rows have no likelihood; the column's mean and deviation are those of all rows."""
    rows = 25
    x, trials = GENERATOR.normal(5, 2, rows), GENERATOR.poisson(6, rows)
    trials[[3, 8, 20]] = 0
    s = GENERATOR.binomial(trials, 1 / (1 + np.exp(0.5 - 0.3 * (x - 5))))
    (a, log_a), (b, log_b) = legendre(-5, 5, 100), legendre(-4, 5, 100)
    eta = a[:, None, None] + b[:, None] * (x - x.mean()) / x.std()
    log_joint = -np.logaddexp(0, -eta) @ s - np.logaddexp(0, eta) @ (trials - s)
    log_joint += (log_normal(a) + log_a)[:, None] + log_normal(b) + log_b
    choices = np.sum(gammaln(trials + 1) - gammaln(s + 1) - gammaln(trials - s + 1))
    found = ev.estimate(ev.Regression("cbind(s, f) ~ x", "binomial"), {"s": s, "f": trials - s, "x": x})
    exact = float(np.asarray(logsumexp(log_joint))) + choices
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.02


@pytest.mark.reference
@pytest.mark.parametrize("groups", ["(x || g)", "(1 | g) + (0 + x | g)"])
def test_uncorrelated_effects(groups):
    """Given σ and both deviations rows are normal; x varies in units of its root mean square."""
    group = np.repeat(np.arange(8), 4)
    generator = np.random.default_rng(78)
    x = 2 + generator.normal(size=len(group))
    effects = generator.normal(size=(2, 8))[:, group]
    y = 0.5 * x + 0.8 * effects[0] + 0.6 * effects[1] * x + 0.7 * generator.normal(size=len(group))
    u, z = (y - y.mean()) / y.std(), (x - x.mean()) / x.std()
    same = group[:, None] == group
    fixed = 2.5**2 * (1 + np.outer(z, z))
    slopes = same * np.outer(x, x) / np.mean(x**2)
    scales, sds = np.arange(-3.5, 0.8, 0.1), np.arange(-9, 2.3, 0.25)  # logarithms of them, in even steps
    of_sd, parts = sds - np.exp(sds) + np.log(0.25), []
    for scale in scales:
        for sd, of_this in zip(sds, of_sd, strict=True):
            rows = np.exp(2 * scale) * np.eye(len(u)) + fixed + np.exp(2 * sd) * same
            lower = cholesky(rows + np.exp(2 * sds)[:, None, None] * slopes)
            solved = solve(lower, np.broadcast_to(u[:, None], (len(sds), len(u), 1)))[..., 0]
            value = log_normal(solved, 1.0).sum(1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
            parts.append(logsumexp(value + of_sd) + of_this + scale - np.exp(scale) + np.log(0.1))
    exact = float(np.asarray(logsumexp(parts))) - len(u) * np.log(y.std())
    table = {"x": x, "y": y, "g": [f"g{one}" for one in group]}
    found = ev.estimate(ev.Regression(f"y ~ x + {groups}", prior="normal"), table)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.06
