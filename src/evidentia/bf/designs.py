"""Bayes factor design analysis: how often would a t test tell (Schönbrodt, Wagenmakers 2018)?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from scipy import stats

from evidentia.bf import t_tests
from evidentia.bf.effect import Interval
from evidentia.bf.hypotheses import check_alternative, interval_of, intervals_of
from evidentia.bf.many_t import log_bayes_factors
from evidentia.bf.outcomes import Design, Outcome
from evidentia.bf.prior import law_of, of_law, scale_of
from evidentia.bf.samples import count_of
from evidentia.bf.stopping import stop, t_paths
from evidentia.bf.surface import surface_of
from evidentia.errors import (
    ConfigurationError,
    as_number,
    check_count,
    check_memory,
    check_seed,
    is_one_of,
)

TESTS = {"one sample": 1, "pairs": 1, "two samples": 2}


def design(
    effect: Any,
    test: str = "two samples",
    n: int | None = None,
    *,
    n_min: int = 20,
    n_max: int | None = None,
    step: int = 1,
    upper: float = 10.0,
    lower: float | None = None,
    scale: str | float = "medium",
    alternative: str = "two-sided",
    prior: Any = None,
    null: float | tuple[float, float] = 0.0,
    num_runs: int = 10_000,
    seed: int = 0,
) -> Design:
    """How often a t test would reach a Bayes factor, if there is an effect and if there is none.

    A sequential design computes the Bayes factor at `n_min` rows, then after every `step` rows,
    and stops at a threshold or at `n_max`. A fixed design computes it once, at `n`. Runs are
    simulated under both hypotheses; their Bayes factors are those of `t_test`, to 0.001 nats.

    Args:
        effect: the effect size under H₁, from which runs are simulated; or a distribution of
            effect sizes, of NumPyro or SciPy, from which each run draws its own.
        test: "two samples", "pairs" or "one sample".
        n: rows (of each sample, or pairs) of a fixed design.
        n_min: rows at the first look of a sequential design.
        n_max: rows at which it ends.
        step: rows between looks.
        upper: BF₁₀ at which it stops for H₁; infinite for never.
        lower: BF₁₀ at which it stops for H₀: 1 / upper if not given; 0 for never.
        scale: of the Cauchy prior of the test, as in `t_test`.
        alternative: "two-sided", "greater" or "less".
        prior: of the test, in place of the Cauchy.
        null: 0, or an interval (low, high) of effect sizes, which H₁ leaves out; runs under H₀
            have theirs from the prior within it.
        num_runs: simulated under each hypothesis.
        seed: of the simulation.

    Returns:
        The shares of runs that reach each threshold, and the rows that it took.

    Raises:
        ConfigurationError: an argument of another kind or out of its range; n and n_max at once,
            or neither.

    Example:
        >>> planned = ev.bf.design(0.5, n_max=200, step=5, num_runs=2_000)
        >>> planned.one.share_upper > 0.95, planned.false_positive < 0.1
        (True, True)

    Source: Schönbrodt, Wagenmakers (2018); Schönbrodt, Wagenmakers, Zehetleitner, Perugini (2017).
    """
    if not is_one_of(test, TESTS):
        raise ConfigurationError(f"test must be one of {', '.join(map(repr, TESTS))}; got {test!r}.")
    check_alternative(alternative)
    check_count("num_runs", num_runs, 1)
    check_seed(seed)
    num_samples = TESTS[test]
    looks = _looks(n, n_min, n_max, step)
    thresholds = _thresholds(upper, lower)
    interval = interval_of(null, "the effect size", t_tests.EVERYWHERE)
    if interval is None and null != 0:
        raise ConfigurationError(f"null must be 0 or an interval of the effect size; got {null!r}.")
    hypotheses = intervals_of(t_tests.NAME, t_tests.EVERYWHERE, 0.0, alternative, interval)
    width = scale_of(scale, t_tests.SCALES)
    law, used = (
        (stats.cauchy(0, width), t_tests.cauchy(width))
        if prior is None
        else (law_of(prior)[0], of_law(*law_of(prior)))
    )
    check_memory(
        f"num_runs={num_runs:,} with {len(looks):,} looks", "the t statistics", 16 * num_runs * len(looks)
    )

    def log_bf10(t: ndarray, count: float) -> ndarray:
        size, freedom = count / num_samples, num_samples * (count - 1)
        return log_bayes_factors(t, freedom, size, used, hypotheses)

    generators = np.random.default_rng(seed).spawn(2)
    claim, drawn = _effects(effect, generators[0], num_runs)
    null_claim, null_drawn = _null_effects(interval, law, generators[1], num_runs)
    paths = [
        t_paths(generator, effects, looks, num_samples)
        for generator, effects in zip(generators, (drawn, null_drawn), strict=True)
    ]
    ends = min(path.min() for path in paths), max(path.max() for path in paths)
    surface = surface_of(log_bf10, ends, looks)
    logs = math.log(thresholds[0]) if thresholds[0] else -math.inf, math.log(thresholds[1])
    outcomes = [
        Outcome(said, looks, thresholds, *stop(path, surface.at, looks, logs))
        for said, path in zip((claim, null_claim), paths, strict=True)
    ]
    return Design(
        test=test,
        one=outcomes[0],
        zero=outcomes[1],
        looks=looks,
        thresholds=thresholds,
        alternative=alternative
        if interval is None
        else f"{alternative}, outside of {interval[0]:g} to {interval[1]:g}",
        prior=f"δ ~ {used.label}",
        error=surface.error,
    )


def _looks(n: Any, n_min: Any, n_max: Any, step: Any) -> Int[ndarray, " looks"]:
    """Rows per sample at which the Bayes factor is computed; the last one is n_max."""
    if (n is None) == (n_max is None):
        got = "neither" if n is None else "both"
        raise ConfigurationError(
            f"design needs n, the rows of a fixed design, or n_max, at which a sequential one ends; got {got}."
        )
    if n is not None:
        return np.array([count_of("n", n, 2)])
    first, last, rows = count_of("n_min", n_min, 2), count_of("n_max", n_max, 2), count_of("step", step, 1)
    if last < first:
        raise ConfigurationError(f"n_max must be at least n_min, {first}; got {last}.")
    return np.append(np.arange(first, last, rows), last)


def _thresholds(upper: Any, lower: Any) -> tuple[float, float]:
    """BF₁₀ of both thresholds, the lower one first."""
    high = as_number(upper)
    if not high > 1:
        raise ConfigurationError(
            f"upper must be a Bayes factor above 1 (or infinite, for never); got {upper!r}."
        )
    low = 1 / high if lower is None else as_number(lower)
    if not 0 <= low < 1:
        raise ConfigurationError(
            f"lower must be a Bayes factor below 1, such as 1/10 (or 0, for never); got {lower!r}."
        )
    return low, high


def _null_effects(
    interval: Interval | None, law: Any, generator: np.random.Generator, num_runs: int
) -> tuple[str, ndarray]:
    """What H₀ says of the effect size, and that of each run: of the prior within an interval."""
    if interval is None:
        return "δ is 0", np.zeros(num_runs)
    low, high = interval
    least, most = law.cdf(low), law.cdf(high)
    if not least < most:
        raise ConfigurationError(
            f"prior must allow what each hypothesis says; it has no {t_tests.NAME} between {low:g} and {high:g}. Give another "
            "prior or null."
        )
    return f"δ in {low:g} to {high:g}", np.asarray(law.ppf(generator.uniform(least, most, num_runs)), float)


def _effects(effect: Any, generator: np.random.Generator, num_runs: int) -> tuple[str, ndarray]:
    """What H₁ says of the effect size, and that of each run."""
    value = as_number(effect)
    if math.isfinite(value):
        return f"δ is {value:g}", np.full(num_runs, value)
    if isinstance(effect, int | float | str) or effect is None:
        raise ConfigurationError(
            f"effect must be a finite number or a distribution of effect sizes; got {effect!r}."
        )
    law, label = law_of(effect, "effect")
    return f"δ ~ {label}", np.asarray(law.rvs(num_runs, random_state=generator), float)
