"""What has no evidence, or none that can be computed: each must end in a clear error."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import evidentia as ev

from .problem import Problem, single

Y = single(np.random.default_rng(0).normal(1.0, 1.0, 100))
MEAN = {"mean": dist.Normal(0.0, 1.0)}


def normal(params, batch):
    """Log-likelihood of rows with an unknown mean."""
    return dist.Normal(params["mean"], 1.0).log_prob(batch["y"])


def impossible(prior, log_likelihood, y=Y) -> Problem:
    """A problem without a truth."""
    return Problem(ev.Model(prior, log_likelihood), {"y": y}, float("nan"))


PROBLEMS = {
    "improper prior": partial(
        impossible, {"mean": dist.ImproperUniform(dist.constraints.real, (), ())}, normal
    ),
    "likelihood zero everywhere": partial(
        impossible, MEAN, lambda params, batch: jnp.full_like(batch["y"], -jnp.inf) + 0 * params["mean"]
    ),
    "likelihood NaN for half of the prior": partial(
        impossible, MEAN, lambda params, batch: normal(params, batch) + jnp.log(params["mean"])
    ),
    "likelihood without bound": partial(
        impossible, MEAN, lambda params, batch: jnp.where(batch["y"] > 0, jnp.inf, normal(params, batch))
    ),
    "constant likelihood": partial(impossible, MEAN, lambda params, batch: 0 * batch["y"]),
    "missing value": partial(impossible, MEAN, normal, np.where(np.arange(100) == 7, np.nan, Y)),
    "no rows": partial(impossible, MEAN, normal, Y[:0]),
    "standardised inside the model": partial(
        impossible,
        MEAN,
        lambda params, batch: dist.Normal(params["mean"], 1.0).log_prob(batch["y"] - batch["y"].mean()),
    ),
}
