"""Online nested sampling: exact evidences by chunk, every gradient, carried points, rejections."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import evidentia as ev
from evidentia.kernels import ConstrainedSlice, ConstrainedWalk, ReflectingSGHMC, Rejection
from evidentia.posterior.gradients import ControlVariate, FullBatch, MiniBatch
from evidentia.posterior.rows import Window
from tests.evidence.test_analytic_truths import CASES

pytestmark = pytest.mark.reference

FEW = ev.OnlineNestedSampling(num_particles=64, chunk_size=50)


def test_agrees_with_the_exact_evidence_all_along():
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 200)
    scores = []
    for seed in range(4):
        trajectory = ev.estimate(case.explicit, data, method=FEW, seed=seed, in_order=True).trajectory
        assert list(trajectory.num_observations) == [50, 100, 200]
        for n in (50, 200):
            exact = case.exact({key: array[:n] for key, array in data.items()})
            scores.append((trajectory.at(n)["log_evidence"] - exact) / trajectory.at(n)["standard_error"])
    # As for SGAIS; the scores of one run are correlated, so four of them count.
    assert np.all(np.abs(scores) < 4.5) and abs(np.mean(scores)) < 4 / np.sqrt(4), scores


@pytest.mark.parametrize(
    ("kernel", "gradient", "bias"),
    [
        (ConstrainedWalk(), FullBatch(), 0.0),
        (ConstrainedSlice(), ControlVariate(), 0.0),
        # Bias without a Metropolis correction, over 12 seeds: 0.16 ± 0.12 nats, and 0.64 ± 0.08
        # with mini-batch noise.
        (ReflectingSGHMC(), ControlVariate(batch_size=32, exact_rows=0), 0.16),
        (ReflectingSGHMC(), MiniBatch(batch_size=100), 0.64),
    ],
)
def test_kernels_and_gradients_can_be_combined(kernel, gradient, bias):
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 200)
    method = ev.OnlineNestedSampling(num_particles=64, chunk_size=100, kernel=kernel, gradient=gradient)
    evidence = ev.estimate(case.explicit, data, method=method)
    assert abs(evidence.log_evidence - case.exact(data)) < bias + 4.5 * evidence.standard_error


def test_what_is_carried_is_the_posterior():
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 200)
    bound, method = case.explicit.bind(data), FEW
    arrays = jax.tree.map(jnp.asarray, data)
    state = method.init(bound, jax.random.key(0))
    state, info = method.update(bound, state, Window(arrays, 0, 0), Window(arrays, 0, 200))
    design = np.c_[data["x"].astype(float), np.ones(200)]
    precision = design.T @ design + np.eye(4)
    mean = np.linalg.solve(precision, design.T @ data["y"])
    params = bound.constrain(state.population.positions)
    draws = np.c_[params["weights"], params["intercept"]]
    spread = np.sqrt(np.diag(np.linalg.inv(precision)))
    # Some of the 64 points are moved copies: allow more standard errors than for independent
    # points.
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * spread / np.sqrt(64))
    assert np.all(np.abs(draws.var(0) / spread**2 - 1) < 5 * np.sqrt(2 / 64))
    assert state.population.variance == pytest.approx(info.information / 64, rel=0.1)
    assert state.num_observations == 200 and not info.is_stuck


def test_the_same_seed_repeats_and_another_differs():
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 200)
    first, again, other = (
        ev.estimate(case.explicit, data, method=FEW, seed=s).log_evidence for s in (3, 3, 4)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_particles": 1}, r"num_particles must be an integer of at least 2; got 1\."),
        ({"num_particles": 7}, r"num_particles must be an integer of at least 8; got 7\."),
        ({"chunk_size": 0}, r"chunk_size must be an integer of at least 1; got 0\."),
        ({"chunk_growth": -1.0}, r"chunk_growth must not be negative; got -1\.0\."),
        ({"kernel": Rejection()}, r"kernel must move points.*got Rejection.*needs kernels\.ReflectingSGHMC"),
        (
            {"quadrature": "simpson"},
            r"quadrature must be 'rectangle' or 'trapezoid' or 'lower'; got 'simpson'\.",
        ),
    ],
)
def test_impossible_configurations_are_refused(fields, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.OnlineNestedSampling(**fields)
