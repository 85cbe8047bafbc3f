"""One computation in a process of its own, for `test_no_hang.py`: `one_fresh_run.py lkj 5 2`.

The arguments are what to compute, its dimension, and the number of cores that the process may use.
A process that uses no processor time for a minute has hung: it prints the stacks of all threads
and exits with status 1.
"""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

PATIENCE = 60  # seconds


def watch() -> None:
    """Put off the dump of the stacks for as long as the process uses the processor."""
    used = -1.0
    while True:
        now = time.process_time()
        if now > used + 0.1:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            used = now
        time.sleep(5)


def solves(dimension: int) -> None:
    """Batched triangular solves side by side: hangs with JAX 0.10.0 to 0.11.0 on two cores."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    noise = jax.random.normal(jax.random.key(0), (7, 2048, dimension, 100))
    factors = jnp.tril(noise[0, :, :, :dimension]) + 3 * jnp.eye(dimension)
    side_by_side(lambda y, i: solve_triangular(factors, y, lower=True, trans=i % 2), noise[1:])


def transforms(dimension: int) -> None:
    """Batched Fourier transforms side by side: hangs with JAX 0.11.1 and 0.11.2 on two cores."""
    import jax
    import jax.numpy as jnp

    noise = jax.random.normal(jax.random.key(0), (6, 2048, dimension))
    side_by_side(lambda y, i: jnp.fft.irfft(jnp.fft.rfft(y) * (1 + i), dimension), noise)


def side_by_side(function: Callable, arrays) -> None:
    """Many rounds of a function on several arrays, which XLA computes at the same time."""
    import jax
    import jax.numpy as jnp

    def one_round(_, arrays):
        found = [function(array, i) for i, array in enumerate(arrays)]
        return [y / (1 + jnp.abs(y)) for y in found]

    rounds = jax.jit(lambda arrays: jax.lax.fori_loop(0, 30, one_round, arrays))
    for _ in range(15):
        jax.block_until_ready(rounds(list(arrays)))


def evidence_of(kind: str, dimension: int) -> None:
    """The evidence of a Gaussian model, with a covariance from the kind of prior."""
    import jax.numpy as jnp
    import numpy as np
    import numpyro.distributions as dist
    from numpyro import plate, sample

    import evidentia as ev

    unit = jnp.eye(dimension)

    def scales():
        return sample("scales", dist.HalfNormal(2.0).expand([dimension]).to_event(1))

    def observe(y, factor):
        mean = sample("mean", dist.MultivariateNormal(jnp.zeros(dimension), scale_tril=factor))
        with plate("rows", len(y)):
            sample("y", dist.MultivariateNormal(mean, scale_tril=factor), obs=y)

    def lkj(y):
        observe(y, scales()[:, None] * sample("factor", dist.LKJCholesky(dimension, 2.0)))

    def normal(y):
        observe(y, jnp.linalg.cholesky(0.5 * unit + 0.5))

    def cholesky(y):
        scale, share = scales(), sample("share", dist.Beta(2.0, 2.0))
        observe(y, jnp.linalg.cholesky(scale[:, None] * scale * ((1 - share) * unit + share)))

    model = ev.Model.from_numpyro({"lkj": lkj, "normal": normal, "cholesky": cholesky}[kind])
    y = np.random.default_rng(0).normal(size=(100, dimension)).astype(np.float32)
    methods = [ev.SMC(num_particles=256, chunk_size=100, kernel=ev.kernels.HMC(num_trajectories=1))]
    if dimension <= 5:  # with more, repeated moves take minutes
        methods.append(ev.SGAIS(num_particles=256))
    for method in methods:
        assert np.isfinite(ev.estimate(model, {"y": y}, method=method).log_evidence)


def main(kind: str, dimension: int, num_cores: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:num_cores])  # before XLA counts them
    threading.Thread(target=watch, daemon=True).start()
    alone = {"solves": solves, "transforms": transforms}
    if kind in alone:
        alone[kind](dimension)
    else:
        evidence_of(kind, dimension)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
