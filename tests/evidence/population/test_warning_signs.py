"""Diagnostics: each sign with a case that triggers it, and healthy runs without signs."""

import math
import re
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.method import Estimate
from evidentia.evidence.population.chunks import ChunkInfo, Redraw
from evidentia.evidence.population.moves import StepInfo
from evidentia.evidence.population.particles import Population
from evidentia.evidence.population.warning_signs import (
    compare_runs,
    compare_with_path,
    contradict_path,
    diagnose_drift,
    height_spread,
    measure,
    measure_redraw,
    signs_of_draws,
    signs_of_path,
)
from evidentia.kernels import BAOAB
from evidentia.posterior.gradients import MiniBatch
from evidentia.posterior.rows import Window

MODEL = ev.models.linear_regression(num_features=3)
MANY, _ = MODEL.simulate(20_000, 0)
DATA, _ = MODEL.simulate(2000, 0)


def warnings_of(method, data=DATA, model=MODEL):
    with pytest.warns(ev.DiagnosticWarning) as caught:
        evidence = ev.estimate(model, data, method=method, in_order=True)
    return evidence.diagnostics["warnings"], " ".join(str(warning.message) for warning in caught)


def diagnosed(model, data, method, seed):
    """The evidence, which may have signs, and the text of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ev.DiagnosticWarning)
        evidence = ev.estimate(model, data, method=method, seed=seed)
    return evidence, " ".join(str(warning.message) for warning in caught)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [ev.SGAIS(), pytest.param(ev.SGAIS(refresh=False), marks=pytest.mark.reference)]
)
def test_a_healthy_run_is_silent(method):
    evidence = ev.estimate(MODEL, MANY, method=method)  # warnings are errors in the tests
    assert evidence.diagnostics["warnings"] == ""


@pytest.mark.slow
def test_moves_that_do_not_decorrelate():
    names, message = warnings_of(
        ev.SGAIS(refresh=False, exact_kernel=None, kernel=BAOAB(step_size=0.1, num_steps=1))
    )
    assert "moves do not decorrelate" in names
    assert re.search(
        r"linear regression: the lag-one autocorrelation of a move is (0\.9|1\.0).*num_steps", message
    )


@pytest.mark.slow
def test_mini_batch_noise():
    names, message = warnings_of(ev.SGAIS(refresh=False, gradient=MiniBatch(batch_size=20)))
    assert "mini-batch noise" in names
    assert "times the noise that the kernel adds" in message and "batch_size" in message


@pytest.mark.slow
def test_collapsed_ess():
    # As published, weights accumulate without resampling until one particle has all the weight.
    names, message = warnings_of(replace(ev.SGAIS.published(), num_particles=50))
    assert "ESS collapsed" in names and "% of the particles" in message and "resample=True" in message


@pytest.mark.parametrize(("spread", "is_sign"), [(math.nan, False), (2.9, False), (3.1, True)])
def test_heights_that_spread_three_times_as_much_as_a_gaussian_s_are_a_sign(spread, is_sign):
    # The next test provokes the sign; another checks that heights are measured right.
    signs = signs_of_path(measure([], spread))
    assert list(signs) == ["modes of different height"] * is_sign
    assert all("other seeds" in sentence for sentence in signs.values())


@pytest.mark.reference
def test_modes_of_different_height():
    # Particles stay in the modes that they found at 500 rows. At 2,000 rows, 20 seeds differ by up
    # to 11 nats, with standard errors of 0.5; 10 of them have the sign.
    model = ev.models.gaussian_mixture(num_components=3, num_features=1)
    data, _ = model.simulate(2000, 3)
    method = ev.SGAIS(num_particles=64, exact_kernel=None, refresh=False)
    warned = []
    for seed in range(8):
        evidence, messages = diagnosed(model, data, method, seed)
        has_spread = evidence.diagnostics["height_spread"] > 3
        assert ("modes of different height" in evidence.diagnostics["warnings"]) == has_spread
        warned += [messages] * has_spread
    assert warned
    assert all("log posterior density varies" in message and "other seeds" in message for message in warned)


@pytest.mark.parametrize(("shape", "is_heavy"), [(math.nan, False), (0.69, False), (0.71, True)])
def test_the_largest_weights_are_heavy_above_a_pareto_shape_of_0_7(shape, is_heavy):
    # NaN: one draw per particle was enough, and no shape was fitted.
    assert list(signs_of_draws(measure_redraw(Redraw(pareto_shape=shape)))) == ["heavy weights"] * is_heavy


@pytest.mark.parametrize(("effective", "is_poor"), [(math.nan, False), (0.05, False), (0.03, True)])
def test_a_proposal_is_poor_if_few_of_its_draws_are_effective(effective, is_poor):
    found = signs_of_draws(measure_redraw(Redraw(effective=effective)))
    assert list(found) == ["poor proposal"] * is_poor
    assert all("3.0% are effective" in sentence for sentence in found.values())


@pytest.mark.slow
def test_heavy_weights():
    # The posterior of the slope falls as its Cauchy prior does, and a Student t does not.
    model = ev.Model(
        {"slope": dist.Cauchy(0.0, 1.0)},
        lambda params, batch: dist.Bernoulli(logits=params["slope"] * batch["x"]).log_prob(batch["y"]),
    )
    x = np.random.default_rng(0).standard_normal(20).astype(np.float32)
    data = {"x": x, "y": (x > 0).astype(np.float32)}
    found = [diagnosed(model, data, ev.SGAIS(), seed) for seed in range(2, 10)]  # a third has the sign
    messages = [message for evidence, message in found if evidence.diagnostics["warnings"] == "heavy weights"]
    assert messages and all("Pareto shape of" in each and "refresh=False" in each for each in messages)


def test_the_heights_of_a_gaussian_spread_as_they_should():
    bound, rows = MODEL.bind(DATA), Window(jax.tree.map(jnp.asarray, DATA), 0, 2000)
    design = np.c_[DATA["x"], np.ones(2000)].astype(float)
    covariance = np.linalg.inv(design.T @ design + np.eye(4))
    normal = np.random.default_rng(0).multivariate_normal(covariance @ design.T @ DATA["y"], covariance, 512)
    population = Population(jax.random.key(0), jnp.asarray(normal, jnp.float32), np.zeros(512))
    # The deviation of 32 draws of a χ² with 4 degrees of freedom varies by a quarter.
    assert 0.3 < height_spread(bound, rows, population) < 2.0
    stuck = population._replace(positions=population.positions.at[:50].add(0.1))
    assert height_spread(bound, rows, stuck) > 5


@pytest.mark.slow
def test_shares_of_the_variance_add_up_to_one():
    for method, start in ((ev.SGAIS(), "last_refresh"), (ev.SGAIS(refresh=False), "first_chunk")):
        diagnostics = ev.estimate(MODEL, MANY, method=method).diagnostics
        share = diagnostics[f"variance_share_{start}"]
        assert 0 < share <= 1
        assert share + diagnostics["variance_share_later_chunks"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("path", "redraw", "correlation", "effective", "is_sign"),
    [
        ((-10.0, 0.1), (-10.2, 0.01), 0.1, 0.1, False),
        ((-10.0, 0.1), (-9.0, 0.01), 0.1, 0.6, False),  # the path has missed a part that was found
        ((-10.0, 0.1), (-9.0, 0.01), 0.1, 0.4, True),
        ((-10.0, 0.1), (-11.0, 0.01), 0.1, 0.6, True),  # the redraw misses a part
        ((-10.0, 0.9), (-9.9, 0.01), 0.1, 0.1, True),  # the path knows too little
        ((-10.0, 0.9), (-9.9, 0.01), 0.1, 0.6, False),
        ((-10.0, 0.1), (-10.2, 0.01), 0.9, 0.1, True),  # its particles have not moved
        ((-10.0, 0.1), (-10.2, 0.01), 0.9, 0.6, False),
        ((-10.0, 0.0), (-10.0, 0.0), math.nan, 0.6, False),
    ],
)
def test_a_path_and_the_redraw_from_its_particles_must_agree(path, redraw, correlation, effective, is_sign):
    estimates = (Estimate(raw, error**2) for raw, error in (path, redraw))
    found = compare_with_path(ChunkInfo([StepInfo(0.5, correlation)], *estimates), effective=effective)
    assert ("path contradicts" in found.signs) == is_sign
    assert found.measured["path_error"] == pytest.approx(path[1])


@pytest.mark.parametrize(
    ("draws", "is_sign"),
    [((-9.0, 0.3), True), ((-9.5, 0.3), False), ((-15.0, 0.3), False), ((-10.0, 0.0), False)],
)
def test_draws_that_are_not_used_contradict_a_path_if_they_have_more_evidence(draws, is_sign):
    path, attempt = (Estimate(raw, error**2) for raw, error in ((-10.0, 0.0), draws))
    found = contradict_path(path, attempt)
    assert list(found.signs) == ["path contradicts"] * is_sign
    assert all("not used, have -9.0 ± 0.3" in sentence for sentence in found.signs.values())


@pytest.mark.parametrize(("error", "is_sign"), [(0.8, True), (0.6, False), (math.nan, False)])
def test_runs_that_differ_are_a_sign(error, is_sign):
    found = compare_runs(Estimate(-10.0, error**2))
    assert list(found.signs) == ["runs differ"] * is_sign
    assert all("(-10.0 ± 0.8)" in sentence for sentence in found.signs.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 6))
def test_a_funnel_whose_neck_is_not_reached_has_a_sign(seed):
    # Half of the scales are below a fifth of the prior's deviation of x, too small for moves.
    model = ev.Model(
        {"log_variance": dist.Normal(0, 2), "x": dist.Normal(0, 5).expand([6]).to_event(1)},
        lambda params, y: (
            dist.Normal(0, jnp.exp(params["log_variance"] / 2)).log_prob(params["x"]).sum() + 0 * y
        ),
    )
    # Given the variance, each x has a normal density of variance exp(·) + 25 at zero.
    variances = np.exp(np.linspace(-14, 14, 2001)) + 25
    prior = np.exp(-0.5 * (np.linspace(-14, 14, 2001) / 2) ** 2)
    truth = np.log(np.average((2 * np.pi * variances) ** -3, weights=prior))
    evidence, _ = diagnosed(model, np.zeros(1, np.float32), ev.SGAIS(), seed)
    assert evidence.log_evidence < truth
    assert {"path contradicts", "poor proposal"} & set(evidence.signs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(7, 12))  # with the first two, a component of a fit is a point
def test_particles_that_do_not_move_through_a_banana_are_a_sign(seed):
    bend, width = 0.55, 0.04

    def on_bananas(params, y):
        first, second = params["x"][::2], params["x"][1::2]
        straight = dist.Normal(bend * (first**2 - 1), width).log_prob(second)
        return dist.Normal(0, 1).log_prob(first).sum() + straight.sum() + 0 * y

    model = ev.Model({"x": dist.Uniform(-20, 20).expand([6]).to_event(1)}, on_bananas)
    evidence, _ = diagnosed(model, np.zeros(1, np.float32), ev.SGAIS(), seed)
    is_right = abs(evidence.log_evidence + 6 * np.log(40)) < max(0.1, 4 * evidence.standard_error)
    assert is_right or {"path contradicts", "moves do not decorrelate"} & set(evidence.signs)


@pytest.mark.parametrize(
    ("drift", "error", "is_sign"),
    [(0.25, 0.1, False), (0.35, 0.1, True), (-0.35, 0.1, True), (0.05, 0.001, False)],
)
def test_a_drift_is_a_sign_from_four_standard_errors_and_a_tenth_of_a_nat_on(drift, error, is_sign):
    # Over two steps, the drift is twice and its error √2 times that of one.
    found = diagnose_drift([StepInfo(0.5, drift=drift, drift_variance=error**2)] * 2)
    assert found.measured["drift"] == pytest.approx(2 * drift)
    assert list(found.signs) == ["moves drift"] * is_sign


def test_without_chains_there_is_no_drift():
    found = diagnose_drift([StepInfo(0.5)])
    assert math.isnan(found.measured["drift"]) and not found.signs
