import itertools

import numpy as np
import pytest

import evidentia as ev
from evidentia.data.predecessors import batches_with_predecessors, with_predecessors
from evidentia.errors import ConfigurationError, DataError

GENERATOR = np.random.default_rng(0)
SERIES = {"y": GENERATOR.normal(size=50), "x": GENERATOR.normal(size=(50, 2))}


@pytest.mark.parametrize("cuts", [[0, 50], [0, 1, 2, 3, 50], [0, 10, 20, 50], [*range(50), 50]])
def test_batches_of_any_size_give_the_same_rows(cuts):
    whole = with_predecessors(SERIES, 3)
    batches = ({name: rows[a:b] for name, rows in SERIES.items()} for a, b in itertools.pairwise(cuts))
    found = list(batches_with_predecessors(batches, 3))
    assert whole.keys() == {"y", "x", "before_y", "before_x"}
    for name, rows in whole.items():
        np.testing.assert_array_equal(np.concatenate([batch[name] for batch in found]), rows)
    np.testing.assert_array_equal(whole["before_x"][0], SERIES["x"][2::-1])


@pytest.mark.parametrize(
    ("data", "order", "message"),
    [
        ({"y": [1.0, 2.0]}, 2, "more than order=2 rows; got 2"),
        ({"y": [1.0, 2.0], "x": [1.0]}, 1, "the same number of rows; y has 2, x has 1"),
        ([1.0, 2.0], 1, "data must be arrays by name"),
        ({"y": [1.0, 2.0], "before_y": [1.0, 2.0]}, 1, "must not have 'before_y'"),
    ],
)
def test_data_that_are_no_series_are_refused(data, order, message):
    with pytest.raises(DataError, match=message):
        with_predecessors(data, order)


def test_other_mistakes_are_said():
    with pytest.raises(ConfigurationError, match="order must be an integer of at least 1; got 0"):
        with_predecessors({"y": [1.0]}, 0)
    with pytest.raises(DataError, match="each batch must have the arrays y; got x"):
        list(batches_with_predecessors([{"y": [1.0]}, {"x": [1.0]}], 1))


@pytest.mark.slow
def test_markov_factors_by_mini_batches_are_those_of_a_regression_on_the_past():
    generator = np.random.default_rng(1)
    y = np.zeros(20_000)
    for t in range(1, len(y)):
        y[t] = 0.2 + 0.6 * y[t - 1] + generator.normal()
    rows = with_predecessors({"y": np.float32(y)}, 1)
    model = ev.models.linear_regression(num_features=1)
    data = {"x": rows["before_y"], "y": rows["y"]}
    found = ev.estimate(model, data)
    assert abs(found.log_evidence - model.exact_log_evidence(data)) < 4 * found.standard_error + 0.01
