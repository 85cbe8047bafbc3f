"""Shared by tests of formulas: small tables stand for large ones."""

import pytest

from evidentia.cluster import rows
from evidentia.regression import frame, sample


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of the 1,024 rows that they have at least, and formulas learnt on some 100 rows."""
    monkeypatch.setattr(frame, "VALUES_AT_ONCE", 1)
    monkeypatch.setattr(sample, "LEAST", 100)


@pytest.fixture
def small_sample(monkeypatch):
    """A hundred rows of a cluster are here; the others stay there."""
    monkeypatch.setattr(rows, "NUM_NEAR", 100)
