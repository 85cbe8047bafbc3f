"""Riemannian SGHMC, which the Entropy paper and the thesis suggest, on a funnel.

    python -m experiments.riemannian_sghmc      # seconds

The target is v ~ N(0, 1.5²), x_i ~ N(0, e^v) for nine x. The metric is that of the funnel, given
by hand: G^-½ = s = (1, e^(v/2), …), with friction α = 1 in both forms,

    r ← r - ε s ∇U - ε α r + N(0, 2 ε α),    z ← z + ε s r,        s = 1 in plain SGHMC.

As s depends on v alone, and its entry for v is constant, the recipe's correction Γ is zero. The
record has the mean of v, 0 at the end, after some numbers of steps from v = 3 and v = -3, with
gradients without noise, one a step.

Source: Ma, Chen, Fox (2015), Advances in Neural Information Processing Systems 28, Algorithm 1;
Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, section 9.
"""

import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

NUM_EFFECTS, DEVIATION, FRICTION, CHAINS = 9, 1.5, 1.0, 1000
MARKS, STEP_SIZES, STARTS = (100, 300, 1000), (0.1, 0.05), (3.0, -3.0)
OUT = Path(__file__).parent / "results" / "riemannian_sghmc.json"


def potential(z):
    v, x = z[0], z[1:]
    return 0.5 * (v**2 / DEVIATION**2 + jnp.exp(-v) * x @ x + NUM_EFFECTS * v)


@partial(jax.jit, static_argnames="has_metric")
def means(key, start, step_size, has_metric):
    """The mean of v over chains after each number of steps."""
    key_x, key_r, key_steps = jax.random.split(key, 3)
    v = jnp.full((CHAINS, 1), start)
    z = jnp.hstack([v, jnp.exp(0.5 * v) * jax.random.normal(key_x, (CHAINS, NUM_EFFECTS))])

    def step(carry, index):
        z, r = carry
        wide = jnp.broadcast_to(jnp.exp(0.5 * z[:, :1]), (CHAINS, NUM_EFFECTS))
        s = jnp.hstack([jnp.ones((CHAINS, 1)), wide]) if has_metric else 1.0
        noise = jax.random.normal(jax.random.fold_in(key_steps, index), z.shape)
        r = r - step_size * (s * jax.vmap(jax.grad(potential))(z) + FRICTION * r)
        r = r + jnp.sqrt(2 * step_size * FRICTION) * noise
        z = z + step_size * s * r
        return (z, r), z[:, 0].mean()

    carry = z, jax.random.normal(key_r, z.shape)
    return jax.lax.scan(step, carry, jnp.arange(MARKS[-1]))[1][jnp.array(MARKS) - 1]


def main() -> None:
    found = {
        f"{'Riemannian' if metric else 'plain'}, step {size}, from {start:+.0f}": np.asarray(
            means(jax.random.key(0), start, size, metric), float
        )
        .round(3)
        .tolist()
        for start in STARTS
        for size in STEP_SIZES
        for metric in (False, True)
    }
    OUT.write_text(json.dumps({"steps": MARKS, "mean_v": found}, indent=1) + "\n")
    for name, values in found.items():
        print(f"{name:32}" + "".join(f"{value:8.2f}" for value in values))


if __name__ == "__main__":
    main()
