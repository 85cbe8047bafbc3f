"""Parts of a posterior that are narrower than its proposal: seen where there are some."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.narrow import look_closely
from evidentia.evidence.population.importance import Sampling, weighted_draws
from evidentia.evidence.population.mixture import Mixture
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Window

PRIOR = {"x": dist.Uniform(-1.0, 1.0).expand([2]).to_event(1)}


def look_at(log_likelihood, scale, prior=PRIOR, seed=0, centres=((0.0, 0.0),)):
    """A look at draws from Student t's with one scale, in unconstrained units."""
    model = ev.Model(prior, lambda p, y: log_likelihood(p["x"]) + 0 * y)
    y = np.zeros(1, np.float32)
    bound, rows = model.bind(y), Window(jnp.asarray(y), 0, 1)
    components = tuple(LocalGaussian(np.array(centre), np.eye(2) / scale**2, 0.0) for centre in centres)
    proposal = Mixture(components, np.full(len(centres), -np.log(len(centres))))
    generator = np.random.default_rng(seed)
    draws = weighted_draws(Sampling(bound, rows, generator, 2000), proposal, 4)
    return look_closely(bound, rows, proposal, draws, generator)


@pytest.mark.parametrize("seed", range(5))
def test_the_innermost_decades_of_a_singular_likelihood(seed):
    # Each decade of |x| has the same mass, from 1 down to 10⁻⁸; draws reach 10⁻³ or 10⁻⁴.
    look = look_at(lambda x: -jnp.log(jnp.maximum(jnp.abs(x[0]), 1e-8)), 2.0, seed=seed)
    assert 0.3 < look.unseen < 0.8
    assert list(look.signs) == ["narrow parts"]
    assert f"about {100 * look.unseen:.0f}% of the posterior" in look.signs["narrow parts"]


def test_a_width_that_float32_has_not():
    # About 0.3 of the unit interval, neighbours are 6e-8 apart on the scale of the parameters.
    look = look_at(
        lambda x: -0.5 * jnp.sum(((x - 0.3) / 1e-8) ** 2), 1e-7, centres=[2 * [float(np.log(1.3 / 0.7))]]
    )
    assert look.fall > 1.0
    sentence = look.signs["resolution of float32"]
    assert f"falls by {look.fall:.2g} nats over two steps between neighbouring numbers" in sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log_likelihood", "scale"),
    [
        (lambda x: -0.5 * jnp.sum((x / 0.1) ** 2), 0.25),  # Gaussian
        (lambda x: -jnp.sum(jnp.abs(x / 0.1)), 0.3),  # a cusp
        (lambda x: jnp.where(jnp.all(jnp.abs(x) < 0.1), 0.0, -jnp.inf), 0.2),  # a box
        (lambda x: jnp.where(x[0] < 0.1, 20 * x[0], -jnp.inf), 1.5),  # the top is at an edge
        (lambda x: -0.5 * ((x[0] / 0.4) ** 2 + ((x[1] - x[0] ** 2) / 0.02) ** 2), 1.0),  # a thin ridge
        (lambda x: -50.0 * jnp.abs(x[0]) ** 0.5 - 200 * x[1] ** 2, 0.1),  # infinite slopes
    ],
)
def test_other_shapes_show_no_sign(log_likelihood, scale):
    look = look_at(log_likelihood, scale)
    assert look.signs == {}
    assert look.fall < 0.1 and look.unseen < 0.05


MODES = np.array([[-0.5, 0.5], [0.5, -0.5]])  # as of two components that can be interchanged
AT_MODES = np.log((1 + MODES) / (1 - MODES))


@pytest.mark.parametrize("seed", range(5))
def test_draws_at_another_mode_than_the_top(seed):
    # Between the modes is 10⁻⁴ of the mass, in which weights are large, and nothing is unseen.
    def modes_on_a_slope(x):
        return jnp.logaddexp(
            jax.nn.logsumexp(-0.5 * jnp.sum(((x - MODES) / 0.02) ** 2, axis=1)), -16.0 - x[0]
        )

    assert look_at(modes_on_a_slope, 0.1, seed=seed, centres=AT_MODES).unseen < 0.01


@pytest.mark.parametrize("seed", range(5))
def test_innermost_decades_at_one_of_two_modes(seed):
    def singular_modes(x):
        return -jnp.log(jnp.maximum(jnp.abs(jnp.abs(x[0]) - 0.5), 1e-6)) - 0.5 * (x[1] / 0.1) ** 2

    look = look_at(singular_modes, 0.5, seed=seed, centres=AT_MODES * [1.0, 0.0])
    assert list(look.signs) == ["narrow parts"]
