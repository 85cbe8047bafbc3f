"""The picture of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evidentia.errors import ConfigurationError
from evidentia.results.comparing import compare
from evidentia.results.result import Evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_comparison(
    evidences: Mapping[str, Evidence],
    prior_probabilities: Mapping[str, float] | None = None,
    axes: Sequence[Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Plot log Bayes factors and model probabilities against the number of observations.

    Args:
        evidences: at least two, by name, on the same data.
        prior_probabilities: as for `compare`.
        axes: two axes to draw into; a new pyplot figure if not given.

    Returns:
        The two axes.

    Raises:
        ConfigurationError: there are fewer than two models, or as raised by `compare`.
    """
    from evidentia.display.plots import draw_comparison

    comparison = compare(evidences, prior_probabilities)
    if len(evidences) < 2:
        raise ConfigurationError(
            f"a picture of a comparison needs at least two models; got {len(evidences)}."
        )
    if flat := [name for name, one in evidences.items() if not isinstance(one, Evidence)]:
        raise ConfigurationError(f"a picture needs an Evidence, with its trajectory, for {flat[0]!r}.")
    trajectories = {name: evidences[name].trajectory for name in comparison.names}
    return draw_comparison(trajectories, comparison.prior_probability, axes)
