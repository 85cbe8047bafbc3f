"""Every method against the exact maximiser, and JALA-EM against the exact log evidence."""

from dataclasses import replace

import jax
import numpy as np
import optax
import pytest

import evidentia as ev
from evidentia.latent import IPLA, JALAEM, PGD, SFLA, SOUL, LatentModel, MomentumPGD
from tests.latent.gaussian import MODEL, THETA0, Y, exact_log_evidence, posterior

MAXIMISER = Y.mean()
METHODS = {
    "JALA-EM": (JALAEM(step_size=0.05), 300),
    "PGD": (PGD(step_size=0.05), 300),
    "SOUL": (SOUL(num_particles=50, step_size=0.05), 300),
    "IPLA": (IPLA(step_size=0.05), 300),
    "SFLA": (SFLA(num_particles=5, step_size=0.1, inverse_temperature=100), 1500),
    "momentum": (MomentumPGD(step_size=0.2), 300),
}


def fits(method, num_steps, seeds, **more):
    return [method.fit(MODEL, THETA0, data=Y, num_steps=num_steps, seed=seed, **more) for seed in seeds]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_theta_settles_at_the_maximiser_of_the_marginal_likelihood(name):
    """Langevin means are exact on a Gaussian, so the second half of θ's path is unbiased."""
    method, num_steps = METHODS[name]
    found = np.array(
        [fit.trajectory.theta[num_steps // 2 :].mean() for fit in fits(method, num_steps, range(6))]
    )
    assert abs(found.mean() - MAXIMISER) < 4 * found.std(ddof=1) / np.sqrt(6) and found.std() < 0.15, found


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore::evidentia.errors.DiagnosticWarning")
def test_the_log_evidence_of_jala_em_is_exact_all_along_with_large_steps():
    """With h = 0.8 posterior variances, plain Langevin particles are wider by 1 / (1 - 0.4)."""
    method = JALAEM(num_particles=400, step_size=0.4, optimizer=optax.adam(0.05))
    found = fits(method, 40, range(12))
    errors = np.array(
        [fit.trajectory.log_evidence - exact_log_evidence(fit.trajectory.theta) for fit in found]
    )
    ratios = np.exp(errors[:, ::10])
    assert np.all(np.abs(ratios.mean(0) - 1) < 4 * ratios.std(0, ddof=1) / np.sqrt(12)) and ratios.std() < 0.5
    centres = [(fit.theta + Y) / 2 for fit in found]
    variances = [
        np.exp(fit.log_weights) @ np.mean((fit.particles - centre) ** 2, axis=1)
        for fit, centre in zip(found, centres, strict=True)
    ]
    assert abs(np.mean(variances) - 0.5) < 4 * np.std(variances, ddof=1) / np.sqrt(12)
    plain = PGD(num_particles=400, step_size=0.4).fit(MODEL, MAXIMISER, data=Y, num_steps=40)
    assert np.mean((plain.particles - (plain.theta + Y) / 2) ** 2) > 0.7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.errors.DiagnosticWarning")
def test_with_metropolis_long_steps_of_the_particles_cost_no_effective_sample_size():
    """θ rises from 0 to 1; h is 0.8 posterior variances, half of the way to divergence."""
    wide = {"num_particles": 400, "step_size": 0.4, "optimizer": optax.adam(0.05), "ess_threshold": 0.0}
    plain = fits(JALAEM(**wide), 40, range(2))
    found = fits(JALAEM(**wide, metropolis=True), 40, range(8))
    errors = np.array(
        [fit.trajectory.log_evidence - exact_log_evidence(fit.trajectory.theta) for fit in found]
    )
    ratios = np.exp(errors[:, ::10])
    assert np.all(np.abs(ratios.mean(0) - 1) < 4 * ratios.std(0, ddof=1) / np.sqrt(8))
    assert max(fit.trajectory.ess.min() for fit in plain) < 0.3
    assert min(fit.trajectory.ess.min() for fit in found) > 0.5
    variances = [
        np.exp(fit.log_weights) @ np.mean((fit.particles - (fit.theta + Y) / 2) ** 2, axis=1) for fit in found
    ]
    assert abs(np.mean(variances) - 0.5) < 4 * np.std(variances, ddof=1) / np.sqrt(8)


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore::evidentia.errors.DiagnosticWarning")
def test_steps_that_are_far_too_long_are_cut_where_weights_ask_for_it():
    """θ jumps by one per step, and the particles by twice their posterior variance."""
    wild = {"num_particles": 400, "step_size": 1.0, "optimizer": optax.adam(1.0)}
    plain, tame = (fits(JALAEM(**wild, **more), 60, [0])[0] for more in ({}, {"target_ess": 0.9}))
    errors = [
        np.abs(fit.trajectory.log_evidence - exact_log_evidence(fit.trajectory.theta)).max()
        for fit in (plain, tame)
    ]
    # Resampled below an ESS of a half, of which a step may lose a tenth for θ and about as much
    # for the particles.
    assert np.median(plain.trajectory.ess) < 0.05 and tame.trajectory.ess.min() > 0.2
    assert errors[0] > 50 and errors[1] < 0.5 and abs(tame.trajectory.theta[30:].mean() - MAXIMISER) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("target_ess", [None, 0.8])
@pytest.mark.filterwarnings("ignore::evidentia.errors.DiagnosticWarning")
def test_particles_that_leave_where_there_is_a_density_are_lost_alone(target_ess):
    """Steps from near zero end below it, where log x is NaN; a user may write such a model."""

    def log_joint(theta, x):  # x ~ Gamma(1 + e^θ, 1), whose gradient with respect to θ is NaN there too
        shape = jax.numpy.exp(theta)
        return shape * jax.numpy.log(x) - x - jax.scipy.special.gammaln(shape + 1)

    model = LatentModel(log_joint)
    start = np.random.default_rng(0).gamma(2.0, 1.0, 400).astype(np.float32)
    method = JALAEM(step_size=0.1, target_ess=target_ess, ess_threshold=0.3)
    found = [method.fit(model, 0.0, particles0=start, num_steps=10, seed=seed) for seed in range(4)]
    assert any(np.any(fit.log_weights == -np.inf) for fit in found)
    assert all(
        np.isfinite(fit.theta) and np.isfinite(fit.trajectory.log_evidence_gain).all() for fit in found
    )


@pytest.mark.slow
def test_the_log_evidence_begins_with_importance_sampling_or_with_what_is_known():
    sampled, known = fits(METHODS["JALA-EM"][0], 2, [0])[0], exact_log_evidence(THETA0)
    assert sampled.trajectory.log_evidence[0] == pytest.approx(known, abs=0.05)  # 5,000 draws
    start = posterior(jax.random.key(0), THETA0, 50)
    given, without = (
        fits(METHODS["JALA-EM"][0], 2, [0], particles0=start, log_evidence0=value)[0]
        for value in (float(known), None)
    )
    assert given.trajectory.log_evidence[0] == pytest.approx(known)
    assert np.isnan(without.log_evidence) and np.isfinite(without.trajectory.log_evidence_gain).all()
    assert given.particles.shape == (50, 6) and np.exp(given.log_weights).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_the_same_seed_repeats_and_another_differs():
    method, num_steps = METHODS["JALA-EM"]
    first, second, other = fits(method, num_steps, [1, 1, 2])
    assert first.log_evidence == second.log_evidence != other.log_evidence
    assert len(first.trajectory) == num_steps + 1 and first.num_steps == num_steps and first.completed


@pytest.mark.slow
def test_theta_stays_in_its_box_and_gradients_can_be_normalised():
    inside = fits(PGD(step_size=0.05, bounds=(-1.0, 0.25)), 100, [0])[0]
    assert inside.theta == 0.25 and np.all(inside.trajectory.theta <= 0.25)
    even = fits(PGD(step_size=0.05, normalise_gradient=True), 5, [0])[0]
    np.testing.assert_allclose(np.abs(np.diff(even.trajectory.theta)), 0.05, rtol=1e-4)


@pytest.mark.slow
def test_it_stops_where_theta_stands_still_and_at_ctrl_c():
    still = fits(PGD(num_particles=500, step_size=0.1, tolerance=0.02), 1000, [0])[0]
    assert still.num_steps < 1000 and still.completed and abs(still.theta - MAXIMISER) < 0.1

    def stop(update):
        raise KeyboardInterrupt

    with pytest.warns(ev.EvidenceWarning, match="stopped after 5 of 100 steps"):
        stopped = fits(METHODS["JALA-EM"][0], 100, [0], progress=stop)[0]
    assert not stopped.completed and len(stopped.trajectory) == 6


@pytest.mark.slow
def test_an_error_half_way_hands_out_the_steps_before():
    with pytest.raises(ev.errors.EstimationError, match="left the finite range") as raised:
        fits(PGD(step_size=3.0), 400, [0])
    before = raised.value.fit
    assert 0 < before.num_steps < 400 and before.num_steps % 20 == 0 and not before.completed
    assert len(before.trajectory) == before.num_steps + 1 and np.isfinite(before.trajectory.theta).all()


@pytest.mark.parametrize("kind", [JALAEM, PGD, SOUL, IPLA, SFLA, MomentumPGD])
def test_a_replaced_step_size_changes_the_step_of_theta(kind):
    def step(method):
        optimizer = method.transformation
        return float(optimizer.update(1.0, optimizer.init(0.0))[0])

    short, long = kind(step_size=0.01), kind(step_size=0.1)
    assert step(replace(long, step_size=0.01)) == step(short) > step(long)
    assert replace(short, num_particles=7).num_particles == 7


@pytest.mark.parametrize(("kind", "num_particles"), [(PGD, 100), (SOUL, 30)])
@pytest.mark.reference
def test_mini_batches_of_the_joint_are_right_on_average(kind, num_particles):
    """One latent mean for 500 rows: y_i ~ N(x, 1), x ~ N(θ, 1), so θ* is the mean of the rows."""
    rows = np.random.default_rng(1).normal(2.0, 1.0, 500).astype(np.float32)

    def log_prior(theta, x, data):
        return -0.5 * (x - theta) ** 2

    def log_joint(theta, x, data):
        return log_prior(theta, x, data) - 0.5 * ((data - x) ** 2).sum()

    model = LatentModel(log_joint, log_prior, lambda key, theta, data: theta + jax.random.normal(key))
    method = kind(num_particles=num_particles, step_size=1e-3, batch_size=64, optimizer=optax.sgd(0.05))
    found = [method.fit(model, 0.0, data=rows, num_steps=400, seed=seed) for seed in range(5)]
    settled = np.array([np.mean(fit.trajectory.theta[200:]) for fit in found])
    assert abs(settled.mean() - rows.mean()) < 4 * settled.std(ddof=1) / np.sqrt(5), settled
    assert settled.std() < 0.05


def test_bounds_are_numbers_of_any_kind_or_like_theta():
    by_number = PGD(bounds=(-1.0, 0.25)).fit(MODEL, THETA0, data=Y, num_steps=5)
    by_array = PGD(bounds=(np.float32(-1.0), np.array(0.25))).fit(MODEL, THETA0, data=Y, num_steps=5)
    assert by_number.theta == by_array.theta
    with pytest.raises(ev.ConfigurationError, match="bounds must hold numbers, or pytrees like theta0"):
        PGD(bounds=({"other": 0.0}, 1.0)).fit(MODEL, THETA0, data=Y, num_steps=5)
