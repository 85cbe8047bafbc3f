"""Signs and verdicts of fits: each fault is found, and a calm fit has none."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import evidentia as ev
from evidentia.latent import JALAEM, PGD, SFLA, LatentModel, MomentumPGD
from evidentia.latent.importance import about_the_mode
from evidentia.latent.problem import Problem
from evidentia.latent.stability import largest_curvature
from tests.latent.gaussian import MODEL, THETA0, Y, exact_log_evidence, posterior

STILL = optax.sgd(1e-12)
CALM = JALAEM(num_particles=200, step_size=0.1, optimizer=optax.adam(0.03))


def fit(method, num_steps, model=MODEL, theta0=THETA0, data=Y, **more):
    """A fit whose warnings are its signs."""
    with pytest.warns(ev.DiagnosticWarning) as warned:
        found = method.fit(model, theta0, data=data, num_steps=num_steps, **more)
    assert [str(one.message) for one in warned] == [f"{model.name}: {s}" for s in found.signs.values()]
    assert found.verdict.word == "doubtful"
    return found


def test_a_calm_fit_is_trusted_and_its_error_bar_covers():
    found = CALM.fit(MODEL, THETA0, data=Y, num_steps=100)
    error = found.log_evidence - exact_log_evidence(found.theta)
    assert found.verdict.word == "trusted" and not found.signs and "±" in repr(found)
    assert 0 < found.standard_error < 0.5 and abs(error) < 4 * found.standard_error
    assert found.standard_error >= found.trajectory.standard_error[-1]
    # The second estimate is of 5,000 draws from nearly the posterior.
    second = found.diagnostics["second_estimate"]
    assert second == pytest.approx(exact_log_evidence(found.theta), abs=0.02)


@pytest.mark.slow
def test_the_standard_error_is_the_spread_between_runs():
    """θ follows a given path, half a unit in 25 steps: all error is that of the weights."""
    even_steps = optax.stateless(lambda updates, _: jax.tree.map(lambda leaf: 0 * leaf + 0.02, updates))
    method = JALAEM(num_particles=100, step_size=0.05, optimizer=even_steps)
    known = {"log_evidence0": float(exact_log_evidence(THETA0))}
    errors, stated = [], []
    for seed in range(60):
        start = posterior(jax.random.key(seed), THETA0, 100)
        with ev.errors.quietly():
            found = method.fit(MODEL, THETA0, particles0=start, data=Y, num_steps=25, seed=seed, **known)
        errors.append(found.log_evidence - exact_log_evidence(found.theta))
        stated.append(found.trajectory.standard_error[-1])
    # The standard deviation of 60 errors has a relative error of 9%, and the error bars vary.
    assert np.sqrt(np.mean(np.square(stated))) == pytest.approx(np.std(errors), rel=0.4)
    assert abs(np.mean(errors) + np.var(errors) / 2) < 4 * np.std(errors) / np.sqrt(60)


@pytest.mark.parametrize(("size", "condition"), [(1, 1.0), (2, 10.0), (10, 1e6), (100, 100.0)])
def test_the_curvature_is_the_largest_eigenvalue(size, condition):
    root = np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0]
    values = 7.0 * np.geomspace(1 / condition, 1, size)
    if size == 1:
        values[:] = 7.0
    matrix = jnp.asarray(root * values @ root.T, jnp.float32)
    problem = Problem(LatentModel(lambda theta, x: -0.5 * x @ matrix @ x), jnp.zeros(size), None)
    found = largest_curvature(problem, 0.0, jnp.ones((5, size)), jax.random.key(0))
    assert found == pytest.approx(7.0, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", [PGD(step_size=0.3), MomentumPGD(step_size=0.3), SFLA(step_size=0.3)])
def test_steps_diverge_above_the_stable_curvature_alone(method):
    """One latent variable with the curvature L, whose start is far out."""
    bound = method.stable_curvature(None)

    def last(share):
        model = LatentModel(lambda theta, x: -0.5 * share * bound * x**2 - 0.5 * theta**2)
        with ev.errors.quietly() as unsaid:
            found = method.fit(model, 0.0, particles0=np.full(20, 100.0), num_steps=400)
        assert found.diagnostics["step_share"] == pytest.approx(share, rel=1e-3)
        assert np.isfinite(found.particles).all() or "curvature unknown" in found.signs
        return np.abs(found.particles).max(), [message for message, _ in unsaid]

    (inside, said), (outside, loud) = last(0.97), last(1.03)
    assert inside < 100 and not outside < 100 and "is 0.97 of the largest" in said[0]
    assert "1 times the largest" in loud[0] and "particles diverge" in loud[0]


def test_methods_without_weights_have_a_verdict_on_their_steps():
    calm = PGD(step_size=0.05).fit(MODEL, THETA0, data=Y, num_steps=20)
    assert calm.verdict == ("trusted", "no sign of trouble was found in the steps. There is no log evidence.")
    assert set(calm.diagnostics) == {"step_share"} and np.isnan(calm.standard_error)
    wide = fit(PGD(step_size=0.6), 20)
    # With h L = 1.2 the variance is 1 / (1 - 0.6) times as large.
    assert list(wide.signs) == ["long steps"] and "up to 2.5 times" in wide.signs["long steps"]


@pytest.mark.slow
@pytest.mark.parametrize("order", [3, 8])
def test_the_papers_polynomials_are_right_or_warned_about(order):
    """Its step of 1e-6 from θ₀ = (1, 1) is unstable for order 8."""
    generator = np.random.default_rng(order)
    powers = generator.uniform(-2.5, 2.5, 500)[:, None] ** np.arange(order + 1)
    y = powers @ generator.standard_normal(order + 1) + 7.5 * generator.standard_normal(500)

    def log_joint(theta, x, data):
        squares = jnp.sum((data["y"] - data["powers"] @ x) ** 2)
        own = 0.5 * len(x) * theta[1] - 0.5 * jnp.exp(theta[1]) * x @ x
        return own - 0.5 * (
            500 * theta[0] + squares * jnp.exp(-theta[0]) + (501 + order) * jnp.log(2 * jnp.pi)
        )

    def exact(theta):
        spread = powers @ powers.T * np.exp(-theta[1]) + np.exp(theta[0]) * np.eye(500)
        log_det = np.linalg.slogdet(spread)[1]
        return -0.5 * (y @ np.linalg.solve(spread, y) + log_det + 500 * np.log(2 * np.pi))

    precision = np.e * np.eye(order + 1) + powers.T @ powers / np.e
    mean = np.linalg.solve(precision, powers.T @ y / np.e)
    noise = generator.standard_normal((50, order + 1)) @ np.linalg.inv(np.linalg.cholesky(precision))
    method = JALAEM(num_particles=50, step_size=1e-6, ess_threshold=0.0, optimizer=optax.adam(5e-3))
    data = {"powers": powers.astype(np.float32), "y": y.astype(np.float32)}
    start = {"particles0": (mean + noise).astype(np.float32), "log_evidence0": exact(np.ones(2))}
    with ev.errors.quietly():
        try:
            found = method.fit(LatentModel(log_joint), np.ones(2), data=data, num_steps=200, **start)
        except ev.errors.EstimationError as error:
            found = error.fit
    assert (order == 8) == ("unstable steps" in found.signs)
    right = abs(found.log_evidence - exact(found.theta.astype(float))) < max(0.1, 4 * found.standard_error)
    assert right or found.verdict.word != "trusted"


def test_particles_that_do_not_start_in_the_posterior_are_found():
    prior = np.random.default_rng(0).standard_normal((200, len(Y))).astype(np.float32)
    known = float(exact_log_evidence(THETA0))
    found = fit(CALM, 40, particles0=prior, log_evidence0=known)
    error = abs(found.log_evidence - exact_log_evidence(found.theta))
    assert "second estimate differs" in found.signs and error > 0.2
    assert found.standard_error > error - 0.05


def test_gains_are_compared_where_the_first_log_evidence_is_unknown():
    start = posterior(jax.random.key(0), THETA0, 200)
    found = CALM.fit(MODEL, THETA0, particles0=start, data=Y, num_steps=40)
    gain = exact_log_evidence(found.theta) - exact_log_evidence(THETA0)
    assert np.isnan(found.log_evidence) and found.verdict.word == "trusted"
    assert found.diagnostics["second_estimate"] == pytest.approx(gain, abs=0.03)
    assert abs(found.trajectory.log_evidence_gain[-1] - gain) < 4 * found.standard_error


def test_weights_that_collapse_are_found():
    fast = fit(JALAEM(num_particles=30, step_size=0.1, optimizer=optax.adam(3.0)), 40)
    assert {"ESS collapsed", "few families"} <= set(fast.signs)


def test_a_log_evidence_that_still_rises_is_found():
    slow = fit(JALAEM(step_size=0.1, optimizer=optax.adam(0.02)), 100, theta0=-8.0)
    assert "not converged" in slow.signs and "in the last quarter of the steps" in slow.signs["not converged"]


@pytest.mark.slow
def test_several_modes_of_the_latent_variables_are_found():
    """y ~ N(x², 1) with y = 9: two modes of the same mass, of which the particles see one."""

    def log_joint(theta, x, data):
        return -0.5 * jnp.sum((data - x**2) ** 2 + (x * jnp.exp(-theta)) ** 2) - theta

    model = LatentModel(log_joint, sample_prior=lambda key, theta, data: 3 * jax.random.normal(key, (1,)))
    method = JALAEM(step_size=0.002, optimizer=STILL)
    found = fit(method, 20, model=model, theta0=1.0, data=np.array([9.0], np.float32))
    assert "at least 2 modes" in found.signs["several modes"]


def test_a_long_valley_is_one_mode():
    """Searches in it end apart in float32, as the log density hardly differs along it."""

    def log_joint(theta, x, data=None):
        scales = 10.0 ** jnp.arange(0, 4)
        return 1e3 - 0.5 * jnp.sum((scales * jnp.cumsum(x)) ** 2) - 0.5 * theta**2

    problem = Problem(LatentModel(log_joint), jnp.zeros(4), None)
    starts = 3 * jax.random.normal(jax.random.key(0), (8, 4))
    sample = about_the_mode(problem, jnp.zeros(()), starts, jax.random.key(1))
    assert sample is not None and sample.num_modes == 1
    # The determinant of the precision is 10 ** 12.
    exact = 1e3 + 2 * np.log(2 * np.pi) - 6 * np.log(10)
    assert sample.log_evidence()[0] == pytest.approx(exact, abs=0.1)


def test_a_posterior_that_cannot_be_checked_is_doubtful():
    """A funnel's neck: importance sampling about any mode misses the rest."""

    def log_joint(theta, x, data=None):
        return -0.5 * ((x[0] / 3) ** 2 + jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) + 9 * x[0] + theta**2)

    generator = np.random.default_rng(0)
    neck = 3 * generator.standard_normal(100)
    others = np.exp(0.5 * neck)[:, None] * generator.standard_normal((100, 9))
    start = np.column_stack([neck, others]).astype(np.float32)
    with ev.errors.quietly():
        found = JALAEM(step_size=1e-4, optimizer=STILL).fit(
            LatentModel(log_joint), 0.0, particles0=start, log_evidence0=0.0, num_steps=20
        )
    assert "unchecked" in found.signs and found.verdict.word == "doubtful"


def test_a_fit_that_was_stopped_is_doubtful():
    def stop(update):
        raise KeyboardInterrupt

    with pytest.warns(ev.EvidenceWarning, match="stopped after"):
        stopped = CALM.fit(MODEL, THETA0, data=Y, num_steps=100, progress=stop)
    assert stopped.verdict == ("doubtful", "the run was stopped after 5 steps.")


@pytest.mark.slow
@pytest.mark.parametrize("friction", [1.0, 100.0])
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
def test_momentum_with_large_friction_has_particles_that_are_too_narrow(friction):
    """Short steps leave the variance of the posterior times (1 + e^{-γh}) / 2."""
    method = MomentumPGD(num_particles=4000, step_size=0.05, friction=friction, optimizer=STILL)
    found = method.fit(MODEL, THETA0, data=Y, num_steps=2000)
    assert ("narrow particles" in found.signs) == (friction > 1.0)
    variance = np.var(np.asarray(found.particles), axis=0) / 0.5
    assert variance == pytest.approx(
        method.variance_of_short_steps, abs=0.12
    )  # five errors of 4,000 particles
