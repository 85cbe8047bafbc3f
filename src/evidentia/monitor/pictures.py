"""The picture of a stream, from the results of its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evidentia.errors import ConfigurationError, kind_of
from evidentia.monitor.average_records import AverageUpdate
from evidentia.monitor.change_records import ChangeReport
from evidentia.monitor.e_detector import Change
from evidentia.monitor.protocols import UpdateLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ONE = "model"  # the name of a model that is alone


def plot_updates(
    updates: Sequence[AverageUpdate | ChangeReport | UpdateLike],
    changes: Sequence[Change] = (),
    axes: Sequence[Axes] | None = None,
) -> tuple[Axes, ...]:
    """Plot what the results of batches say: predictions, model probabilities, changes.

    The upper picture has the log predictive density per row of each batch, in nats, and the lower
    one the probabilities of an average. A change is a solid line in the area of its interval; a
    dotted line is the row at which it was seen.

    Args:
        updates: what `update` of a `ModelAverage`, a `ChangeDetector` or an `Online` returned, one
            for each batch.
        changes: further alarms, such as those of a detector beside an average.
        axes: axes to draw into, two for an average; a new pyplot figure if not given.

    Returns:
        The axes.

    Raises:
        ConfigurationError: there are no updates, or something else is among them.

    Example:
        >>> updates = [averaged.update(batch) for batch in stream]  # doctest: +SKIP
        >>> ev.monitor.plot_updates(updates)  # doctest: +SKIP
    """
    from evidentia.display.stream_plot import StreamCurves, draw_stream

    if not updates:
        raise ConfigurationError("updates must hold the result of at least one batch; got none.")
    by_name = [_by_name(update) for update in updates]
    alarms = [one.alarm for one in updates if isinstance(one, ChangeReport) and one.alarm is not None]
    names = list(by_name[0])
    weighed = [one.probabilities for one in updates if isinstance(one, AverageUpdate)]
    curves = StreamCurves(
        np.array([next(iter(one.values())).num_observations for one in by_name]),
        {
            name: np.array([one[name].log_predictive / one[name].batch_size for one in by_name])
            for name in names
        },
        {name: np.array([one[name] for one in weighed]) for name in names if weighed and len(names) > 1},
        [*alarms, *changes],
    )
    return draw_stream(curves, axes)


def _by_name(update: AverageUpdate | ChangeReport | UpdateLike) -> dict[str, UpdateLike]:
    if isinstance(update, AverageUpdate):
        return dict(update.updates)
    found = update.update if isinstance(update, ChangeReport) else update
    if not isinstance(found, UpdateLike):
        raise ConfigurationError(
            f"updates must be results of ModelAverage.update, ChangeDetector.update or Online.update; got {kind_of(found)}."
        )
    return {ONE: found}
