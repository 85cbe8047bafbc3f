"""Effects of levels against ridge regressions on a grid of the g's."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from evidentia.regression.per_term.blocks import Scales, coded_covariate, coded_factor, design_of
from evidentia.regression.per_term.evidence import weighed
from evidentia.regression.per_term.level_effects import Mixture, draws_of, effects_of, mean_effects, mixed
from evidentia.regression.per_term.sums import sums_of


def _dense(columns, loadings, y, scales, log_g):
    """Mean, deviation and distribution functions of effects, over a tensor grid of g's."""
    centred = [each - each.mean(0) for each in columns]
    wide, size = np.column_stack(centred), [each.shape[1] for each in columns]
    y, freedom = y - y.mean(), len(y) - 1
    log_weights, centres, spreads = [], [], []
    for point in np.stack(np.meshgrid(*[log_g] * len(columns), indexing="ij"), -1).reshape(-1, len(columns)):
        g = np.repeat(np.exp(point), size)
        inner = wide.T @ wide + np.diag(1 / g)
        mean = np.linalg.solve(inner, wide.T @ y)
        left = y @ y - y @ wide @ mean
        log_volume = np.linalg.slogdet(inner)[1] + np.log(g).sum()
        prior = sum(
            -0.5 * one - scale**2 / 2 * np.exp(-one) for one, scale in zip(point, scales, strict=True)
        )
        log_weights.append(-log_volume / 2 - freedom / 2 * np.log(left) + prior)
        centres.append(loadings @ mean)
        covariance = loadings @ np.linalg.solve(inner, loadings.T)
        spreads.append(np.sqrt(left / freedom * np.diag(covariance)))
    shares = np.exp(log_weights - logsumexp(log_weights))
    return shares, np.array(centres), np.array(spreads), freedom


@pytest.fixture(scope="module")
def crossed():
    generator = np.random.default_rng(2)
    a = np.append(generator.integers(0, 3, 33), range(3))
    x = generator.normal(2, 3, 36)
    y = 4 + (a == 1) * 1.2 + 0.1 * x + generator.normal(size=36)
    coded = {"a": coded_factor("a", np.array(list("uvw"))[a]), "x": coded_covariate("x", x)}
    design = design_of({"a": ("a",), "x": ("x",)}, coded, (), Scales())
    return design, y, weighed(sums_of(design.terms, y), ["a", "x"], Scales().covariate)


def test_means_deviations_and_intervals(crossed):
    design, y, model = crossed
    columns = [design.terms[name].columns for name in "ax"]
    loadings = np.zeros((4, 3))
    loadings[:3, :2], loadings[3, 2] = design.terms["a"].loadings, design.terms["x"].loadings[0, 0]
    shares, centres, spreads, freedom = _dense(
        columns, loadings, y, (0.5, 2**0.5 / 4), np.linspace(-9, 9, 91)
    )
    found = effects_of(model, ["a", "x"], 2048)
    mean, deviation = (
        np.concatenate([getattr(found[name], of) for name in "ax"]) for of in ("mean", "deviation")
    )
    expected = shares @ centres
    variance = shares @ (freedom / (freedom - 2) * spreads**2 + (centres - expected) ** 2)
    assert mean == pytest.approx(expected, abs=2e-3 * np.sqrt(variance).min())
    assert deviation == pytest.approx(np.sqrt(variance), rel=2e-3)
    for share in (0.025, 0.5, 0.975):
        places = np.concatenate([found[name].quantile(share) for name in "ax"])
        below = shares @ stats.t(freedom).cdf((places - centres) / spreads)
        assert below == pytest.approx(share, abs=1e-3)
    assert found["a"].mean.sum() == pytest.approx(0, abs=1e-12)
    assert mean_effects(model, 2048)[-1] * design.terms["x"].loadings[0, 0] == pytest.approx(
        mean[-1], rel=1e-9
    )


def test_draws_have_the_means_and_deviations(crossed):
    design, _, model = crossed
    draws = draws_of(model, 20_000, np.random.default_rng(0))
    law = effects_of(model, ["x"], 2048)["x"]
    values = draws.effects[:, -1] * design.terms["x"].loadings[0, 0]
    assert values.mean() == pytest.approx(law.mean[0], abs=4 * law.deviation[0] / 20_000**0.5)
    assert values.std() == pytest.approx(law.deviation[0], rel=0.03)


def test_a_random_block_that_is_eliminated_changes_nothing_else():
    """Level effects with indicators as columns like others."""
    generator = np.random.default_rng(3)
    who, a = np.repeat(range(9), 4), np.tile([0, 1, 1, 0], 9)
    y = a + generator.normal(size=9)[who] + generator.normal(size=36)
    coded = {"a": coded_factor("a", a), "who": coded_factor("who", who, is_random=True)}
    design = design_of({"a": ("a",), "who": ("who",)}, coded, ("who",), Scales())
    plain = {name: term._replace(has_indicators=False) for name, term in design.terms.items()}
    one, other = (
        effects_of(weighed(sums_of(terms, y), ["a", "who"], 1.0), ["a"], 1024)["a"]
        for terms in (design.terms, plain)
    )
    assert one.mean == pytest.approx(other.mean, abs=1e-6)
    assert one.quantile(0.975) == pytest.approx(other.quantile(0.975), abs=1e-6)


def test_quantiles_of_mixtures():
    narrow = Mixture(np.array([1.0]), np.array([[0.0]]), np.array([[1e-3]]), 5.0)
    far = Mixture(np.array([0.5, 0.5]), np.array([[50.0], [-1.0]]), np.array([[2.0], [1.0]]), 5.0)
    both = mixed([(0.7, narrow), (0.3, far)])
    for share in (0.01, 0.2, 0.5, 0.84, 0.86, 0.99):
        place = both.quantile(share)[0]
        law = stats.t(5)
        below = 0.7 * law.cdf(place / 1e-3) + 0.15 * (law.cdf((place - 50) / 2) + law.cdf(place + 1))
        assert below == pytest.approx(share, abs=1e-4)
    assert Mixture(np.array([1.0]), np.zeros((1, 1)), np.ones((1, 1)), 2.0).deviation == np.inf
