"""`OnlineFleet`: the log evidence of many streams of one model, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evidentia.errors import EvidentiaError
from evidentia.fleet.jobs import kept
from evidentia.model.model import Model
from evidentia.streams.intake import FleetStep, Name
from evidentia.streams.named import NamedStreams
from evidentia.streams.state import StreamState
from evidentia.streams.stream import Stream, outcomes_of


class OnlineFleet(NamedStreams[Stream]):
    """The log evidence of many streams after every batch: `Online` for a thousand series at once.

    Each stream keeps 512 weighted draws of its posterior; one program weighs those of all streams
    by the new rows, and importance sampling draws afresh where the weights have become uneven. A
    stream goes on as an `Online` of its own where no proposal fits its posterior (until one does),
    with more than 10,000 rows, and if the model has symmetries or more than 10 parameters. Up to
    10,000 rows are kept of each stream.

    The fleet maps names to streams, which have the interface of `Online`.

    Args:
        model: a prior and a pointwise log-likelihood, the same for all streams.
        seed: the same seed and batches give a stream the same numbers on the same machine,
            whichever other streams there are.

    Raises:
        ModelError, ConfigurationError: an argument is invalid.

    Example:
        >>> fleet = ev.OnlineFleet(model)  # doctest: +SKIP
        >>> for batches in feed:  # such as {"store 1": ..., "store 7": ...} # doctest: +SKIP
        ...     step = fleet.update(batches)
        ...     for name, update in step.results.items():
        ...         print(name, update.num_observations, update.log_predictive)
        >>> fleet["store 7"].log_evidence  # doctest: +SKIP

    Source: Chopin (2002), Biometrika 89, 539; Cappé, Douc, Guillin, Marin, Robert (2008),
        Statistics and Computing 18, 447. `streams/draws.py` has the equations.
    """

    def __init__(self, model: Model, *, seed: int = 0):
        super().__init__(model, seed, {})

    def update(self, batches: Mapping[Name, Any]) -> FleetStep:
        """Process a batch for each of some streams, by name; a new name begins a stream.

        Raises DataError if `batches` is no such mapping. Errors of single streams, as `Online`
            raises them, are kept in the result.
        """
        with self._intake.alone:
            arrays, errors = self._intake.read(batches)
            streams = {name: self._followers.get(name) or self._intake.stream(name) for name in arrays}
            results = {}
            outcomes = outcomes_of(list(streams.values()), list(arrays.values()))
            for (name, stream), outcome in zip(streams.items(), outcomes, strict=True):
                found = stream.accept(outcome)
                if isinstance(found, EvidentiaError):
                    errors[name] = kept(found)
                else:
                    results[name], self._followers[name] = found, stream
        return FleetStep(results, errors)

    def _state_of(self, follower: Stream) -> StreamState:
        return follower.state

    def _resumed(self, name: Name, state: StreamState) -> Stream:
        stream = self._intake.stream(name)
        stream.restore(state)
        return stream
