"""Whether the likelihood of a translated model belongs to single rows."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import jax
import numpy as np
from numpyro import handlers

from evidentia.model.program import log_prob, run_traced
from evidentia.model.pymc.program import PyMCProgram


class Split(Enum):
    """How the log-likelihood of some rows is that of all."""

    INDEPENDENT = "each row has the same log-probability among other rows"
    UNKNOWN = "the model does not run with other numbers of rows, or has no log-probability per row"
    NOT = "a row's log-probability depends on the other rows, or there are no rows"


def split(program: PyMCProgram, data: Mapping[str, np.ndarray]) -> Split:
    """Compares every second row's log-probability with what it is among all, at one prior draw."""

    @jax.jit
    def terms(key, rows):
        trace = run_traced(handlers.seed(program, key), rows)
        return [log_prob(trace[name]) for name in (*program.observed, *program.potentials)]

    key = jax.random.key(0)
    count = len(next(iter(data.values())))
    some = {name: array[::2] for name, array in data.items()}
    try:
        shapes = jax.eval_shape(terms, key, data), jax.eval_shape(terms, key, some)
    except Exception:  # whatever it is, the model is then one of all rows
        return Split.UNKNOWN
    for each, rows in zip(shapes, (count, (count + 1) // 2), strict=True):
        if any(one.shape != (rows,) for one in each):
            return Split.UNKNOWN
    for of_all, of_some in zip(terms(key, data), terms(key, some), strict=True):
        size = float(np.max(np.abs(of_all), where=np.isfinite(of_all), initial=0.0))
        if not np.allclose(of_all[::2], of_some, rtol=1e-3, atol=1e-3 * size, equal_nan=True):
            return Split.NOT
    return Split.INDEPENDENT
