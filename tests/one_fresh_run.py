"""One estimate in a process of its own, for `test_no_hang.py`: `one_fresh_run.py lkj 5 2`.

The arguments are the model, its dimension, and the number of cores that the process may use. A
process that stops using the processor for a minute has hung: it prints the stacks of all threads
and exits with status 1.
"""

import faulthandler
import os
import sys
import threading
import time

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


def main(kind: str, dimension: int, num_cores: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:num_cores])  # before XLA counts them
    threading.Thread(target=watch, daemon=True).start()

    import jax.numpy as jnp
    import numpy as np
    import numpyro.distributions as dist
    from numpyro import plate, sample

    import evidentia as ev

    unit = jnp.eye(dimension)

    def scales():
        return sample("scales", dist.HalfNormal(2.0).expand([dimension]).to_event(1))

    def observe(y, mean, factor):
        with plate("rows", len(y)):
            sample("y", dist.MultivariateNormal(mean, scale_tril=factor), obs=y)

    def lkj(y):
        factor = sample("factor", dist.LKJCholesky(dimension, 2.0))
        observe(y, jnp.zeros(dimension), scales()[:, None] * factor)

    def normal(y):
        factor = jnp.linalg.cholesky(0.5 * unit + 0.5)
        observe(y, sample("mean", dist.MultivariateNormal(0.0, scale_tril=factor)), factor)

    def cholesky(y):
        scale, share = scales(), sample("share", dist.Beta(2.0, 2.0))
        covariance = scale[:, None] * scale * ((1 - share) * unit + share)
        observe(y, jnp.zeros(dimension), jnp.linalg.cholesky(covariance))

    model = {"lkj": lkj, "normal": normal, "cholesky": cholesky}[kind]
    y = np.random.default_rng(0).normal(size=(300, dimension)).astype(np.float32)
    evidence = ev.estimate(ev.Model.from_numpyro(model), {"y": y}, method=ev.SGAIS(num_particles=256))
    assert np.isfinite(evidence.log_evidence)
    print(evidence)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
