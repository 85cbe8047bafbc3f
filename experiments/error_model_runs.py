"""The runs of `error_model`: starts, climbs of all repeats at once, and their errors."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from evidentia.latent import JALAEM, LatentModel
from evidentia.latent.problem import Problem
from experiments.error_models import (
    NAMES,
    NUM_WEIGHTS,
    by_importance,
    exact_draws,
    exact_log_evidence,
    log_freedom,
    log_joint,
    maximiser,
    sample_prior,
    short_chains,
    simulate,
)

LOG_FREEDOMS = np.log([0.2, 5.0])
METHOD = JALAEM(num_particles=50, step_size=5e-5, ess_threshold=0.0, optimizer=optax.adam(5e-3))
NUM_STEPS, CHECK_EVERY = 250, 50
# log(4) + 1 is beyond the bound too.
THETA0 = {
    name: np.array([1.0, 1.0, LOG_FREEDOMS[1]][:size], np.float32)
    for name, size in (("gaussian", 2), ("student", 3))
}
LOWER = np.array([-np.inf, -np.inf, LOG_FREEDOMS[0]], np.float32)
UPPER = np.array([np.inf, np.inf, LOG_FREEDOMS[1]], np.float32)
METHODS = {"gaussian": METHOD, "student": replace(METHOD, bounds=(LOWER, UPPER))}


MODELS = {name: LatentModel(partial(log_joint, name), sample_prior=sample_prior, name=name) for name in NAMES}


def starts(name, data, seed):
    """Particles and log Z(θ₀) of all repeats, by the name of the way to start."""
    generator, keys = np.random.default_rng([seed, 7]), jax.random.split(jax.random.key(seed), len(data["y"]))
    theta, rows, count = THETA0[name], _repeats(data), METHOD.num_particles
    if name == "gaussian":
        positions = [exact_draws(theta, row, count, generator) for row in rows]
        return {
            "published": (np.stack(positions), np.array([exact_log_evidence(theta, row) for row in rows]))
        }
    positions, known = zip(*(by_importance(name, theta, row, count, generator) for row in rows), strict=True)
    chains = np.stack(
        [short_chains(name, key, theta, count, row) for key, row in zip(keys, rows, strict=True)]
    )
    return {"published": (chains, np.array(known)), "importance": (np.stack(positions), np.array(known))}


def _repeats(data):
    return [jax.tree.map(lambda leaf, i=i: leaf[i], data) for i in range(len(data["y"]))]


def climb(name, data, start, seed, num_steps=NUM_STEPS):
    """θ and log evidence without log p(ν), for all repeats and steps, (repeats, steps + 1, …)."""
    positions, known = start
    keys = jax.random.split(jax.random.key(seed), len(known))
    climbing = jax.jit(jax.vmap(partial(_one, name, num_steps)))
    thetas, gains = climbing(keys, jnp.asarray(positions, jnp.float32), data)
    first = np.broadcast_to(THETA0[name], (len(known), 1, len(THETA0[name])))
    thetas = np.concatenate([first, thetas], axis=1)
    gains = np.cumsum(np.pad(np.asarray(gains, np.float64), ((0, 0), (1, 0))), axis=1)
    if name == "student":
        log_prior = np.asarray(log_freedom(np.moveaxis(thetas, -1, 0)), np.float64)
        gains = gains - (log_prior - log_prior[:, :1])
    return thetas, known[:, None] + gains


def _one(name, num_steps, key, positions, data):
    """One repeat: θ after each step, and the increase of its log evidence."""
    problem, method = Problem(MODELS[name], jnp.zeros(NUM_WEIGHTS), data), METHODS[name]

    def step(state, index):
        state, taken = method.update(problem, jax.random.fold_in(key, index), state)
        return state, (state.theta, taken.log_evidence)

    state = method.init(problem, key, jnp.asarray(THETA0[name]), positions)
    return jax.lax.scan(step, state, jnp.arange(num_steps))[1]


def compare(truth, num_rows, repeats, seed=0):
    """Results of all repeats with data from one model; Student-t errors by the way to start."""
    data = simulate(truth, num_rows, repeats, seed)
    climbs = {
        name: {way: climb(name, data, start, seed) for way, start in starts(name, data, seed).items()}
        for name in MODELS
    }
    gaussian = climbs["gaussian"]["published"]
    sign = 1 if truth == "student" else -1
    factors = {
        way: (sign * (found[1][:, -1] - gaussian[1][:, -1])).tolist()
        for way, found in climbs["student"].items()
    }
    errors = {way: end_errors(found, data, seed) for way, found in climbs["student"].items()}
    found = {"truth": truth, "rows": num_rows, "log_bayes_factors": factors, "student_errors": errors}
    found["theta"] = {name: np.mean(ways["published"][0][:, -1], 0).tolist() for name, ways in climbs.items()}
    found["first_repeat"] = {name: _shown(ways["published"]) for name, ways in climbs.items()}
    return found | (against_exact(gaussian, data) if truth == "gaussian" else {})


def _shown(climbed):
    """θ and log evidence of the first repeat, every ten steps."""
    thetas, log_evidence = (each[0, ::10].astype(float).round(3).tolist() for each in climbed)
    return {"theta": thetas, "log_evidence": log_evidence}


def end_errors(climbed, data, seed):
    """Errors of the log evidence with Student-t errors at the last θ."""
    thetas, log_evidence = climbed
    generator = np.random.default_rng([seed, 8])
    known = [
        by_importance("student", th, row, 1, generator)[1]
        for th, row in zip(thetas[:, -1], _repeats(data), strict=True)
    ]
    return (log_evidence[:, -1] - np.array(known)).round(4).tolist()


def against_exact(climbed, data):
    """Errors of log evidence and θ against the exact values, by repeat and step."""
    thetas, log_evidence = climbed
    steps, rows = list(range(0, thetas.shape[1], CHECK_EVERY)), _repeats(data)
    exact = np.array([[exact_log_evidence(thetas[i, k], row) for k in steps] for i, row in enumerate(rows)])
    apart = thetas[:, steps] - np.array([maximiser(row) for row in rows])[:, None]
    return {
        "steps": steps,
        "log_evidence_errors": (log_evidence[:, steps] - exact).round(4).tolist(),
        "theta_minus_maximiser": apart.round(4).tolist(),
        "above_truth": [
            float(end - exact_log_evidence(np.zeros(2), row))
            for end, row in zip(log_evidence[:, -1], rows, strict=True)
        ],
    }
