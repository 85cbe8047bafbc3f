"""Meta-analysis of t tests that share one effect size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from evidentia.bf.asked import Question, answer
from evidentia.bf.effect import Effect
from evidentia.bf.hypotheses import interval_of
from evidentia.bf.prior import Prior, law_of, of_law, scale_of
from evidentia.bf.result import BayesFactor
from evidentia.bf.t_tests import EVERYWHERE, SCALES, cauchy, effect_of, published
from evidentia.errors import ConfigurationError


def meta_t_test(
    t: Sequence[float],
    n: Sequence[int],
    n_other: Sequence[int] | None = None,
    scale: str | float = "medium",
    alternative: str = "two-sided",
    prior: Any = None,
    null: float | tuple[float, float] = 0.0,
) -> BayesFactor:
    """The Bayes factor of an effect that several t tests have in common (`meta.ttestBF`).

    Args:
        t: statistics, one for each study.
        n: rows (or pairs) of each study, or of its first sample.
        n_other: rows of the second samples; None for studies of one sample or pairs.
        scale: of the Cauchy prior of the common effect size δ, as in `t_test`.
        alternative: "two-sided", "greater" or "less"; one-sided priors are renormalised.
        prior: of δ, in place of the Cauchy.
        null: 0, or an interval (low, high) of δ, which H₁ leaves out.

    Returns:
        The Bayes factor. `sequential` adds one study after the other.

    Raises:
        ConfigurationError: an argument of another kind, or of another length than t.

    Example:
        >>> round(ev.bf.meta_t_test(t=[2.1, 1.4], n=[30, 25]).bf10, 4)
        2.4816

    Source: Rouder and Morey (2011), A Bayes factor meta-analysis of Bem's ESP claim.
    """
    interval = interval_of(null, "the effect size", EVERYWHERE)
    if interval is None and null != 0:
        raise ConfigurationError(f"null must be 0 or an interval of the effect size; got {null!r}.")
    if t is None or n is None:  # pyright: ignore[reportUnnecessaryComparison] both may be left out by mistake
        raise ConfigurationError(
            "meta_t_test needs t and n, with one number for each study; n_other has the rows of second samples. Effects with "
            "standard errors are for meta_analysis."
        )
    columns = [
        np.atleast_1d(np.asarray(column, dtype=object)) for column in (t, n, n_other) if column is not None
    ]
    if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1 or not len(columns[0]):
        shapes = ", ".join(str(len(column)) for column in columns)
        raise ConfigurationError(
            f"t, n and n_other must have one number for each study; their lengths are {shapes}."
        )
    statistics = [published(*study)[1] for study in zip(*columns, strict=True)]

    def first(count: int) -> Callable[[Prior], Effect]:
        return partial(effect_of, statistics[:count])

    question = Question(
        test=f"meta-analysis of {len(statistics)} t tests",
        effect_of=partial(effect_of, statistics),
        prior=None if prior is None else of_law(*law_of(prior)),
        scale=scale_of(scale, SCALES),
        scales=SCALES,
        law=cauchy,
        num_observations=sum(one.num_rows for one in statistics),
        statistics={"studies": len(statistics)},
        first=first,
        num_steps=len(statistics),
        least=1,
    )
    return answer(question, alternative, interval)
