"""The integral over the g's against a tensor grid; sums over levels against those of columns."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from evidentia.regression.per_term.blocks import Term, contrasts
from evidentia.regression.per_term.evidence import integral_of
from evidentia.regression.per_term.integral import log_integral
from evidentia.regression.per_term.sums import sums_of


def _full(terms, y):
    sums = sums_of(terms, y)
    return sums.likelihood_of(sums.blocks_of(list(terms), 1.0))


def _on_a_tensor_grid(terms, y, step):
    """By dense covariances of the rows, I + Σ g X Xᵀ, at even steps of every log g."""
    log_g = np.arange(-14, 22, step)
    products = [term.columns @ term.columns.T for term in terms.values()]
    both = np.column_stack([np.ones(len(y)), y - y.mean()])
    parts = []
    points = np.stack(np.meshgrid(*[log_g] * len(terms), indexing="ij"), -1).reshape(-1, len(terms))
    for part in np.array_split(points, max(1, len(points) // 2_000)):
        covariance = np.eye(len(y)) + np.einsum("pk,kij->pij", np.exp(part), np.array(products))
        root = np.linalg.cholesky(covariance)
        inner = np.linalg.solve(root, np.broadcast_to(both, (len(part), *both.shape)))
        (a, b), (_, c) = np.moveaxis(np.einsum("pij,pik->pjk", inner, inner), 0, -1)
        volume = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1) + np.log(a / len(y))
        left = (c - b**2 / a) / (both[:, 1] @ both[:, 1])
        scales = np.array([term.scale for term in terms.values()])
        prior = (np.log(scales / np.sqrt(2 * np.pi)) - 0.5 * part - scales**2 / 2 * np.exp(-part)).sum(1)
        parts.append(logsumexp(prior - volume / 2 - (len(y) - 1) / 2 * np.log(left)))
    return float(logsumexp(parts) + len(terms) * np.log(step))


@pytest.mark.parametrize("count", [2, pytest.param(200, marks=pytest.mark.reference)])
def test_random_unbalanced_designs_agree_with_a_grid(count):
    """Within 10⁻⁴ nats, but for some with three g's that depend on each other, which say so."""
    generator, errors = np.random.default_rng(5), []
    for trial in range(count):
        rows = int(generator.integers(14, 30))
        a = np.append(generator.integers(0, 3, rows - 3), [0, 1, 2])
        b = (a + generator.integers(0, 2, rows)) % 3  # much like a
        c = np.append(generator.integers(0, 5, rows - 5), range(5))
        y = generator.normal(size=rows) + (trial % 2) * 3 * (a == 1) + generator.normal(size=5)[c]
        terms = {"a": Term(np.eye(3)[a] @ contrasts(3), 0.5)}
        if trial % 3 == 0:
            terms["c"] = Term(np.eye(5)[c], 1.0, has_indicators=True)
        if trial % 3 or trial % 30 == 27:
            terms["b"] = Term(np.eye(3)[b] @ contrasts(3), 0.5)
        scales = np.array([term.scale for term in terms.values()])
        found = integral_of(_full(terms, y), scales)
        expected = _on_a_tensor_grid(terms, y, 0.5 if len(terms) == 2 else 0.7)
        assert found.value == pytest.approx(expected, abs=max(1e-4, 3 * found.error))
        errors.append(found.error)
        assert len(terms) == 3 or found.error < 1e-4
    assert np.mean(np.array(errors) < 1e-4) >= 0.95


def test_eliminated_indicators_are_columns_like_others():
    generator = np.random.default_rng(6)
    codes = np.append(generator.integers(0, 7, 40), range(7))
    terms = {
        "a": Term(generator.normal(size=(47, 2)), 0.5),
        "id": Term(np.eye(7)[codes], 1.0, has_indicators=True),
    }
    y, log_g = generator.normal(size=47), generator.normal(size=(5, 2))
    plain = {name: term._replace(has_indicators=False) for name, term in terms.items()}
    one, other = (_full(chosen, y).log_bayes_factor(log_g) for chosen in (terms, plain))
    np.testing.assert_allclose(one, other, atol=1e-10)


def test_many_levels_of_different_sizes_are_few_nodes():
    """Up to a g at which rounding of either way is all there is."""
    generator = np.random.default_rng(7)
    codes = np.repeat(range(60), np.concatenate([np.arange(1, 50), np.arange(100, 1200, 100)]))
    terms = {
        "a": Term(generator.normal(size=(len(codes), 3)), 0.5),
        "id": Term(np.eye(60)[codes], 1.0, has_indicators=True),
    }
    y = generator.normal(size=60)[codes] + generator.normal(size=len(codes))
    log_g = np.column_stack([generator.normal(size=9), np.linspace(-20, 20, 9)])
    likelihood = _full(terms, y)
    assert len(likelihood.nodes) < len(likelihood.counts) == 60
    plain = {name: term._replace(has_indicators=False) for name, term in terms.items()}
    other = _full(plain, y).log_bayes_factor(log_g)
    np.testing.assert_allclose(likelihood.log_bayes_factor(log_g), other, atol=1e-7)


def test_two_arms_of_three_g_are_summed_on_a_grid():
    """Normal densities of log g, of which a line through one mode does not see the other."""

    def integrand(log_g):
        arms = [multivariate_normal(mean, 1.44 * np.eye(3)).logpdf(log_g) for mean in ([0, 7, 2], [7, 0, 2])]
        return np.logaddexp(*arms) - np.log(2)

    found = log_integral(integrand, 3)
    assert abs(found.value) < 1e-6 and found.error < 2.5e-5
