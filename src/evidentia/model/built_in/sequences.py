"""What the built-in models of sequences share: checks of their data, and draws from a prior."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import DataError
from evidentia.model.program import Prior
from evidentia.system.sharing import check_not_forked

LENGTH = 100  # of each sequence, where many are simulated


def check_values(many_sequences: bool, check: Callable[[np.ndarray], None], data: Any) -> None:
    """Raise DataError unless `data` is `{"y": (T,)}`, or `(sequences, T)`, with usable values.

    NaN is a missing value, which `check` does not get; there must be an observation at least.
    """
    check_series(many_sequences, data)
    check(data["y"][~np.isnan(data["y"])])


def check_series(many_sequences: bool, data: Any, *, num_features: int = 0) -> None:
    """Raise DataError unless `data` has series `y`, and `x` of as many rows if it has features."""
    check_names(data, {"x", "y"} if num_features else {"y"})
    y, leading = data["y"], "sequences, T" if many_sequences else "T"
    if y.ndim != (2 if many_sequences else 1):
        needed = f"({leading})" if many_sequences else "(T,)"
        raise DataError(
            f"data['y'] must have shape {needed}, as many_sequences={many_sequences}; got {y.shape}."
        )
    if num_features and data["x"].shape != (*y.shape, num_features):
        raise DataError(
            f"data['x'] must have shape ({leading}, {num_features}), with the rows of y, of shape {y.shape}; got {data['x'].shape}."
        )
    if not y.shape[-1]:
        raise DataError(f"each sequence must have at least one row; got data['y'] of shape {y.shape}.")
    if np.isnan(y).all():
        raise DataError("data['y'] must have an observation; all values are NaN, which is a missing value.")


def infinite_evidence(fit: str) -> DataError:
    """The error of a series without noise: its density has no bound where scales go to zero."""
    return DataError(
        f"data['y'] is {fit}, without noise: the evidence is infinite, as the density has no bound where the scales go to zero. "
        "Check the data, or write a model whose priors keep scales from zero."
    )


def check_names(data: Any, needed: set[str]) -> None:
    """Raise DataError unless `data` is a mapping with exactly these names."""
    listed = ", ".join(map(repr, sorted(needed)))
    if not isinstance(data, Mapping):
        raise DataError(f"the model needs data as a mapping with {listed}; got {type(data).__name__}.")
    if set(data) != needed:
        raise DataError(f"the model needs data with {listed}; got {', '.join(map(repr, data)) or 'none'}.")


def drawn_from(prior: Prior, seed: int) -> dict[str, np.ndarray]:
    """One draw of the parameters from their prior."""
    check_not_forked()
    params: dict[str, Any] = {}
    for key, (name, value) in zip(
        jax.random.split(jax.random.key(seed), len(prior)), prior.items(), strict=True
    ):
        distribution = value if isinstance(value, dist.Distribution) else value(params)
        params[name] = distribution.sample(key)
    return {name: np.asarray(value) for name, value in params.items()}


# A series (draws, rows) for each draw of the parameters, which have draws on the leading axis.
Series = Callable[[Mapping[str, np.ndarray], int, np.random.Generator], np.ndarray]


def simulated(
    series: Series, prior: Prior, many_sequences: bool, num_observations: int, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Data, and the parameters they were drawn with: one series, or many of `LENGTH` rows."""
    params = drawn_from(prior, seed)
    count, length = (num_observations, LENGTH) if many_sequences else (1, num_observations)
    alike = {name: np.repeat(value[None], count, axis=0) for name, value in params.items()}
    y = series(alike, length, np.random.default_rng(seed)).astype(np.float32)
    return {"y": y if many_sequences else y[0]}, params


def predicted(
    series: Series, params: Mapping[str, np.ndarray], data: Any, seed: int
) -> dict[str, np.ndarray]:
    """New series of the lengths of `data["y"]`, whose values are not used."""
    generator, shape = np.random.default_rng(seed), np.shape(data["y"])
    found = [series(params, shape[-1], generator) for _ in range(int(np.prod(shape[:-1])))]
    return {"y": np.stack(found, axis=1).reshape(len(found[0]), *shape)}
