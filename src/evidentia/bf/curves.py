"""Bayes factors along the prior's width, and along the number of observations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import ConfigurationError, check_count, check_positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

NUM_SCALES = 60  # of a curve; a fifth of them where each is of several models


class Robustness(NamedTuple):
    """BF₁₀ against the width of the prior.

    Attributes:
        what: the width is called.
        scale: of the prior.
        log_bf10: in nats, at each.
        marked: named widths and the one that was used, with their log BF₁₀.
    """

    what: str
    scale: Float[ndarray, " scales"]
    log_bf10: Float[ndarray, " scales"]
    marked: Mapping[str, tuple[float, float]]

    def to_pandas(self) -> DataFrame:
        """A row for each width."""
        from pandas import DataFrame

        return DataFrame({self.what: self.scale, "log_bf10": self.log_bf10})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot BF₁₀ against the width, with the named ones marked."""
        from evidentia.bf.plots import draw_robustness

        return draw_robustness(self, ax)


class SequentialCurve(NamedTuple):
    """BF₁₀ of the first n observations.

    Attributes:
        num_observations: n.
        log_bf10: in nats; NaN where the first n have no Bayes factor, such as equal values.
    """

    num_observations: Int[ndarray, " points"]
    log_bf10: Float[ndarray, " points"]

    def to_pandas(self) -> DataFrame:
        """A row for each n."""
        from pandas import DataFrame

        return DataFrame({"n": self.num_observations, "log_bf10": self.log_bf10})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot BF₁₀ against n, between the grades of evidence."""
        from evidentia.bf.plots import draw_sequential

        return draw_sequential(self, ax)


class Curves(NamedTuple):
    """A curve for each of several questions, such as the terms of an ANOVA.

    Attributes:
        by_question: BF₁₀ of each.
    """

    by_question: Mapping[str, Robustness | SequentialCurve]

    def to_pandas(self) -> DataFrame:
        """The rows of all curves, with a column for the question."""
        from pandas import concat

        return concat(
            [curve.to_pandas().assign(question=name) for name, curve in self.by_question.items()],
            ignore_index=True,
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot all curves into one picture."""
        from evidentia.bf.plots import draw_curves

        return draw_curves(self.by_question, ax)


class Repeats(NamedTuple):
    """The same analysis of several questions again, at other widths and of the first data.

    Attributes:
        scale: of the prior that was used.
        scales: those with names.
        of_scale: log BF₁₀ of each question at a width; None for a prior without one.
        of_first: the number of observations of the first steps, and log BF₁₀ of each question:
            none if they are too few.
        num_steps: of the data, such as rows.
        least: steps for which it is defined.
        what: the width is called.
        lowest: scale above which the prior is defined.
    """

    scale: float
    scales: Mapping[str, float]
    of_scale: Callable[[float], Mapping[str, float]] | None
    of_first: Callable[[int], tuple[int, Mapping[str, float]]]
    num_steps: int
    least: int = 1
    what: str = "scale"
    lowest: float = 0.0


def robustness_of(
    of_scale: Callable[[float], float], again: Any, scales: Sequence[float] | None
) -> Robustness:
    """The curve over given widths, or over those around the named ones."""
    return next(_robustness(lambda scale: {"": of_scale(scale)}, again, scales, NUM_SCALES))[1]


def robustness_of_each(
    of_scale: Callable[[float], Mapping[str, float]], again: Any, scales: Sequence[float] | None
) -> Curves:
    """A curve for each question over given widths, or over those around the named ones."""
    return Curves(dict(_robustness(of_scale, again, scales, NUM_SCALES // 5)))


def _robustness(
    of_scale: Callable[[float], Mapping[str, float]],
    again: Any,
    scales: Sequence[float] | None,
    number: int,
) -> Iterator[tuple[str, Robustness]]:
    marked = {**again.scales, "yours": again.scale}
    if again.scale in again.scales.values():
        del marked["yours"]
    if scales is None:
        values = list(marked.values())
        chosen = np.geomspace(max(min(values) / 10, 1.02 * again.lowest), max(values) * 2, number)
    else:
        if not isinstance(scales, Iterable):
            raise ConfigurationError(f"scales must be a list of numbers; got {scales!r}.")
        for scale in scales:
            check_positive("scales", scale)
        chosen = np.sort(np.array(list(scales), float))
    if not len(chosen):
        raise ConfigurationError("scales must hold at least one number; got none.")
    found = {scale: of_scale(scale) for scale in [*chosen, *marked.values()]}
    for question in found[chosen[0]]:
        log_bf10 = np.array([found[scale][question] for scale in chosen])
        known = {name: (scale, found[scale][question]) for name, scale in marked.items()}
        yield question, Robustness(again.what, chosen, log_bf10, known)


def sequential_of(
    of_first: Callable[[int], float], least: int, count: int, num_points: int
) -> SequentialCurve:
    """The curve from the least number of observations to all."""
    counts = counts_of(least, count, num_points)
    return SequentialCurve(counts, np.array([of_first(int(n)) for n in counts]))


def sequential_of_each(again: Repeats, questions: Iterable[str], num_points: int) -> Curves:
    """A curve for each question, NaN where the first data have no answer."""
    steps = counts_of(again.least, again.num_steps, num_points)
    counts, found = zip(*(again.of_first(int(step)) for step in steps), strict=True)
    return Curves(
        {
            name: SequentialCurve(np.array(counts), np.array([one.get(name, np.nan) for one in found]))
            for name in questions
        }
    )


def counts_of(least: int, count: int, num_points: int) -> Int[ndarray, " points"]:
    """Numbers of observations from the least to all."""
    check_count("num_points", num_points, 2)
    return np.unique(np.linspace(min(least, count), count, num_points).round().astype(int))
