"""t tests of several studies."""

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError


def test_one_study_is_a_t_test():
    assert ev.bf.meta_t_test([2.1], [30]).log_bf10 == pytest.approx(
        ev.bf.t_test(t=2.1, n=30).log_bf10, abs=1e-12
    )
    two = ev.bf.meta_t_test([2.1], [30], [20], alternative="greater")
    assert two.log_bf10 == pytest.approx(
        ev.bf.t_test(t=2.1, n=30, n_other=20, alternative="greater").log_bf10
    )


def test_likelihoods_of_studies_are_multiplied():
    """By the trapezoidal rule over the effect size that they share."""
    from scipy import stats

    studies = [(2.1, 30), (1.4, 25), (-0.2, 40)]
    effect = np.linspace(-6, 6, 200_001)
    density = stats.cauchy(0, np.sqrt(0.5)).pdf(effect)
    for t, n in studies:
        density = density * stats.nct(n - 1, effect * np.sqrt(n)).pdf(t) / stats.t(n - 1).pdf(t)
    expected = np.trapezoid(density, effect)
    found = ev.bf.meta_t_test(*map(list, zip(*studies, strict=True)))
    assert found.bf10 == pytest.approx(expected, rel=1e-4)
    assert found.sequential().num_observations.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ev.bf.meta_t_test([1.0, 2.0], [10]), "lengths are 2, 1"),
        (lambda: ev.bf.meta_t_test([], []), "one number for each study"),
        (lambda: ev.bf.meta_t_test([1.0], [1]), "n must be a whole number of at least 2"),
        (lambda: ev.bf.meta_t_test([1.0], [10], null=1.0), "null must be 0"),
    ],
)
def test_bad_input_gets_one_message(call, words):
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("given", [(None, None), ([2.1], None), (None, [20])])
def test_studies_without_t_or_n(given):
    with pytest.raises(ConfigurationError, match="needs t and n, with one number for each study"):
        ev.bf.meta_t_test(*given)
