"""Runs on windows of shared arrays, so that compiled programs are shared too, and their errors."""

import warnings

import jax
import numpy as np

from evidentia.data.arrays import as_arrays, on_device
from evidentia.errors import DiagnosticWarning
from evidentia.posterior.rows import Window


def run(method, model, data, num_rows=None, seed=0):
    """The last snapshot of a run over the first rows (default: all); warns as `estimate` does."""
    arrays = as_arrays(data)
    rows = Window(on_device(arrays), 0, len(data["y"]) if num_rows is None else num_rows)
    *_, last = method.run(model.bind(arrays), rows, jax.random.key(seed))
    for sentence in last.diagnose().signs.values():
        warnings.warn(sentence, DiagnosticWarning, stacklevel=2)
    return last


def scores(method, case, seeds, data, num_rows=None, form="explicit"):
    """Errors of the log evidence of the first rows, in units of their reported standard errors."""
    exact = case.exact({name: array[:num_rows] for name, array in data.items()})
    runs = [run(method, getattr(case, form), data, num_rows, seed) for seed in seeds]
    return np.array([(end.estimate.log_evidence - exact) / end.estimate.standard_error for end in runs])


def fresh_scores(method, case, seeds, num_rows=200):
    """The same for all of `num_rows` rows, with new data for each seed."""
    data = {seed: case.simulate(np.random.default_rng([num_rows, seed]), num_rows) for seed in seeds}
    return np.concatenate([scores(method, case, [seed], data[seed]) for seed in seeds])
