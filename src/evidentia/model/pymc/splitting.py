"""Whether the likelihood of a translated model belongs to single rows."""

from collections.abc import Mapping
from enum import Enum

import jax
import numpy as np

from evidentia.model.probe import probing_positions
from evidentia.model.program import log_prob, trace_at
from evidentia.model.pymc.program import PyMCProgram
from evidentia.model.statements import latent_sites, statements_of


class Split(Enum):
    """How the log-likelihood of some rows is that of all."""

    INDEPENDENT = "each row has the same log-probability among other rows"
    UNKNOWN = "the model does not run with other numbers of rows, or has no log-probability per row"
    NOT = "a row's log-probability depends on the other rows, or there are no rows"


def split(program: PyMCProgram, data: Mapping[str, np.ndarray]) -> Split:
    """Compares every second row's log-probability with what it is among all, at one position."""

    def terms(position, rows):
        free = {name: site.take(position) for name, site in sites.items()}
        trace, _ = trace_at(program, free, rows)
        return [log_prob(trace[name]) for name in (*program.observed, *program.potentials)]

    some = {name: array[::2] for name, array in data.items()}
    try:
        sites = latent_sites(statements_of(program, data, is_whole=True))
        position = probing_positions(max((site.stop for site in sites.values()), default=0))[0]
        shapes = [jax.eval_shape(terms, position, rows) for rows in (data, some)]
    except Exception:  # whatever it is, the model is then one of all rows
        return Split.UNKNOWN
    for each, rows in zip(shapes, (data, some), strict=True):
        if any(one.shape != (len(next(iter(rows.values()))),) for one in each):
            return Split.UNKNOWN
    compiled = jax.jit(terms, compiler_options={"xla_backend_optimization_level": 0})  # run twice
    for of_all, of_some in zip(compiled(position, data), compiled(position, some), strict=True):
        size = float(np.max(np.abs(of_all), where=np.isfinite(of_all), initial=0.0))
        if not np.allclose(of_all[::2], of_some, rtol=1e-3, atol=1e-3 * size, equal_nan=True):
            return Split.NOT
    return Split.INDEPENDENT
