"""Numbers of any size in the standard tests: the value of rescaled ones, or one message."""

from functools import partial

import numpy as np
import pytest
from hypothesis import strategies as st

import evidentia as ev
from evidentia.bf.samples import LARGEST, MOST
from tests.properties.examples import examples, for_all

X, Y = np.array([1.0, 2.0, -3.0, 5.0, 0.5]), np.array([1.0, 2.0, 0.0, 7.0, 3.0])
SIZES = st.one_of(st.integers(0, 10**20), st.sampled_from([10**30, 10**400, 2**53 + 1]))
FLOATS = st.one_of(st.floats(), st.floats(-300, 300).map(lambda power: 10.0**power))


@examples(many=2_000, few=60)
def test_columns_of_any_size_give_the_value_of_rescaled_ones(count):
    one, pairs = ev.bf.t_test(X).log_bf10, ev.bf.correlation(X, Y).log_bf10

    @for_all(st.floats(-305, 305), count)
    def holds(power):
        found = ev.bf.t_test(X * 10.0**power).log_bf10, ev.bf.correlation(X * 10.0**power, Y).log_bf10
        assert found == pytest.approx((one, pairs), abs=1e-9)


@examples(many=20_000, few=200)
def test_summaries_of_any_size_are_finite_or_refused(count):
    calls = [
        lambda t, n, k: ev.bf.t_test(t=t, n=n),
        lambda t, n, k: ev.bf.t_test(t=1.0, n=n, n_other=k),
        lambda t, n, k: ev.bf.t_test(t=2.0, n=9, scale=t),
        lambda t, n, k: ev.bf.meta_t_test([t, 1.0], [n, 9]),
        lambda t, n, k: ev.bf.correlation(r=t, n=n),
        lambda t, n, k: ev.bf.proportion(k, n),
        lambda t, n, k: ev.bf.proportion([k, 1], [n, 9], null="equal"),
        lambda t, n, k: ev.bf.contingency([[k, 3], [4, n]]),
    ]

    @for_all(st.tuples(st.sampled_from(calls), FLOATS, SIZES, SIZES), count)
    def holds(found):
        call, *given = found
        try:
            log_bf10 = call(*given).log_bf10
        except ev.EvidentiaError:
            return
        assert np.isfinite(log_bf10)


@pytest.mark.parametrize("half", [10**6, 10**9, MOST // 4, MOST // 2])
def test_large_counts_keep_a_hundredth_of_a_nat(half):
    """Where half are successes: BF₀₁ = √(2n/π) over the prior's density at 1/2, up to 1/n.

    The logistic prior of scale 1/2 has the density 1/2 at log odds 0, and p the density 2.
    """
    expected = np.log(2) - 0.5 * np.log(4 * half / np.pi)
    assert ev.bf.proportion(half, 2 * half).log_bf10 == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (partial(ev.bf.proportion, MOST, 2 * MOST), "trials must hold at most 100,000,000,000 observations"),
        (partial(ev.bf.proportion, 1, 10**400), "successes and trials must be counts"),
        (partial(ev.bf.contingency, [[MOST, 1], [1, 1]]), "table must hold at most 100,000,000,000 observ"),
        (partial(ev.bf.contingency, [[10**400, 1], [1, 1]]), "table must hold counts"),
        (
            partial(ev.bf.t_test, t=2.0, n=10**30),
            "n must be a whole number of at least 2 and at most 100,000",
        ),
        (partial(ev.bf.t_test, t=10 * LARGEST, n=5), "t must be a finite number, of at most 1e.100 in size"),
        (partial(ev.bf.t_test, t=2.0, n=5, scale=1e200), r"scale must be a number from 1e-100 to 1e\+100"),
        (partial(ev.bf.t_test, X, Y, paired="no"), "paired must be True or False; got 'no'"),
        (partial(ev.bf.t_test, [10**400, 1]), "x must hold numbers"),
        (partial(ev.bf.anova, "y ~ g", {"y": X, "g": list("abbab")}, random=3), "random must be a list of"),
    ],
)
def test_what_is_too_large_or_of_a_wrong_type_is_named(call, words):
    with pytest.raises(ev.EvidentiaError, match=words):
        call()
