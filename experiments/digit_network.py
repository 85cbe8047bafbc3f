"""A Bayesian neural network for images of digits: data, model, and runs of PGD, JALA-EM and SOUL.

The network has one hidden layer of tanh units and no biases: p(digit | image) = softmax(v tanh(w
image)), with weights w ~ N(0, e^{2α} I) and v ~ N(0, e^{2β} I), and θ = (α, β). Here α and β have
the names of their weights, "w" and "v".

Source: Cuin, Carbone, Akyildiz (2025), appendix C.3; Kuntz, Lim, Johansen (2023), section 3.2.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from evidentia.latent import JALAEM, PGD, SOUL, LatentModel
from evidentia.latent.problem import Problem

NUM_PIXELS, STEP_SIZE, TEST_SHARE, LARGEST_GRADIENT, LEAST_PROBABILITY = 784, 0.1, 0.2, 10.0, 1e-30
NUM_LOOKS = 20  # evaluations on the test images during a run
METHODS = ("PGD", "JALA-EM", "SOUL")


class Setting(NamedTuple):
    """A data set, a network, the number of repeats, and the methods."""

    digits: tuple[int, ...]
    num_images: int
    num_particles: int
    num_hidden: int
    num_repeats: int = 10
    num_steps: int = 500
    methods: tuple[str, ...] = METHODS


def stratified(labels, count, generator):
    """Random rows, of each label as many as its share, rounded."""
    order = np.concatenate(
        [generator.permutation(np.flatnonzero(labels == one)) for one in np.unique(labels)]
    )
    return order[np.linspace(0, len(order), count, endpoint=False).astype(int)]


def subsample(images, digits, setting, seed):
    """Training and test images, with labels."""
    generator = np.random.default_rng(seed)
    of_digits = np.flatnonzero(np.isin(digits, setting.digits))
    chosen = of_digits[stratified(digits[of_digits], setting.num_images, generator)]
    mean, deviation = images[chosen].mean(axis=0), images[chosen].std(axis=0)
    varies = deviation > 0
    pixels = (images[chosen][:, varies] - mean[varies]) / deviation[varies]
    labels = np.searchsorted(setting.digits, digits[chosen]).astype(np.int32)
    is_test = np.zeros(len(chosen), bool)
    is_test[stratified(labels, round(TEST_SHARE * len(chosen)), generator)] = True
    data = {"images": pixels, "labels": labels}
    return jax.tree.map(lambda leaf: leaf[~is_test], data), jax.tree.map(lambda leaf: leaf[is_test], data)


def log_outputs(x, images):
    """Log probabilities of the classes, (images, classes).

    Images hold the pixels that vary. The weights of the others, at the end, follow the prior.
    """
    return jax.nn.log_softmax(jnp.tanh(images @ x["w"][:, : images.shape[1]].T) @ x["v"].T)


def log_joint(theta, x, data):
    """Log joint density: two Gaussian priors with scales e^θ, and labels given images."""
    log_prior = sum(
        -0.5 * jnp.sum(x[name] ** 2) * jnp.exp(-2 * theta[name])
        - x[name].size * (theta[name] + 0.5 * jnp.log(2 * jnp.pi))
        for name in ("w", "v")
    )
    outputs = log_outputs(x, data["images"])
    return log_prior + jnp.take_along_axis(outputs, data["labels"][:, None], axis=1).sum()


MODEL = LatentModel(log_joint, name="Bayesian neural network")


def zero_weights(setting):
    """Zero weights with the structure of one particle."""
    return {
        "w": jnp.zeros((setting.num_hidden, NUM_PIXELS)),
        "v": jnp.zeros((len(setting.digits), setting.num_hidden)),
    }


def make_method(name, setting):
    sizes = {part: leaf.size for part, leaf in zero_weights(setting).items()}
    per_weight = optax.stateless(
        lambda updates, _: {part: update / sizes[part] for part, update in updates.items()}
    )
    clipped = optax.clip_by_global_norm(LARGEST_GRADIENT)
    common: dict[str, Any] = {
        "num_particles": setting.num_particles,
        "step_size": STEP_SIZE,
        "optimizer": optax.chain(per_weight, clipped, optax.sgd(STEP_SIZE)),
    }
    if name == "JALA-EM":
        return JALAEM(ess_threshold=1 / 1.05, **common)
    if name == "JALA-EM, adaptive":
        return JALAEM(target_ess=0.9, **common)
    return {"PGD": PGD, "SOUL": SOUL}[name](**common)


@partial(jax.jit, static_argnames=("method", "setting"))
def climb(method, setting, key, train, test):
    """Test error, log predictive density and θ at regular intervals; with weights, also the ESS.

    With weights there is also the gain in log evidence, and the error before resampling.
    """
    example = zero_weights(setting)
    problem = Problem(MODEL, example, train)
    key_start, key_init, key_steps, key_ahead = jax.random.split(key, 4)
    dimension = ravel_pytree(example)[0].size
    positions = jax.random.normal(key_start, (setting.num_particles, dimension))  # the prior at θ = 0

    def step(state, index):
        return method.update(problem, jax.random.fold_in(key_steps, index), state)

    def block(state, indices):
        state, taken = jax.lax.scan(step, state, indices)
        found = score(state.at.position, example, test) | {"theta": state.theta}
        if isinstance(method, JALAEM):
            ahead, _ = replace(method, ess_threshold=0.0).update(problem, key_ahead, state)
            before = score(ahead.at.position, example, test)["error"]
            found |= {"gain": taken.log_evidence.sum(), "ess": taken.ess.mean(), "error_before": before}
        return state, found

    state = method.init(problem, key_init, {"w": jnp.zeros(()), "v": jnp.zeros(())}, positions)
    return jax.lax.scan(block, state, jnp.arange(setting.num_steps).reshape(NUM_LOOKS, -1))[1]


def score(positions, example, test):
    """Test error and mean log predictive density of the particles' mean probability."""
    outputs = jax.vmap(lambda position: log_outputs(ravel_pytree(example)[1](position), test["images"]))
    log_predictive = jax.nn.logsumexp(outputs(positions), axis=0) - jnp.log(len(positions))
    right = jnp.take_along_axis(log_predictive, test["labels"][:, None], axis=1)
    lppd = jnp.maximum(right, jnp.log(LEAST_PROBABILITY)).mean()
    return {"error": jnp.mean(log_predictive.argmax(axis=1) != test["labels"]), "lppd": lppd}
