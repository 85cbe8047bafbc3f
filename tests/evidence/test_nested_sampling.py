"""Nested sampling against exact evidences, its posterior and information, what stops it, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.kernels import ConstrainedWalk, ReflectingSGHMC, Rejection
from evidentia.rows import Rows
from tests.evidence.test_analytic_truths import CASES

FEW = ev.NestedSampling(num_particles=64)


def run(method, model, data, seed=0):
    """The last snapshot, without the rest of `estimate`."""
    rows = Rows(jax.tree.map(jnp.asarray, data), 0, len(data["y"]))
    return list(method.run(model.bind(data), rows, jax.random.key(seed)))[-1]


def scores(method, case, size, seeds):
    data = case.simulate(np.random.default_rng(size), size)
    runs = [run(method, case.explicit, data, seed) for seed in seeds]
    return np.array([(end.log_evidence - case.exact(data)) / end.standard_error for end in runs])


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_exact_evidence(name):
    for size in (20, 300, 2000):
        found = scores(FEW, CASES[name], size, range(4))
        # As for SGAIS: a mean beyond 4/√seeds or one beyond 4.5 happens by chance once in 10⁴ cases.
        assert np.all(np.abs(found) < 4.5) and abs(found.mean()) < 4 / np.sqrt(4), (size, found)


@pytest.mark.parametrize("quadrature", ["rectangle", "trapezoid"])
@pytest.mark.parametrize("shrinkage", ["geometric", "arithmetic"])
def test_every_quadrature_and_shrinkage_agrees(quadrature, shrinkage):
    method = ev.NestedSampling(num_particles=64, quadrature=quadrature, shrinkage=shrinkage)
    found = scores(method, CASES["linear"], 100, range(4))
    assert np.all(np.abs(found) < 4.5) and abs(found.mean()) < 4 / np.sqrt(4), found


def test_rejection_reflection_and_walk_agree_on_a_mixture():
    model = ev.models.gaussian_mixture(num_components=3, num_features=1)
    data, _ = model.simulate(20, 5)
    kernels = ReflectingSGHMC(), ConstrainedWalk(), Rejection()
    # Rejection takes long at the end, so all stop early: the live points then hold up to a tenth of the evidence.
    methods = [
        ev.NestedSampling(num_particles=count, kernel=kernel, remaining=0.1)
        for count, kernel in zip((64, 64, 4), kernels, strict=True)
    ]
    means, variances = zip(
        *[
            (
                np.mean([end.log_evidence for end in ends]),
                np.mean([end.standard_error**2 for end in ends]) / 4,
            )
            for ends in ([run(method, model, data, seed) for seed in range(4)] for method in methods)
        ],
        strict=True,
    )
    for other in (0, 1):
        assert abs(means[other] - means[2]) < 4 * np.sqrt(variances[other] + variances[2])


def test_the_posterior_and_the_information_are_those_of_conjugate_regression():
    model = CASES["linear"].explicit
    data = CASES["linear"].simulate(np.random.default_rng(0), 200)
    evidence = ev.estimate(model, data, method=ev.NestedSampling(num_particles=256))
    design = np.c_[data["x"].astype(float), np.ones(200)]
    precision = design.T @ design + np.eye(4)
    mean, covariance = np.linalg.solve(precision, design.T @ data["y"]), np.linalg.inv(precision)
    weights = np.exp(evidence.log_weights)
    assert weights.sum() == pytest.approx(1.0)
    effective = 1 / np.sum(weights**2)
    assert effective > 256
    draws = np.c_[evidence.posterior["weights"], evidence.posterior["intercept"]]
    spread = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(weights @ draws - mean) < 4 * spread / np.sqrt(effective))
    # Kullback and Leibler's divergence of N(mean, covariance) from N(0, 1); its estimate moves with log Z.
    information = 0.5 * (np.trace(covariance) + mean @ mean - 4 + np.linalg.slogdet(precision)[1])
    assert evidence.diagnostics["information"] == pytest.approx(information, abs=4 * evidence.standard_error)
    assert evidence.standard_error == pytest.approx(np.sqrt(information / 256), rel=0.1)
    assert evidence.num_observations == 200 and evidence.completed


def test_published_has_the_published_settings_and_the_error_of_two_live_points():
    method = ev.NestedSampling.published()
    assert (method.num_particles, method.shrinkage, method.remaining) == (2, "geometric", 0.01)
    assert method.kernel == ReflectingSGHMC(num_steps=20, friction=0.1, learning_rate=1e-3)
    found = scores(method, CASES["linear"], 50, range(8))
    # With two live points whose copies are alike: over 40 data sets scores have a mean of -0.5 and a spread of 1.4.
    assert np.all(np.abs(found) < 7) and abs(found.mean()) < 0.5 + 4 * 1.4 / np.sqrt(8), found


def test_two_live_points_suffice_for_steps_that_follow_the_region():
    found = scores(ev.NestedSampling(num_particles=2), CASES["linear"], 300, range(8))
    assert abs(found.mean()) < 4 * 1.25 / np.sqrt(8), (
        found
    )  # the spread of 1.25 is that of 12 runs with 1000 rows


def narrow(params, batch):
    """Far narrower than a step of the published kernel: a normal with a standard deviation of 10⁻⁵."""
    return jnp.sum(dist.Normal(params["m"], 1e-5).log_prob(0.3), axis=-1) + 0 * batch["y"]


def test_a_region_too_small_for_the_kernel_is_said():
    model = ev.Model(prior={"m": dist.Normal(0.0, 1.0).expand([3]).to_event(1)}, log_likelihood=narrow)
    data = {"y": np.zeros(10, np.float32)}
    method = ev.NestedSampling(num_particles=16, kernel=ReflectingSGHMC(learning_rate=1e-3))
    with pytest.warns(ev.DiagnosticWarning, match="shrunk below what ReflectingSGHMC can enter.*without a"):
        evidence = ev.estimate(model, data, method=method)
    assert evidence.diagnostics["warnings"] == "region too small" and np.isfinite(evidence.log_evidence)
    with pytest.warns(ev.DiagnosticWarning, match="shrunk below what Rejection can enter"):
        ev.estimate(model, data, method=ev.NestedSampling(num_particles=16, kernel=Rejection(max_draws=1000)))


@pytest.mark.parametrize("level", [-2.0, -np.inf])
def test_plateaus_do_not_stop_it(level):
    # L = 1 for m > 1 and e^level elsewhere: Z = P(m > 1) + e^level P(m < 1).
    model = ev.Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.where(params["m"] > 1, 0.0, level) + 0 * batch["y"],
    )
    data = {"y": np.zeros(1, np.float32)}
    exact = np.log(0.158655 + np.exp(level) * 0.841345)
    ends = [run(FEW, model, data, seed) for seed in range(4)]
    errors = np.array([end.log_evidence for end in ends]) - exact
    # With L = 1 at the top, the information is at most -log Z.
    assert np.all(np.abs(errors) < 4.5 * np.sqrt(-exact / 64))


def test_snapshots_say_how_far_it_is():
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 100)
    rows = Rows(jax.tree.map(jnp.asarray, data), 0, 100)
    snapshots = list(FEW.run(case.explicit.bind(data), rows, jax.random.key(0)))
    shares = [snapshot.share_done for snapshot in snapshots]
    assert all(0 <= share <= 1 for share in shares) and shares[-1] > 0.99 > shares[0]
    assert all(np.isfinite(snapshot.log_evidence) for snapshot in snapshots)
    assert {snapshot.num_observations for snapshot in snapshots} == {100}


def test_the_same_seed_repeats_and_another_differs():
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 100)
    first, again, other = (run(FEW, case.explicit, data, seed).log_evidence for seed in (3, 3, 4))
    assert first == again != other


def test_impossible_data_are_an_error():
    model = ev.Model(
        prior={"m": dist.Uniform(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.where(batch["y"] < params["m"], 0.0, -jnp.inf),
    )
    with pytest.raises(ev.EstimationError, match=r"rows 0 to 9 is -inf at all 64 live points.*Widen the pr"):
        ev.estimate(model, {"y": np.full(10, 2.0)}, method=FEW)


def test_nan_is_an_error():
    model = ev.Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.log(params["m"]) * batch["y"],
    )
    with pytest.raises(ev.EstimationError, match=r"rows 0 to 9 is NaN or \+inf at \d+ of 64 live points"):
        ev.estimate(model, {"y": np.ones(10)}, method=FEW)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_particles": 1}, r"num_particles must be an integer of at least 2; got 1\."),
        ({"quadrature": "simpson"}, r"quadrature must be 'rectangle' or 'trapezoid'; got 'simpson'\."),
        ({"shrinkage": "half"}, r"shrinkage must be 'geometric' or 'arithmetic'; got 'half'\."),
        ({"remaining": 0.0}, r"remaining is a share of the evidence between 0 and 1; got 0\.0\."),
    ],
)
def test_impossible_configurations_are_refused(fields, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.NestedSampling(**fields)
