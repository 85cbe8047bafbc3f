"""What both fleets are: a mapping from names to what follows their streams, in one checkpoint."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from evidentia.checkpoint.packing import as_damaged
from evidentia.model.model import Model
from evidentia.streams import intake
from evidentia.streams.intake import Intake, Name, Saved

Follower = TypeVar("Follower")


class NamedStreams(Mapping[Name, Follower]):
    """A fleet: followers of streams of one model, by name.

    `settings` are the arguments beside the model and the seed.
    """

    def __init__(self, model: Model, seed: int, settings: dict[str, Any]):
        self._intake = Intake(model, seed)
        self._settings = settings
        self._followers: dict[Name, Follower] = {}

    @property
    def model(self) -> Model:
        """The model of all streams."""
        return self._intake.model

    @property
    def seed(self) -> int:
        """The seed from which those of the streams are made."""
        return self._intake.seed

    def __getitem__(self, name: Name) -> Follower:
        return self._followers[name]

    def __delitem__(self, name: Name) -> None:
        with self._intake.alone:
            del self._followers[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(tuple(self._followers))  # another thread may begin a stream

    def __len__(self) -> int:
        return len(self._followers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {len(self):,} streams)"

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint, from which `load` continues as this object would; as `Online.save`.

        Raises CheckpointError, and leaves a previous one unchanged, if it cannot be written.
        """
        intake.save(folder, self.packed(), self.model)

    @classmethod
    def load(cls, folder: str | Path, model: Model) -> Self:
        """Load a saved fleet, given the same model, since functions are not written to files.

        Raises CheckpointError if there is none, it is damaged, or the model is different.
        """
        return cls.unpacked(intake.load(folder, cls.__name__), model)

    def packed(self) -> Saved:
        """This object without the model's functions, for a custom checkpoint."""
        with self._intake.alone:
            states = {name: self._state_of(one) for name, one in self._followers.items()}
        settings = {**self._settings, "seed": self.seed}
        return intake.packed(type(self).__name__, self._intake, settings, states)

    @classmethod
    def unpacked(cls, content: Saved, model: Model) -> Self:
        """Rebuild a packed object. Raises CheckpointError if damaged or of another model."""
        saved, common = intake.unpacked(content, cls.__name__, model)
        with as_damaged():
            fleet = cls(model, **saved.settings)
            fleet._intake.common = common
            for name, state in zip(saved.names, saved.streams, strict=True):
                fleet._followers[name] = fleet._resumed(name, state)
        return fleet

    @abstractmethod
    def _state_of(self, follower: Follower) -> Any:
        """What a checkpoint keeps of a follower."""

    @abstractmethod
    def _resumed(self, name: Name, state: Any) -> Follower:
        """The follower of a stream as it was."""
