"""`evidentia select` on files, from a formula to the probabilities of its terms."""

import json

import pandas as pd
import pytest

import evidentia as ev
from tests.regression.attitude import ATTITUDE

FORMULA = "rating ~ complaints + learning + raises"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "attitude.csv"
    pd.DataFrame(ATTITUDE).to_csv(path, index=False)
    return path


def test_terms_are_those_of_python(run, table):
    code, out, err = run("select", table, FORMULA, "--prior-probabilities", "beta-binomial", "--json")
    assert code == 0, err
    found = json.loads(out)
    wanted = ev.select_terms(FORMULA, ATTITUDE, prior_probabilities="beta-binomial")
    assert found["terms"]["learning"]["probability"] == wanted.inclusion_probability["learning"]
    assert next(iter(found["models"])) == wanted.formulas[0]
    assert found["num_models"] == 8 and found["formula"] == FORMULA


def test_the_folder(run, table, tmp_path):
    for _ in range(2):  # its own files are replaced
        code, out, err = run("select", table, FORMULA, "--out", tmp_path / "results")
        assert code == 0, err
    assert "P(complaints)" in out and "Written to" in out
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["results.json", "terms.png"]
    (tmp_path / "results" / "results.json").write_text("{}")
    code, _, err = run("select", table, FORMULA, "--out", tmp_path / "results")
    assert code == 2 and "was not written by evidentia" in " ".join(err.split())


def test_forms_weights_and_levels(run, tmp_path):
    path = tmp_path / "deck.csv"
    path.write_text("y;a;n\n1,5;u;2\n2,5;v;1\n4,5;v;3\n0,5;u;0\n1,0;w;2\n")
    code, out, err = run(
        *("select", path, "y ~ a", "--sep", ";", "--decimal", ",", "--weights", "n", "--levels", "a=w,u,v"),
        "--json",
    )
    assert code == 0, err
    assert {"Intercept", "a[T.u]", "a[T.v]"} == json.loads(out)["coefficients"].keys()
    assert json.loads(out)["num_observations"] == 8


@pytest.mark.parametrize(
    "words, message",
    [
        ((FORMULA + " + complaint",), "Did you mean 'complaints'?"),
        (("rating ~ raises + (1 | learning)",), "select_terms takes no effects that vary by group"),
        ((FORMULA, "--prior-probabilities", "even"), "prior_probabilities"),
    ],
)
def test_mistakes_get_one_message(run, table, words, message):
    code, out, err = run("select", table, *words)
    assert (code, out) == (2, "") and message in " ".join(err.split()) and "Traceback" not in err
