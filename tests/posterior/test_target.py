"""The tempered posterior of past and chunk; `test_gradients.py` checks its values."""

import jax.numpy as jnp
import pytest

from evidentia.posterior.rows import Window
from evidentia.posterior.target import tempered


def test_past_and_chunk_are_neighbours_in_the_same_arrays():
    arrays, equal = {"y": jnp.arange(10)}, {"y": jnp.arange(10)}
    target = tempered(Window(arrays, 0, 6), Window(arrays, 6, 10), 0.5)
    assert (target.past.start, target.past.stop, target.chunk.start, target.chunk.stop) == (0, 6, 6, 10)
    for chunk in (Window(equal, 6, 10), Window(arrays, 7, 10)):
        with pytest.raises(AssertionError):
            tempered(Window(arrays, 0, 6), chunk)
