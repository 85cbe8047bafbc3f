"""Arguments of wrong types, to what is asked of data and results: one message, no traceback."""

import inspect
from contextlib import suppress

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import evidentia as ev

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=30)
TABLE = pd.DataFrame({"x": X, "g": list("abc") * 10, "y": X + GENERATOR.normal(size=30)})
FIT = ev.estimate(ev.Regression("y ~ x"), TABLE)
LINEAR = ev.estimate(
    ev.models.linear_regression(1), {"x": X[:, None], "y": X}, method=ev.SGAIS(num_particles=100)
)
COLUMNS = {column: [1, 2] for column in FIT.trajectory.columns}
COMPARED = ev.compare({"a": FIT, "b": FIT})
TEST, ANOVA = ev.bf.t_test(X), ev.bf.anova("y ~ g", TABLE)
ODD = [None, 3, -1, 1.5, np.nan, "", "a\0", [], {}, {"a": None}, (1, 2), object(), np.array([1, 2]), b"x"]
ODD += [True, "nope", [None], [[1]], {1: 2}, lambda: 0]

CALLED = {
    "Regression": (ev.Regression, {"formula": "y ~ x"}),
    "select_terms": (ev.select_terms, {"formula": "y ~ x", "table": TABLE}),
    "prior_sensitivity": (ev.prior_sensitivity, {"evidence": FIT}),
    "plot_comparison": (ev.plot_comparison, {"evidences": {"a": FIT, "b": FIT}}),
    "correlation": (ev.bf.correlation, {"x": X, "y": TABLE["y"]}),
    "t_test": (ev.bf.t_test, {"x": X}),
    "contingency": (ev.bf.contingency, {"table": [[3, 4], [5, 6]]}),
    "proportion": (ev.bf.proportion, {"successes": 3, "trials": 9}),
    "meta_t_test": (ev.bf.meta_t_test, {"t": [1, 2], "n": [9, 9]}),
    "anova": (ev.bf.anova, {"formula": "y ~ g", "data": TABLE}),
    "order": (ev.bf.order, {"hypothesis": "a > 0", "posterior": {"a": X}, "prior": {"a": -X}}),
    "design": (ev.bf.design, {"effect": 0.5, "n": 10, "num_runs": 20}),
    "comparison.log_bf": (COMPARED.log_bf, {"model": "a", "other": "b"}),
    "result.robustness": (TEST.robustness, {}),
    "anova.log_bf": (ANOVA.log_bf, {"model": "g", "other": "1"}),
    "plot_posterior": (FIT.plot_posterior, {}),
    "plot_corner": (FIT.plot_corner, {}),
    "save": (FIT.save, {"path": "unused"}),
    "load": (ev.load, {"path": "unused"}),
    "plot": (FIT.plot, {}),
    "plot_predictive": (LINEAR.plot_predictive, {"seed": 0}),
    "to_arviz": (LINEAR.to_arviz, {}),
    "Trajectory": (ev.Trajectory, COLUMNS),
    "trajectory.at": (FIT.trajectory.at, {"num_observations": 30}),
    "trajectory[…]": (FIT.trajectory.__getitem__, {"column": "seconds"}),
    "robustness.plot": (TEST.robustness().plot, {}),
    "predict of arrays": (LINEAR.predict, {"new_data": {"x": X[:, None]}}),
    "predict": (FIT.predict, {"new_data": TABLE}),
    "draws": (FIT.draws, {"n": 5}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLED)
def test_each_argument_may_be_anything(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called, needed = CALLED[name]
    for argument in inspect.signature(called).parameters:
        for value in ODD:
            with suppress(ev.EvidentiaError):
                called(**{**needed, argument: value})
            plt.close("all")


@pytest.mark.parametrize(
    "argument, value, message",
    [
        ("sep", {"a": 1}, "sep must be one character"),
        ("decimal", np.array([1, 2]), "decimal must be '.' or ','"),
        ("na", 3, "na must be a list of names; got 3"),
        ("na", [None], "na must be a list of names"),
        ("comment", 3, "comment must be the beginning of a line, such as '#'; got 3"),
    ],
)
def test_the_form_of_text_is_checked(tmp_path, argument, value, message):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.read_csv(tmp_path / "a.csv", **{argument: value})


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: FIT.plot(ax=3), r"ax must be axes of Matplotlib, as of figure\.subplots\(\); got 3\."),
        (
            lambda: ev.plot_comparison({"a": FIT, "b": FIT}, axes=[1, 2]),
            r"axes must be two axes of Matplotlib, as of figure\.subplots\(2, 1\); got \[1, 2\]\.",
        ),
        (lambda: LINEAR.plot_predictive(data=3), r"a prediction from new data \(int\) failed with TypeError"),
        (lambda: LINEAR.predict({}), r"a prediction from new data \(no names\) failed with KeyError: 'x'"),
        (lambda: LINEAR.to_arviz(log_likelihood=X), r"log_likelihood must be True or False; got array\("),
        (
            lambda: ev.Trajectory(**COLUMNS | {"seconds": 3}),
            "seconds of a Trajectory must be a list of numbers; got 3",
        ),
        (
            lambda: ev.bf.contingency({"a": [1, 2], "b": None}),
            "column 'b' of table must be a list of categories; got None",
        ),
        (lambda: FIT.trajectory.at([]), r"num_observations must be a number of rows; got \[\]"),
    ],
)
def test_the_message_names_the_argument(ask, message):
    with pytest.raises(ev.EvidentiaError, match=message):
        ask()


@pytest.mark.parametrize("key", [None, 1, ("x", 1)])
def test_names_of_arrays_that_have_no_order_are_named(key):
    model = ev.models.linear_regression(1)
    with pytest.raises(ev.DataError, match="the model needs data"):
        ev.estimate(model, {key: X[:, None], "y": X})
    with pytest.raises(ev.DataError, match="the model needs data"):
        ev.Online(model).update({key: X[:, None], "y": X})


def test_a_column_called_intercept_is_named_in_a_selection():
    with pytest.raises(ev.DataError, match="has a column 'Intercept', which is also the name of a parameter"):
        ev.select_terms("y ~ Intercept + x", TABLE.assign(Intercept=-X))
