"""One stream of a fleet, as an object with the interface of `Online`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.data.arrays import checked_batch
from evidentia.errors import ConfigurationError, EvidentiaError, check_seed
from evidentia.fleet.record import FleetEvidence, known_diagnostics, summarised
from evidentia.online import state as online
from evidentia.online.mixture import log_mixture
from evidentia.online.state import OnlineUpdate
from evidentia.results.weighted import Weighted
from evidentia.streams.state import METHOD, Outcome, Shared, StreamState, take_in_batches
from evidentia.system.sharing import OneAtATime, check_not_forked


class Stream:
    """One stream of an `OnlineFleet`, with the interface of `Online` for a single model.

    Attributes:
        state: immutable; see `restore`.
        alone: a context manager, in which no other thread changes the streams of the fleet.

    Example:
        >>> fleet["store 7"].log_evidence  # doctest: +SKIP
        -281.4

    Source: Chopin (2002), Biometrika 89, 539; `streams/draws.py` has the equations.
    """

    def __init__(self, common: Shared, seed: int, alone: OneAtATime):
        self._common = common
        self.alone: OneAtATime = alone
        self.state: StreamState = StreamState(seed)

    @property
    def num_observations(self) -> int:
        """Rows seen so far."""
        return self.state.num_observations

    @property
    def log_evidence(self) -> float:
        """Log evidence of all rows seen, in nats; zero before the first batch."""
        return self.state.estimate.log_evidence

    @property
    def standard_error(self) -> float:
        """Standard error of `log_evidence`, in nats."""
        return self.state.estimate.standard_error

    @property
    def weighted(self) -> Weighted:
        """The draws: constrained parameters by name, with `log_weights`."""
        positions, log_weights = self._weighted()
        params = self._common.model.constrain(jnp.asarray(positions))
        named = {name: np.asarray(values) for name, values in params.items()}
        return Weighted(named, weights.normalise(log_weights))

    @property
    def posterior(self) -> dict[str, ndarray]:
        """Equally weighted draws of the parameters by name, resampled with the seed."""
        return self.weighted.draws(self.state.seed)

    def log_predictive(self, batch: Any) -> Float[ndarray, " rows"]:
        """log p(row | rows seen) of each row of a batch, in nats, float64.

        The batch is not processed. Raises DataError for an invalid batch, and ConfigurationError
        before the first one.
        """
        return log_mixture(self._common.model, *self._weighted(), self._checked(batch))

    def evidence(self) -> FleetEvidence:
        """The result so far; in its diagnostics, `way` is "batched" or "online", with a `reason`.

        Raises ConfigurationError before the first batch.
        """
        _, log_weights = self._weighted()
        state, model, signs = self.state, self._common.model, dict[str, str]()
        diagnostics: dict[str, Any] = {"way": "batched", "ess": weights.ess(log_weights)}
        if state.own is not None:
            measured, signs = online.diagnose(model, METHOD, state.own)
            diagnostics = {"way": "online", "reason": state.reason, **known_diagnostics(measured)}
        found = state.estimate
        return FleetEvidence(
            model.name,
            found.log_evidence,
            found.standard_error,
            state.num_observations,
            state.seed,
            state.seconds,
            *summarised(self.weighted, log_weights, state.seed),
            diagnostics=diagnostics,
            signs=signs,
        )

    def update(self, batch: Any) -> OnlineUpdate:
        """Process a batch of this stream alone; `OnlineFleet.update` takes those of many together.

        Raises DataError or EstimationError; the state is then as it was before.
        """
        with self.alone:
            (outcome,) = outcomes_of([self], [self._checked(batch)])
            found = self.accept(outcome)
        if isinstance(found, EvidentiaError):
            raise found
        return found

    def accept(self, outcome: Outcome) -> OnlineUpdate | EvidentiaError:
        """Take the state from the outcome of a batch, and return the result; or its error."""
        if isinstance(outcome, EvidentiaError):
            return outcome
        self.state, update = outcome
        return update

    def restarted(self, seed: int | None = None) -> Stream:
        """A new stream of the same model, before any batch, which belongs to no fleet.

        Raises ConfigurationError for a seed that is not an integer from 0.
        """
        if seed is not None:
            check_seed(seed)
        return Stream(self._common, self.state.seed if seed is None else seed, self.alone)

    def restore(self, state: StreamState) -> None:
        """Return to an earlier `state` of this object."""
        with self.alone:
            self.state = state

    def __repr__(self) -> str:
        return f"Stream({self._common.model.name!r}, {self.num_observations:,} observations)"

    def _checked(self, batch: Any) -> Any:
        check_not_forked()
        return checked_batch(batch, "batch", self._common.check_data, self._common.example)

    def _weighted(self) -> tuple[Float[ndarray, "draws parameters"], Float[ndarray, " draws"]]:
        check_not_forked()
        state = self.state  # another thread may update meanwhile
        if state.draws is not None:
            return state.draws.positions, state.draws.log_weights
        if state.own is None:
            raise ConfigurationError("no batch has been processed yet: call update first.")
        population = state.own.path.population
        return np.asarray(population.positions), population.log_weights


def outcomes_of(streams: Sequence[Stream], batches: Sequence[Any]) -> list[Outcome]:
    """What a batch of checked arrays each does to streams of one model; see `Stream.accept`."""
    if not streams:
        return []
    common = streams[0]._common  # pyright: ignore[reportPrivateUsage] of this module
    return take_in_batches(common, [stream.state for stream in streams], batches)
