"""t tests: JZS (Rouder et al. 2009) and informed (Gronau, Ly and Wagenmakers 2020)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from scipy import stats

from evidentia.bf import student
from evidentia.bf.asked import Question, answer
from evidentia.bf.effect import Effect
from evidentia.bf.hypotheses import interval_of
from evidentia.bf.prior import Prior, law_of, of_law, scale_of
from evidentia.bf.result import BayesFactor
from evidentia.bf.samples import count_of, finite_of, numbers_of, without_missing
from evidentia.errors import ConfigurationError, DataError, check_flag

SCALES = {"medium": np.sqrt(0.5), "wide": 1.0, "ultrawide": np.sqrt(2)}
NAME = "effect size δ"
EVERYWHERE = (-np.inf, np.inf)


class Statistic(NamedTuple):
    """A t statistic.

    Attributes:
        t: its value.
        freedom: degrees of freedom.
        size: rows of one sample, or n m / (n + m) of two.
        num_rows: rows in all.
    """

    t: float
    freedom: float
    size: float
    num_rows: int


def t_test(
    x: Any = None,
    y: Any = None,
    paired: bool = False,
    null: float | tuple[float, float] = 0.0,
    scale: str | float = "medium",
    alternative: str = "two-sided",
    prior: Any = None,
    *,
    t: float | None = None,
    n: int | None = None,
    n_other: int | None = None,
) -> BayesFactor:
    """The Bayes factor of a t test: of one sample, pairs or two samples, from data or t and n.

    Under H₁ the effect size δ, the (difference of) mean in standard deviations, has a Cauchy prior
    or one of your own; the mean and the variance have Jeffreys' priors, shared by H₀. The integral
    over δ is exact to about ten digits.

    Args:
        x: numbers, of shape (n,).
        y: of a second sample, or of the other half of each pair; δ is then of x less y.
        paired: whether rows of x and y belong together.
        null: the mean (or difference) under H₀, in units of the data; or an interval (low, high)
            of the effect size, which H₁ leaves out.
        scale: of the Cauchy prior: "medium" (√2/2), "wide" (1), "ultrawide" (√2) or a number.
        alternative: "two-sided", "greater" or "less"; one-sided priors are renormalised.
        prior: of δ, in place of the Cauchy: a distribution of NumPyro or SciPy, such as
            `dist.StudentT(3, 0.35, 0.102)`.
        t: the t statistic, in place of data; with two samples, of equal variances.
        n: rows (or pairs) that it was computed of.
        n_other: rows of the second sample.

    Returns:
        The Bayes factor, in nats and in words, with the posterior of δ.

    Raises:
        ConfigurationError: an argument of another kind; data and t at once.
        DataError: data that are no numbers, do not vary, or have other lengths than pairs need.

    Example:
        >>> drug1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
        >>> drug2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
        >>> round(ev.bf.t_test(drug2, drug1, paired=True).bf10, 6)
        17.25888

    Source: Rouder, Speckman, Sun, Morey, Iverson (2009); Gronau, Ly, Wagenmakers (2020).
    """
    check_flag("paired", paired)
    interval = interval_of(null, "the effect size", EVERYWHERE)
    mean = 0.0 if interval else float(null)  # type: ignore[arg-type]
    if x is None:
        if t is None or n is None:
            raise ConfigurationError("t_test needs data, x, or both t and n of a published test.")
        if y is not None or paired or mean:
            raise ConfigurationError(
                "with t and n in place of data, leave y, paired and a null mean out: t has them in it."
            )
        title, statistic, notes, of_first = *published(t, n, n_other), (), None
    else:
        if t is not None or n is not None or n_other is not None:
            raise ConfigurationError("t_test takes data, or t and n in place of them; got both.")
        title, statistic, notes, of_first = _of_data(x, y, paired, mean)
    own = None if prior is None else of_law(*law_of(prior))
    first = None if of_first is None else partial(_of_first, of_first)
    width = scale_of(scale, SCALES)
    question = Question(
        test=title,
        effect_of=partial(effect_of, [statistic]),
        prior=own,
        scale=width,
        scales=SCALES,
        law=cauchy,
        num_observations=statistic.num_rows,
        statistics={"t": statistic.t, "degrees of freedom": statistic.freedom},
        first=first,
        least=2 if y is None or paired else 3,
        notes=notes,
    )
    return answer(question, alternative, interval)


def _of_first(of_first: Callable[[int], Statistic], count: int) -> Callable[[Prior], Effect]:
    return partial(effect_of, [of_first(count)])


@lru_cache(maxsize=256)
def cauchy(scale: float) -> Prior:
    """The default prior of an effect size."""
    return of_law(stats.cauchy(0, scale), f"Cauchy(0, {scale:.4g})")


def effect_of(statistics: list[Statistic], prior: Prior) -> Effect:
    """The effect size behind one t statistic, or behind several."""
    precisions = np.array([one.size / (1 + one.t**2 / (2 * one.freedom)) for one in statistics])
    centres = np.array([one.t / np.sqrt(one.size) for one in statistics])
    return Effect(
        name=NAME,
        log_prior=prior.log_density,
        log_likelihood=lambda effect: sum(
            (student.log_likelihood(effect, one.t, one.freedom, one.size) for one in statistics), np.zeros(())
        ),
        prior_edges=prior.edges,
        peak=float(precisions @ centres / precisions.sum()),
        width=float(precisions.sum() ** -0.5),
    )


def published(t: Any, n: Any, n_other: Any = None) -> tuple[str, Statistic]:
    """A statistic that is given in place of data, and what its test is called."""
    value, count = finite_of("t", t), count_of("n", n, 2 if n_other is None else 1)
    if n_other is None:
        return "t test, one sample or pairs", Statistic(value, count - 1, count, count)
    other = count_of("n_other", n_other, 1)
    if count + other < 3:
        raise ConfigurationError(f"n and n_other must be three or more together; got {count} and {other}.")
    return "t test, two samples", Statistic(
        value, count + other - 2, count * other / (count + other), count + other
    )


def _of_data(
    x: Any, y: Any, paired: bool, mean: float
) -> tuple[str, Statistic, tuple[str, ...], Callable[[int], Statistic]]:
    first = numbers_of("x", x)
    if y is None:
        if paired:
            raise ConfigurationError("paired=True needs y, the other half of each pair.")
        (first,), notes = without_missing(x=first)
        return "t test, one sample", one_sample(first - mean), notes, lambda n: one_sample(first[:n] - mean)
    second = numbers_of("y", y)
    if paired:
        (first, second), notes = without_missing(x=first, y=second)
        difference = first - second - mean
        return "t test, pairs", one_sample(difference), notes, lambda n: one_sample(difference[:n])
    (first,), notes = without_missing(x=first)
    (second,), more = without_missing(y=second)
    share = len(first) / max(len(first) + len(second), 1)  # both samples grow in proportion

    def of_first(count: int) -> Statistic:
        own = min(max(round(count * share), 1), len(first))
        return two_samples(first[:own] - mean, second[: count - own])

    return "t test, two samples", two_samples(first - mean, second), (*notes, *more), of_first


def one_sample(values: ndarray) -> Statistic:
    """The t statistic of a mean of zero.

    Raises:
        DataError: fewer than two values, or all are equal.
    """
    count = len(values)
    if count < 2:
        raise DataError(f"a t test needs at least two observations; got {count}.")
    values = _in_own_unit(values)
    deviation = values.std(ddof=1)
    _check_spread(deviation, values, "all observations (or differences of pairs) are equal")
    return Statistic(float(values.mean() / (deviation / np.sqrt(count))), count - 1, count, count)


def two_samples(first: ndarray, second: ndarray) -> Statistic:
    """The t statistic of equal means, with equal variances.

    Raises:
        DataError: fewer than three values, an empty sample, or no variation in either.
    """
    sizes = len(first), len(second)
    if min(sizes) < 1 or sum(sizes) < 3:
        raise DataError(
            f"a t test of two samples needs at least three observations, and one in each; got {sizes[0]} and {sizes[1]}."
        )
    both = _in_own_unit(np.concatenate([first, second]))
    first, second = both[: sizes[0]], both[sizes[0] :]
    freedom = sum(sizes) - 2
    squares = ((first - first.mean()) ** 2).sum() + ((second - second.mean()) ** 2).sum()
    deviation = np.sqrt(squares / freedom)
    _check_spread(deviation, both, "no sample varies")
    size = sizes[0] * sizes[1] / sum(sizes)
    return Statistic(
        float((first.mean() - second.mean()) / deviation * np.sqrt(size)), freedom, size, sum(sizes)
    )


def _in_own_unit(values: ndarray) -> ndarray:
    """Divided by the largest, as squares of very large or small numbers are no floats."""
    return values / (np.abs(values).max(initial=0.0) or 1.0)


def _check_spread(deviation: float, values: ndarray, what: str) -> None:
    if not deviation > 1e-14 * np.abs(values).max(initial=0.0):
        raise DataError(f"{what}: t is not defined without variation.")
