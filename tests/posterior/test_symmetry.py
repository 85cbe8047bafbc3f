"""Symmetries: folding keeps the posterior, densities count every copy."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.optimize import linear_sum_assignment

import evidentia as ev
from evidentia.evidence.population.mixture import Mixture
from evidentia.model.blocks import BLOCK, in_blocks
from evidentia.posterior.copies import symmetrised
from evidentia.posterior.gaussian import LocalGaussian, log_student_t
from evidentia.posterior.symmetry import (
    cheapest_orders,
    fold,
    is_in_order,
    log_num_copies,
    reorder,
    within,
)

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


@pytest.mark.slow
def test_folding_brings_the_copies_of_a_mode_together(bound):
    params = {
        "weights": jnp.array([0.2, 0.3, 0.5]),
        "variances": jnp.array([[1.0, 2.0], [0.5, 1.0], [3.0, 1.0]]),
        "means": jnp.array([[-3.0, 0.0], [0.0, 3.0], [3.0, -3.0]]),
    }
    mode = bound.unconstrain(params)
    near = mode + 0.1 * jax.random.normal(jax.random.key(0), (100, len(mode)))
    mixed = reorder(bound, near, random_orders(100))
    together, _ = fold(bound, mixed, np.full(100, 0.01))
    assert np.std(mixed, axis=0).max() > 1
    assert np.std(together, axis=0).max() < 0.2


@pytest.mark.parametrize("components", [1, 3, 5])
def test_orders_tried_one_by_one_are_those_of_an_assignment(components):
    costs = np.random.default_rng(0).exponential(size=(300, components, components))
    tried, assigned = cheapest_orders(costs), cheapest_orders(costs, most_listed=0)
    np.testing.assert_array_equal(tried, assigned)


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
    density = Mixture((laplace,))
    alone, symmetric = (
        density.log_density(np.asarray(positions, np.float64)),
        symmetrised(bound, density, positions),
    )
    np.testing.assert_allclose(symmetric, alone - np.log(6), atol=1e-6)
    copy = reorder(bound, positions, jnp.array([[2, 0, 1]]))
    expected = symmetric + bound.log_priors(copy) - bound.log_priors(positions)
    np.testing.assert_allclose(symmetrised(bound, density, copy), expected, atol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exchangeable", "message"),
    [
        (("weight",), "exchangeable names 'weight', which is not a parameter; the model has weights, means"),
        (("weights", "scale"), r"leading axis; weights has shape \(3,\), scale has shape \(\)"),
        ((("means", 1),), r"axes named with them, or else on their leading axis; means has shape \(3,\)"),
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


def network_unit(params, batch):
    hidden = jnp.tanh(batch["x"][:, None] * params["inputs"])
    return dist.Normal(hidden @ params["outputs"], 0.5).log_prob(batch["y"])


NETWORK = ev.Model(
    {name: dist.Normal(jnp.zeros(2), 1.0).to_event(1) for name in ("inputs", "outputs")}, network_unit
)
NETWORK_DATA = {"x": np.linspace(-2, 2, 40, dtype=np.float32), "y": np.linspace(-1, 1, 40, dtype=np.float32)}


def copies_of(position):
    """The eight copies of a network of two units: either order, either sign of each unit."""
    inputs, outputs = position[:2], position[2:]
    return np.array(
        [
            np.concatenate([signs * inputs[order], signs * outputs[order]])
            for order in ([0, 1], [1, 0])
            for signs in np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
        ]
    )


@pytest.fixture(scope="module")
def network():
    return NETWORK.bind(NETWORK_DATA)


@pytest.mark.slow
def test_copies_of_a_network_are_brought_together(network):
    generator, mode = np.random.default_rng(0), np.array([2.0, -0.5, 1.0, 1.5])
    assert log_num_copies(network) == pytest.approx(np.log(8))
    mixed = np.concatenate([copies_of(mode + 0.1 * generator.standard_normal(4)) for _ in range(20)])
    folded, centre = fold(network, jnp.asarray(mixed, jnp.float32), np.full(160, 1 / 160))
    spread = np.std(np.asarray(folded), axis=0)
    assert np.all(spread < 0.2) and np.all(np.std(mixed, axis=0) > 0.9)
    density = within(network, centre, lambda position: jnp.zeros(()))
    assert np.isfinite([density(position) for position in folded[:20]]).all()
    inside = [
        np.isfinite(density(jnp.asarray(copy, jnp.float32))) for copy in copies_of(np.asarray(folded[0]))
    ]
    assert sum(map(bool, inside)) == 1


def test_a_density_over_all_copies_of_a_network_is_their_mean(network):
    mode = LocalGaussian(np.array([1.0, -0.5, 1.0, 0.5]), 4 * np.eye(4), 0.0)
    positions = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    found = symmetrised(network, Mixture((mode,)), jnp.asarray(positions))
    expected = [
        np.logaddexp.reduce(log_student_t(mode, copies_of(each.astype(float)))) - np.log(8)
        for each in positions
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_components_are_in_order_if_no_other_order_costs_less(size):
    costs = np.random.default_rng(size).random((300, size, size)).astype(np.float32)
    costs -= 0.1 * size * np.eye(size, dtype=np.float32)
    expected = [np.array_equal(linear_sum_assignment(each)[1], np.arange(size)) for each in costs]
    np.testing.assert_array_equal(jax.vmap(is_in_order)(costs), expected)
    assert size == 1 or 0.1 < np.mean(expected) < 0.95


@pytest.mark.parametrize("count", [1, 3, BLOCK, 2 * BLOCK + 100])
def test_blocks_hold_each_position_once_and_have_few_sizes(count):
    sizes = set()

    def sums(positions, others):
        sizes.add(len(positions))
        return positions.sum(axis=1) + others

    positions, others = np.arange(2.0 * count).reshape(count, 2), np.arange(count)
    np.testing.assert_array_equal(in_blocks(sums, positions, others), positions.sum(axis=1) + others)
    assert sizes == {1 << (min(count, BLOCK) - 1).bit_length()}
    sizes.clear()
    filled = in_blocks(sums, positions, others, least=BLOCK)
    np.testing.assert_array_equal(filled, positions.sum(axis=1) + others)
    assert sizes == {BLOCK}
