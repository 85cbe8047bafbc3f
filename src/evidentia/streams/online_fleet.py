"""`OnlineFleet`: the log evidence of many streams of one model, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evidentia.checkpoint.packing import as_damaged
from evidentia.errors import EvidentiaError
from evidentia.fleet.jobs import kept
from evidentia.model.model import Model
from evidentia.streams import intake
from evidentia.streams.intake import FleetStep, Intake, Name, Saved
from evidentia.streams.stream import Stream, outcomes_of


class OnlineFleet(Mapping[Name, Stream]):
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
        self._intake = Intake(model, seed)
        self._streams: dict[Name, Stream] = {}

    @property
    def model(self) -> Model:
        """The model of all streams."""
        return self._intake.model

    @property
    def seed(self) -> int:
        """The seed from which those of the streams are made."""
        return self._intake.seed

    def update(self, batches: Mapping[Name, Any]) -> FleetStep:
        """Process a batch for each of some streams, by name; a new name begins a stream.

        Raises DataError if `batches` is no such mapping. Errors of single streams, as `Online`
            raises them, are kept in the result.
        """
        with self._intake.alone:
            arrays, errors = self._intake.read(batches)
            streams = {name: self._streams.get(name) or self._intake.stream(name) for name in arrays}
            results = {}
            outcomes = outcomes_of(list(streams.values()), list(arrays.values()))
            for (name, stream), outcome in zip(streams.items(), outcomes, strict=True):
                found = stream.accept(outcome)
                if isinstance(found, EvidentiaError):
                    errors[name] = kept(found)
                else:
                    results[name], self._streams[name] = found, stream
        return FleetStep(results, errors)

    def __getitem__(self, name: Name) -> Stream:
        return self._streams[name]

    def __delitem__(self, name: Name) -> None:
        with self._intake.alone:
            del self._streams[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(tuple(self._streams))  # another thread may begin a stream

    def __len__(self) -> int:
        return len(self._streams)

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint, from which `load` continues as this object would; as `Online.save`.

        Raises CheckpointError, and leaves a previous one unchanged, if it cannot be written.
        """
        intake.save(folder, self.packed(), self.model)

    @classmethod
    def load(cls, folder: str | Path, model: Model) -> OnlineFleet:
        """Load a saved fleet, given the same model, since functions are not written to files.

        Raises CheckpointError if there is none, it is damaged, or the model is different.
        """
        return cls.unpacked(intake.load(folder, cls.__name__), model)

    def packed(self) -> Saved:
        """This object without the model's functions, for a custom checkpoint."""
        with self._intake.alone:
            states = {name: stream.state for name, stream in self._streams.items()}
        return intake.packed(type(self).__name__, self._intake, {"seed": self.seed}, states)

    @classmethod
    def unpacked(cls, content: Saved, model: Model) -> OnlineFleet:
        """Rebuild a packed object. Raises CheckpointError if damaged or of another model."""
        saved, common = intake.unpacked(content, cls.__name__, model)
        with as_damaged():
            fleet = cls(model, **saved.settings)
            fleet._intake.common = common
            for name, state in zip(saved.names, saved.streams, strict=True):
                fleet._streams[name] = fleet._intake.stream(name)
                fleet._streams[name].restore(state)
        return fleet

    def __repr__(self) -> str:
        return f"OnlineFleet({self.model!r}, {len(self):,} streams)"
