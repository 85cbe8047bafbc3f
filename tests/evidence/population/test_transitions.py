"""How far a move leaves particles correlated."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from evidentia.evidence.population.transitions import largest_correlation


def test_a_few_particles_in_a_heavy_tail_do_not_decide_a_correlation():
    """Five that stay far out would make the correlation of values nearly one."""
    generator = np.random.default_rng(0)
    before, after = generator.standard_normal((2, 500, 2))
    before[:5, 0] = after[:5, 0] = 1e6
    assert np.corrcoef(before[:, 0], after[:, 0])[0, 1] > 0.99
    assert largest_correlation(before, after) < 0.15


def test_the_worst_coordinate_counts():
    before = np.random.default_rng(0).standard_normal((500, 3))
    after = before[::-1].copy()
    after[:, 2] = before[:, 2]
    assert largest_correlation(before, after) == pytest.approx(1.0)
    assert largest_correlation(before[:, :0], after[:, :0]) == 0.0


def test_particles_at_one_place_share_their_rank():
    generator = np.random.default_rng(0)
    before, after = np.round(generator.standard_normal((2, 200, 1)), 1)
    expected = spearmanr(before[:, 0], after[:, 0]).statistic
    assert largest_correlation(before, after) == pytest.approx(expected, rel=1e-12)
