"""The exact models: their evidence against sums over grids, in one batch or several."""

import math

import numpy as np
import pytest

from experiments.conjugate import Autoregression, Bernoulli, Gaussian, LinearRegression

pytestmark = pytest.mark.experiments

GENERATOR = np.random.default_rng(0)
Y, X = GENERATOR.normal(0.5, 1.5, 30), GENERATOR.normal(size=(30, 2))
DATA = {
    Gaussian: Y,
    Bernoulli: (Y > 0).astype(int),
    Autoregression: np.stack([X[:, 0], Y], 1),
    LinearRegression: (X, Y),
}


def part(data, rows):
    return tuple(column[rows] for column in data) if isinstance(data, tuple) else data[rows]


def make(kind):
    return kind([0, 1]) if kind is LinearRegression else kind()


@pytest.mark.parametrize("kind", DATA)
def test_the_evidence_does_not_depend_on_how_rows_are_cut(kind):
    data, whole, cut = DATA[kind], make(kind), make(kind)
    whole.update(data)
    for rows in (slice(0, 1), slice(1, 8), slice(8, 30)):
        cut.update(part(data, rows))
    assert cut.log_evidence == pytest.approx(whole.log_evidence)
    assert cut.num_observations == 30 and cut.restarted(0).num_observations == 0
    if kind is not Autoregression:
        (pointwise,) = cut.log_predictive(part(data, slice(3, 4)))
        assert cut.update(part(data, slice(3, 4))).log_predictive == pytest.approx(pointwise)


def test_the_evidence_is_the_integral():
    """Over grids of mean and log variance, of the probability, and of both weights."""
    gaussian = Gaussian(rows=0.5, shape=2.0, scale=1.5)
    gaussian.update(Y)
    mean, log_v = np.meshgrid(np.linspace(-4, 5, 901), np.linspace(-3, 5, 801))
    v = np.exp(log_v)
    log_joint = (
        -0.5 * ((Y - mean[..., None]) ** 2).sum(-1) / v - 15 * np.log(2 * np.pi * v)
        - 0.25 * mean**2 / v - 0.5 * np.log(4 * np.pi * v)
        + 2 * math.log(1.5) - 2 * log_v - 1.5 / v  # InverseGamma(2, 1.5), over log v
    )  # fmt: skip
    assert gaussian.log_evidence == pytest.approx(
        np.logaddexp.reduce(log_joint, None) + math.log(1e-4), abs=1e-4
    )

    coin = Bernoulli(2.0, 1.0)
    coin.update(DATA[Bernoulli])
    p, ones = (np.arange(20_000) + 0.5) / 20_000, DATA[Bernoulli].sum()
    assert coin.log_evidence == pytest.approx(
        math.log(np.mean(2 * p * p**ones * (1 - p) ** (30 - ones))), abs=1e-6
    )

    line = LinearRegression([0, 1], noise=0.8)
    line.update((X, Y))
    w = np.stack(np.meshgrid(np.linspace(-3, 3, 301), np.linspace(-3, 3, 301)), -1)
    log_joint = -0.5 * ((Y - w @ X.T) ** 2).sum(-1) / 0.64 - 0.5 * (w**2).sum(-1)
    constant = -15 * math.log(2 * math.pi * 0.64) - math.log(2 * math.pi) + 2 * math.log(0.02)
    assert line.log_evidence == pytest.approx(np.logaddexp.reduce(log_joint, None) + constant, abs=1e-4)
