"""Names that a result does not have: the nearest one is named, by the same error everywhere."""

import pickle

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import UnknownNameError
from evidentia.results.predicted import Predicted

X = np.linspace(-1, 1, 30)
TABLE = {"size": X, "y": 2 * X + np.cos(40 * X)}


@pytest.fixture(scope="module")
def evidence():
    return ev.estimate(ev.Regression("y ~ size"), TABLE)


@pytest.mark.parametrize(
    "look, message",
    [
        (lambda found: found.summary()["sise"], "no coefficient or parameter 'sise'. Did you mean 'size'?"),
        (lambda found: found.weighted["sise"], "no parameter 'sise'. Did you mean 'size'?"),
        (lambda found: ev.compare({"a": found})["b"], "no model 'b'. Available: a."),
        (lambda found: Predicted({"y": X})["z"], "no observed variable 'z'. Available: y."),
        (lambda found: Predicted({"y": X}).to_pandas("z"), "no observed variable 'z'. Available: y."),
    ],
)
def test_unknown_names(evidence, look, message):
    with pytest.raises(ev.ConfigurationError) as caught:
        look(evidence)
    assert isinstance(caught.value, KeyError) and str(caught.value) == f"there is {message}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_mappings_stay_mappings(evidence):
    assert "z" not in evidence.weighted and evidence.weighted.get("z") is None
    with pytest.raises(UnknownNameError):
        evidence.weighted["z"]


def test_a_row_of_the_summary(evidence):
    row, summary = evidence.summary()["size"], evidence.summary()
    assert row.mean == summary.mean[1] and row.log_bayes_factor == summary.log_bayes_factor[1]
    assert evidence.summary()["scale"].name == "scale"
