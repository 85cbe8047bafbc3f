"""Interchangeable components: relabelling keeps the posterior, densities count every copy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.posterior.gaussian import LocalGaussian, log_student_t
from evidentia.posterior.symmetry import relabel, reorder, symmetrised

MODEL = ev.models.gaussian_mixture(num_components=3, num_features=2)
DATA, _ = MODEL.simulate(200, 0)


@pytest.fixture(scope="module")
def bound():
    return MODEL.bind(DATA)


def random_orders(count, components=3):
    generator = np.random.default_rng(0)
    return jnp.asarray([generator.permutation(components) for _ in range(count)])


@pytest.mark.reference
def test_reordering_leaves_the_likelihood_and_permutes_the_parameters(bound):
    positions, orders = bound.sample_prior(jax.random.key(0), 50), random_orders(50)
    moved = reorder(bound, positions, orders)
    before, after = bound.constrain(positions), bound.constrain(moved)
    for name in MODEL.exchangeable:
        expected = np.stack([value[order] for value, order in zip(before[name], orders, strict=True)])
        np.testing.assert_allclose(after[name], expected, rtol=1e-3, atol=1e-6)
    batch = {"y": jnp.asarray(DATA["y"])}
    for first, second in zip(positions[:5], moved[:5], strict=True):
        np.testing.assert_allclose(
            bound.log_likelihood(first, batch).sum(), bound.log_likelihood(second, batch).sum(), rtol=1e-4
        )


def test_relabelling_brings_the_copies_of_a_mode_together(bound):
    params = {
        "weights": jnp.array([0.2, 0.3, 0.5]),
        "variances": jnp.array([[1.0, 2.0], [0.5, 1.0], [3.0, 1.0]]),
        "means": jnp.array([[-3.0, 0.0], [0.0, 3.0], [3.0, -3.0]]),
    }
    mode = bound.unconstrain(params)
    near = mode + 0.1 * jax.random.normal(jax.random.key(0), (100, len(mode)))
    mixed = reorder(bound, near, random_orders(100))
    together, _ = relabel(bound, mixed, np.full(100, 0.01))
    assert np.std(mixed, axis=0).max() > 1
    assert np.std(together, axis=0).max() < 0.2


def test_a_symmetrised_density_is_the_average_over_all_copies(bound):
    # Near a mode with distant copies it is the density over 3!, and it has the same density (per
    # volume of the constrained parameters) at every copy.
    positions = bound.unconstrain(
        {
            "weights": jnp.array([0.2, 0.3, 0.5]),
            "variances": jnp.ones((3, 2)),
            "means": 5.0 * jnp.arange(6.0).reshape(3, 2),
        }
    )[None]
    laplace = LocalGaussian(np.asarray(positions[0], np.float64), 100 * np.eye(positions.shape[1]), 0.0)
    density = partial(log_student_t, laplace)
    alone, symmetric = density(np.asarray(positions, np.float64)), symmetrised(bound, density, positions)
    np.testing.assert_allclose(symmetric, alone - np.log(6), atol=1e-6)
    copy = reorder(bound, positions, jnp.array([[2, 0, 1]]))
    expected = symmetric + bound.log_priors(copy) - bound.log_priors(positions)
    np.testing.assert_allclose(symmetrised(bound, density, copy), expected, atol=2e-2)


@pytest.mark.parametrize(
    ("exchangeable", "message"),
    [
        (("weight",), "exchangeable names 'weight', which is not a parameter; the model has weights, means"),
        (("weights", "scale"), r"leading axis; weights has shape \(3,\), scale has shape \(\)"),
        (("weights",), r"exchangeable=\('weights'\): swapping two components changes the log_likelihood"),
    ],
)
def test_what_is_not_exchangeable_is_refused(exchangeable, message):
    def log_likelihood(params, y):
        return jax.nn.logsumexp(
            jnp.log(params["weights"]) + dist.Normal(params["means"], params["scale"]).log_prob(y[:, None]),
            axis=1,
        )

    model = ev.Model(
        prior={
            "weights": dist.Dirichlet(jnp.ones(3)),
            "means": dist.Normal(0, 5).expand([3]).to_event(1),
            "scale": dist.HalfNormal(1),
        },
        log_likelihood=log_likelihood,
        exchangeable=exchangeable,
    )
    with pytest.raises(ev.ModelError, match=message):
        model.bind(np.zeros(10, np.float32))
