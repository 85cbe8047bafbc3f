"""A result that several tests of results look at."""

import pytest

import evidentia as ev


@pytest.fixture(scope="module")
def linear():
    """A linear regression, its data, and its evidence by a method of uneven weights."""
    model = ev.models.linear_regression(num_features=1)
    data, _ = model.simulate(4, 0)
    return model, data, ev.estimate(model, data, method=ev.PriorSampling(num_particles=2048), seed=3)
