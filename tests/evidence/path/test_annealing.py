"""The annealed path: what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.path.annealing import anneal
from evidentia.evidence.path.moves import PathSettings
from evidentia.evidence.path.population import Population
from evidentia.kernels import HMC
from evidentia.posterior.rows import Window


def test_the_reverse_path_refuses_a_particle_that_was_moved_out_of_the_support():
    def log_likelihood(params, batch):
        return jnp.where(batch["y"] > params["start"], 0.0, -jnp.inf)

    arrays = {"y": jnp.asarray([1.0, 2.0])}
    bound = ev.Model({"start": dist.Normal(0, 1)}, log_likelihood).bind(arrays)
    positions = jnp.asarray([[0.0], [0.5], [3.0]])
    population = Population(jax.random.key(0), positions, np.zeros(3))
    with pytest.raises(ev.EstimationError, match=r"rows 0 to 1: a move of the reverse path .* kernels\.HMC"):
        anneal(
            PathSettings(0.5, HMC(), resampling="systematic"),
            bound,
            population,
            Window(arrays, 0, 0),
            Window(arrays, 0, 2),
            is_reverse=True,
        )


@pytest.mark.parametrize(
    ("method", "num_steps"),
    [(ev.SGAIS(num_particles=16), 55), (ev.SMC(num_particles=8, target_ess=0.91), 101)],
)
def test_a_long_path_says_so_early(method, num_steps):
    model = ev.models.linear_regression(num_features=1)
    data, _ = model.simulate(100, 0)
    far = {**data, "y": data["y"] + np.float32(300.0)}
    with pytest.warns(
        ev.EvidenceWarning, match=f"the path .* of rows 0 to 99 is long: after {num_steps} steps"
    ):
        ev.estimate(model, far, method=method)
