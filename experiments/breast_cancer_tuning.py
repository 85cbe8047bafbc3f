"""The steps of `breast_cancer`, of particles and of θ, by cross-validation as in appendix C.2."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.latent import LatentModel
from evidentia.latent.problem import Problem
from experiments.breast_cancer_runs import METHODS, from_the_prior, log_predictive
from experiments.logistic_evidence import log_joint, sample_prior
from experiments.real_data import stratified_parts

MULTIPLES = np.linspace(0.2, 2, 10)  # of 0.99/L, the grid of h
THETA_STEPS = 0.05, 0.1, 0.15
NUM_FOLDS = 3
CHECK_EVERY, PATIENCE, LEAST_GAIN = 10, 10, 1e-5  # of early stopping


def grid(name, unit_step):
    """Pairs of steps, of the particles and of θ; PGD has one for both."""
    sizes = MULTIPLES * unit_step
    if name == "PGD":
        return np.stack([sizes, sizes], axis=1)
    return np.array([(size, theta_step) for size in sizes for theta_step in THETA_STEPS])


def log_joint_in_units_of_steps(theta, w, data):
    """The log joint density, in coordinates where both steps have size 1.

    Steps of size h in w are steps of size 1 in w/√h, and likewise for θ. So the steps are data,
    and one program serves them all.
    """
    rows, steps = data
    by_w, by_theta = jnp.sqrt(steps)
    return log_joint(by_theta * theta, by_w * w, rows)


@partial(jax.jit, static_argnames=("name", "num_steps"))
def lppd_paths(name, key, particles0, pairs, rows, is_held_out, num_steps):
    """LPPD of held-out rows after every tenth step, (pairs of steps, folds, evaluations)."""
    method = METHODS[name](num_particles=len(particles0), step_size=1.0)
    model = LatentModel(log_joint_in_units_of_steps, sample_prior=sample_prior)
    features, signs = rows

    def one(steps, held_out):
        # A row without features adds a constant to the log joint density.
        kept = jnp.where(held_out[:, None], 0.0, features), signs
        problem, scale = Problem(model, particles0[0], (kept, steps)), jnp.sqrt(steps[0])

        def advance(state, index):
            return method.update(problem, jax.random.fold_in(key, index), state)[0], None

        def evaluate(state, indices):
            state, _ = jax.lax.scan(advance, state, indices)
            each = log_predictive(scale * method.particles(state)[0], features, signs)
            return state, jnp.mean(each, where=held_out)

        state = method.init(problem, key, jnp.zeros(()), particles0 / scale)
        return jax.lax.scan(evaluate, state, jnp.arange(num_steps).reshape(-1, CHECK_EVERY))[1]

    # Pairs in sequence: the program compiles much faster, and runs no slower.
    return jax.lax.map(lambda steps: jax.vmap(one, (None, 0))(steps, is_held_out), pairs)


def best_before_stopping(lppds):
    """The best of one path's values, and the number of them until it is stopped."""
    best, at = -np.inf, 0
    for index, lppd in enumerate(lppds):
        if lppd > best + LEAST_GAIN:
            best, at = lppd, index
        elif index == at + PATIENCE:
            return float(best), index + 1
    return float(best), len(lppds)


def cross_validate(study, name, count):
    """All pairs of steps, their LPPD, (pairs, folds), and the iterations made, (pairs, folds)."""
    rows, pairs = study.train, grid(name, study.unit_step)
    folds = stratified_parts(rows.labels, NUM_FOLDS, np.random.default_rng([study.seed, 1]))
    paths = lppd_paths(
        name,
        jax.random.key(study.seed),
        from_the_prior(count, rows.features.shape[1], study.seed),
        pairs.astype(np.float32),
        rows.data,
        folds == np.arange(NUM_FOLDS)[:, None],
        study.plan.tuning_steps,
    )
    found = np.array([[best_before_stopping(path) for path in of_folds] for of_folds in np.asarray(paths)])
    return {
        "pairs": pairs.tolist(),
        "lppd": found[..., 0].round(6).tolist(),
        "iterations": (CHECK_EVERY * found[..., 1]).tolist(),
    }
