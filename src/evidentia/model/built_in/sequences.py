"""What the built-in models of sequences share: checks of their data, and draws from a prior."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import DataError
from evidentia.model.program import Prior

LENGTH = 100  # of each sequence, where many are simulated


def check_values(many_sequences: bool, check: Callable[[np.ndarray], None], data: Any) -> None:
    """Raise DataError unless `data` is `{"y": (T,)}`, or `(sequences, T)`, with usable values.

    NaN is a missing value, which `check` does not get; one sequence must have a value at least.
    """
    check_names(data, {"y"})
    y, needed = data["y"], "(sequences, T)" if many_sequences else "(T,)"
    if y.ndim != (2 if many_sequences else 1):
        raise DataError(
            f"data['y'] must have shape {needed}, as many_sequences={many_sequences}; got {y.shape}."
        )
    if not y.shape[-1]:
        raise DataError(f"each sequence must have at least one row; got data['y'] of shape {y.shape}.")
    known = y[~np.isnan(y)]
    if not known.size:
        raise DataError("data['y'] must have an observation; all values are NaN, which is a missing value.")
    check(known)


def check_names(data: Any, needed: set[str]) -> None:
    """Raise DataError unless `data` is a mapping with exactly these names."""
    listed = ", ".join(map(repr, sorted(needed)))
    if not isinstance(data, Mapping):
        raise DataError(f"the model needs data as a mapping with {listed}; got {type(data).__name__}.")
    if set(data) != needed:
        raise DataError(f"the model needs data with {listed}; got {', '.join(map(repr, data)) or 'none'}.")


def drawn_from(prior: Prior, seed: int) -> dict[str, np.ndarray]:
    """One draw of the parameters from their prior."""
    params: dict[str, Any] = {}
    for key, (name, value) in zip(
        jax.random.split(jax.random.key(seed), len(prior)), prior.items(), strict=True
    ):
        distribution = value if isinstance(value, dist.Distribution) else value(params)
        params[name] = distribution.sample(key)
    return {name: np.asarray(value) for name, value in params.items()}
