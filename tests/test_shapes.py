"""Annotations of arrays are checked in tests; a check that never fails would not show it."""

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped
from numpy import ndarray

from tests.shapes import checked


@jaxtyped(typechecker=checked)
def weighted(values: Float[ndarray, " draws"], weights: Float[ndarray, " draws"] | None, name: str) -> float:
    return float(values.sum()) if weights is None else float(values @ weights)


def test_axes_of_one_name_have_one_size():
    assert weighted(np.ones(3), None, "a") == weighted(np.ones(3), np.ones(3), "a") == 3.0
    assert weighted(np.ones(3), None, 7) == 3.0  # pyright's task
    for wrong in (np.ones(4), np.ones((3, 1)), np.ones(3, int), [1.0, 1.0, 1.0]):
        with pytest.raises(TypeCheckError, match="weights"):
            weighted(np.ones(3), wrong, "a")


def test_the_package_is_checked():
    from evidentia import weights

    with pytest.raises(TypeCheckError, match="log_weights"):
        weights.ess(np.ones((2, 3)))
