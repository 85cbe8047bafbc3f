"""JALA: unbiased for any step size, on a path of potentials, as a method, and as a move of SMC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, EstimationError
from evidentia.kernels import ULA
from tests.evidence.scores import fresh_scores
from tests.evidence.test_analytic_truths import CASES

LARGE = 0.35  # 1.4 times the variance of the narrow end, where Langevin steps are stable up to 2
NUM_STEPS, MEAN, PRECISION = 20, 1.0, 4.0


def narrowing(k, x):
    """From N(0, 1) to N(1, 1/4) over the steps, without constants."""
    share = k / NUM_STEPS
    precision = (1 - share) + share * PRECISION
    return 0.5 * precision * (x - share * MEAN) ** 2


def end_of_path(seed, ess_threshold):
    start = jax.random.normal(jax.random.key(1000 + seed), (500,))
    method = ev.Jarzynski(step_size=LARGE, ess_threshold=ess_threshold)
    return method.sample(narrowing, start, num_steps=NUM_STEPS, seed=seed)


@pytest.mark.reference
@pytest.mark.parametrize("ess_threshold", [0.0, 0.5])
def test_a_path_with_large_steps_is_right_on_average_where_plain_steps_are_not(ess_threshold):
    paths = [end_of_path(seed, ess_threshold) for seed in range(40)]
    ratios = np.exp([path.log_evidence[-1] + 0.5 * np.log(PRECISION) for path in paths])
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(40) and ratios.std() < 0.5
    variances = [np.exp(path.log_weights) @ np.square(path.particles - MEAN) for path in paths]
    assert abs(np.mean(variances) - 1 / PRECISION) < 4 * np.std(variances) / np.sqrt(40)
    if not ess_threshold:  # without resampling, particles stay too wide, by 1 / (1 - h/2 · 4) at the end
        plain = np.mean([np.mean(np.square(path.particles - MEAN)) for path in paths])
        assert plain > 2 / PRECISION


@pytest.mark.reference
def test_a_path_keeps_the_structure_of_its_particles_and_says_how_it_went():
    start = {"a": jnp.zeros((50, 2)), "b": jnp.zeros(50)}
    path = ev.Jarzynski(step_size=0.1).sample(
        lambda k, x: jnp.sum(x["a"] ** 2) + x["b"] ** 2, start, num_steps=5
    )
    assert path.particles["a"].shape == (50, 2) and path.particles["b"].shape == (50,)
    assert path.log_evidence.shape == path.ess.shape == (6,) and path.log_evidence[0] == 0
    assert np.exp(path.log_weights).sum() == pytest.approx(1) and np.all(path.ess <= 1.0001)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["linear", "normal-inverse-gamma"])
def test_estimates_agree_with_the_exact_evidence(name):
    found = fresh_scores(ev.Jarzynski(num_particles=256), CASES[name], range(4))
    assert np.all(np.abs(found) < 4.5) and abs(found.mean()) < 2, found


@pytest.mark.reference
def test_moves_of_smc_can_be_langevin_steps_whose_weights_correct_them():
    method = ev.SMC(num_particles=256, chunk_size=50, kernel=ULA(step_size=1.0))
    found = fresh_scores(method, CASES["linear"], range(4))
    assert np.all(np.abs(found) < 4.5) and abs(found.mean()) < 2, found


@pytest.mark.slow
def test_the_same_seed_repeats_and_stopping_leaves_nothing_known():
    data = CASES["linear"].simulate(np.random.default_rng(0), 200)
    model, method = CASES["linear"].explicit, ev.Jarzynski(num_particles=256)
    first, second = (ev.estimate(model, data, method=method, seed=3) for _ in range(2))
    assert first.log_evidence == second.log_evidence
    assert first.trajectory.num_annealing_steps.sum() % method.num_steps == 0


@pytest.mark.slow
def test_what_cannot_be_used_is_named():
    for field, value, message in (
        ("step_size", 0.0, "step_size must be positive; got 0.0"),
        ("num_steps", 0, "num_steps must be an integer of at least 1; got 0"),
        ("ess_threshold", 1.5, "ess_threshold is a fraction .* got 1.5"),
        ("target_ess", 1.0, "target_ess is a fraction"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            ev.Jarzynski(**{field: value})
    method = ev.Jarzynski(step_size=0.1)
    with pytest.raises(ConfigurationError, match=r"same number of particles; got \(3,\), \(2,\)"):
        method.sample(lambda k, x: x["a"], {"a": jnp.ones(3), "b": jnp.ones(2)}, num_steps=1)
    with pytest.raises(EstimationError, match=r"not finite at 1 of 3 particles at the start .*particle 1"):
        method.sample(lambda k, x: -jnp.log(x), jnp.array([1.0, -1.0, 2.0]), num_steps=1)
    with pytest.raises(EstimationError, match="after step [0-9]+ .* smaller step_size"):
        ev.Jarzynski(step_size=3.0).sample(lambda k, x: x**4, 10 * jnp.ones(5), num_steps=30)
