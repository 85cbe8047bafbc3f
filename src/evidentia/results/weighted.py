"""The weighted draws of a posterior: parameters by name, and what belongs to each draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.errors import ConfigurationError, check_count, unknown_name
from evidentia.results.known_model import KnownModel
from evidentia.results.predicted import Chosen


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Mapping[str, ndarray]):
    """The weighted draws of a posterior, a mapping of names to arrays (particles, ...).

    A mean is `np.tensordot(np.exp(weighted.log_weights), weighted["slope"], 1)`. Other packages
    take `samples`, `columns`, `np.exp(weighted.logwt)` and `logl`.

    Attributes:
        parameters: the arrays by name.
        log_weights: normalised log weights of the particles.
        known: `log_likelihood` and `log_prior`, as far as they are known.
        model: the model, while the session has it; neither files nor pickles hold it.
    """

    parameters: dict[str, ndarray]
    log_weights: Float[ndarray, " particles"]
    known: dict[str, ndarray] = field(default_factory=dict)
    model: KnownModel | None = None

    def __getitem__(self, name: str) -> ndarray:
        if name not in self.parameters:
            raise unknown_name("parameter", name, self.parameters)
        return self.parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def __getstate__(self) -> dict[str, Any]:
        return {"parameters": self.parameters, "log_weights": self.log_weights, "known": self.known} | {
            "model": None  # whose functions cannot be pickled in general
        }

    def __repr__(self) -> str:
        return f"Weighted({len(self.log_weights):,} particles, effective {self.ess:,.0f}: {', '.join(self)})"

    @property
    def ess(self) -> float:
        """Effective sample size of the weights, in particles."""
        return weights.ess(self.log_weights)

    @property
    def log_likelihood(self) -> Float[ndarray, " particles"]:
        """The log-likelihood of all data at each particle, in nats.

        It is computed when it is first asked for, and then saved with the result; of a plain
        function (`Model.from_callable`) it is known from the run. Raises ConfigurationError for a
        result without its model and data, such as a loaded one.
        """
        return self._known("log_likelihood")

    @property
    def log_prior(self) -> Float[ndarray, " particles"]:
        """The log prior density of the parameters at each particle, as for `log_likelihood`.

        It is that of the model's own parameters: for a `Regression`, of standardised columns.
        """
        return self._known("log_prior")

    def _known(self, name: str) -> ndarray:
        if name not in self.known:
            if self.model is None:
                raise ConfigurationError(
                    f"{name} needs the model and its data in memory; got a result without them, such as a loaded one, one of an "
                    f"exact integral or of rows elsewhere. Estimate it in this session; files keep {name} if it was asked for "
                    "before the result was saved."
                )
            self.known[name] = getattr(self.model, name)()
        return self.known[name]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `samples`, such as `weights[2, 0]`."""
        return [
            f"{name}[{', '.join(map(str, index))}]" if index else name
            for name, values in self.parameters.items()
            for index in np.ndindex(values.shape[1:])
        ]

    @property
    def samples(self) -> Float[ndarray, "particles columns"]:
        """All scalars of the particles in one array, as for dynesty, corner and anesthetic."""
        flat = [np.asarray(values).reshape(len(self.log_weights), -1) for values in self.parameters.values()]
        return np.concatenate([np.zeros((len(self.log_weights), 0)), *flat], axis=1)

    @property
    def logwt(self) -> Float[ndarray, " particles"]:
        """`log_weights`, by the name that nested samplers use."""
        return self.log_weights

    @property
    def logl(self) -> Float[ndarray, " particles"]:
        """`log_likelihood`, by the name that nested samplers use."""
        return self.log_likelihood

    @cached_property
    def is_even(self) -> bool:
        """Whether all particles have the same weight."""
        return bool(np.ptp(self.log_weights) < 1e-9) if len(self.log_weights) else True

    def chosen(self, seed: int, count: int | None = None) -> ndarray:
        """Particles with equal weights: systematically resampled, in random order.

        If `count` is not given, as many as there are: each once, in order, if all weights are
        equal.
        """
        if count is None and self.is_even:
            return np.arange(len(self.log_weights))
        return weights.systematic(np.random.default_rng(seed), self.log_weights, count)

    def draws(self, seed: int, count: int | None = None) -> dict[str, ndarray]:
        """The parameters of particles that are `chosen`."""
        return dict(self.equal(seed, count).draws)

    def equal(self, seed: int, count: int | None = None) -> Chosen:
        """As `draws`, with the parameters of the model itself."""
        if count is not None:
            check_count("n", count, 1)
        chosen, own = self.chosen(seed, count), {} if self.model is None else self.model.draws
        return Chosen(*({name: values[chosen] for name, values in one.items()} for one in (self, own)))


def evenly_weighted(parameters: dict[str, ndarray], count: int) -> Weighted:
    """Draws of equal weights."""
    return Weighted(parameters, np.full(count, -np.log(count)))
