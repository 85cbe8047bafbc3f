"""`Online` with the methods beside SGAIS that never revisit all rows."""

import itertools

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError

MODEL = ev.models.linear_regression(num_features=2)
NUM_ROWS, RESERVOIR = 700, 500  # so that sums replace some of the rows
CUTS = range(0, NUM_ROWS + 1, 100)
METHODS = {
    "sequential": ev.Sequential(num_particles=128, initial=ev.AIS(num_particles=128)),
    "nested": ev.OnlineNestedSampling(num_particles=64),
}


def rows(data, start, stop):
    return {name: values[start:stop] for name, values in data.items()}


def fed(online, data, cuts=CUTS):
    for start, stop in itertools.pairwise(cuts):
        online.update(rows(data, start, stop))
    return online


def new_online(name, seed=0):
    return ev.Online(MODEL, METHODS[name], seed=seed, reservoir_size=RESERVOIR)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_log_evidence_is_exact_within_its_error(name):
    """Over ten data sets, χ² of the errors exceeds 30 for one in a thousand."""
    scores = []
    for seed in range(10):
        data, _ = MODEL.simulate(NUM_ROWS, seed=100 + seed)
        online = fed(new_online(name, seed), data)
        scores.append((online.log_evidence - MODEL.exact_log_evidence(data)) / online.standard_error)
    assert np.sum(np.square(scores)) < 30


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_checkpoint_goes_on_bit_for_bit(name, tmp_path):
    data, _ = MODEL.simulate(NUM_ROWS, seed=1)
    first = fed(new_online(name), data, [0, 300, 600])
    first.save(tmp_path)
    second = ev.Online.load(tmp_path, MODEL)
    assert second.method == METHODS[name]
    both = [fed(online, data, [600, 650, NUM_ROWS]).evidence() for online in (first, second)]
    assert both[0].log_evidence == both[1].log_evidence
    assert both[0].diagnostics == both[1].diagnostics
    np.testing.assert_array_equal(both[0].posterior["weights"], both[1].posterior["weights"])


@pytest.mark.slow
def test_points_that_do_not_move_are_a_sign_that_stays():
    kernel = ev.kernels.ReflectingSGHMC(learning_rate=1e3)  # every step is reflected or rejected
    online = ev.Online(
        MODEL, ev.OnlineNestedSampling(num_particles=32, kernel=kernel), reservoir_size=RESERVOIR
    )
    data, _ = MODEL.simulate(200, seed=1)
    with pytest.warns(ev.DiagnosticWarning, match="region inside the contour is too small"):
        assert "region too small" in fed(online, data, [0, 100, 200]).evidence().signs


def test_the_first_rows_of_the_sequential_estimator_must_fit_into_the_reservoir():
    with pytest.raises(
        ConfigurationError, match="reservoir_size must be at least the method's initial_rows, 800"
    ):
        ev.Online(MODEL, ev.Sequential(initial_rows=800), reservoir_size=RESERVOIR)
