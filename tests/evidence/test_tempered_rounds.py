"""Adaptive multiple importance sampling: the shares of what a round draws from."""

import numpy as np
import pytest

from evidentia.evidence.tempered_rounds import EARLIER, LEAST_SHARE, WIDE, next_shares


def test_shares_add_up_and_the_smallest_are_dropped():
    shares = next_shares(np.zeros(2), has_fit=True)
    assert shares == pytest.approx([0.0, WIDE, 1 - WIDE])
    for _ in range(12):
        before, shares = shares, next_shares(shares, has_fit=True)
        assert shares.sum() == pytest.approx(1.0)
        assert shares[-1] == pytest.approx((1 - EARLIER) * (1 - WIDE))
        assert np.all(shares[2:-1][before[2:] <= LEAST_SHARE] == 0.0)
    assert np.count_nonzero(shares) < 9  # of 15 parts


def test_without_a_fit_the_proposal_stays_and_the_first_is_the_wide_one():
    assert next_shares(np.zeros(2), has_fit=False) == pytest.approx([0.0, 1.0])
    before = np.array([0.0, 0.02, 0.98])
    assert next_shares(before, has_fit=False) is before
