"""`Predicted`: draws of new observations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from evidentia.errors import unknown_name

if TYPE_CHECKING:
    from pandas import DataFrame


class Chosen(NamedTuple):
    """Posterior draws of equal weights, from which new observations are drawn.

    Attributes:
        draws: parameters by the names of results, in their units.
        own: those of the model, in its own units; empty if they are not at hand.
    """

    draws: Mapping[str, ndarray]
    own: Mapping[str, ndarray]


Predictor = Callable[[Chosen, Any, int], Mapping[str, ndarray]]  # of draws, new data and a seed


class Predicted(Mapping[str, ndarray]):
    """Draws from the posterior predictive distribution: observed variables by name.

    Each is an array (draws, rows, ...), a row for each of the new data.

    Example:
        >>> predicted = evidence.predict(new_table)  # doctest: +SKIP
        >>> predicted["price"].shape  # doctest: +SKIP
        (1000, 3)
        >>> predicted.to_pandas()  # doctest: +SKIP
             mean     sd    low    high
        0  4021.3  612.0  2811.  5230.1
    """

    def __init__(self, draws: Mapping[str, ndarray]):
        self._draws = dict(draws)

    def __getitem__(self, name: str) -> ndarray:
        if name not in self._draws:
            raise unknown_name("observed variable", name, self._draws)
        return self._draws[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._draws)

    def __len__(self) -> int:
        return len(self._draws)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in self.items())
        return f"Predicted({shapes})"

    def to_pandas(self, name: str | None = None) -> DataFrame:
        """A row for each new row: mean, sd and the central 95% interval, as brms's `predict`.

        Of categories, their probabilities. With several numbers in a row, the index has their
        places, too.

        Args:
            name: of the variable; the first if not given.
        """
        from pandas import DataFrame

        draws = self[next(iter(self)) if name is None else name]
        if draws.dtype.kind not in "biuf":
            levels = list(dict.fromkeys(np.unique(draws).tolist()))
            return DataFrame({level: (draws == level).mean(0) for level in levels})
        flat = draws.reshape(len(draws), -1).astype(np.float64)
        low, high = np.quantile(flat, (0.025, 0.975), axis=0)
        index = None if draws.ndim == 2 else list(np.ndindex(draws.shape[1:]))
        columns = {"mean": flat.mean(0), "sd": flat.std(0), "low": low, "high": high}
        return DataFrame(columns, index=index)
