"""What `Online` keeps of the rows seen, by how the rows of a model depend on each other."""

from typing import Any

from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.online import prefix, reservoir, returning
from evidentia.online.past import StreamPast
from evidentia.online.prefix import Prefix, of_segments
from evidentia.online.returning import ReturningGroups

Past = StreamPast | Prefix | ReturningGroups


def begun(model: Model, batch: Any, most: int, seed: int) -> tuple[BoundModel, Past]:
    """A model bound to the first batch of a stream, and the past before it.

    Raises:
        DataError, ModelError, ConfigurationError: a batch, model or size that cannot be used.
    """
    if model.groups is not None:
        return returning.begun(model, batch, most)
    if (segments := of_segments(model)) is not model:
        return prefix.begun(segments, batch, most)
    return model.bind(batch), StreamPast(reservoir.empty(batch, most, seed))
