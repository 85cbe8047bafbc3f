"""A response that the columns explain exactly has an infinite evidence, which is an error."""

import math

import numpy as np
import numpyro.distributions as dist
import pytest
from typer.testing import CliRunner

import evidentia as ev
from evidentia.cli import app

GENERATOR = np.random.default_rng(0)
ROWS = 40
X = GENERATOR.normal(size=ROWS) + 3
Z = GENERATOR.normal(size=ROWS)
NOISE = GENERATOR.normal(size=ROWS)
OF_GROUP = np.repeat(GENERATOR.normal(size=8), 5)
TABLE = {
    "x": X,
    "z": Z,
    "e": NOISE,
    "line": 2 * X + 1,
    "exp": np.exp(X),
    "share": 1 / (1 + np.exp(-Z)),
    "g": np.repeat(list("abcdefgh"), 5),
    "of_group": OF_GROUP,
    "slopes": OF_GROUP * X,
    "one": np.ones(ROWS),
}


@pytest.mark.parametrize(
    "formula, arguments, causes",
    [
        ("line ~ line", {}, "'line'"),
        ("line ~ x + z", {}, "'x'"),
        ("line ~ 0 + x + one", {}, "'x', 'one'"),
        ("line ~ x + z", {"prior": "normal"}, "'x'"),
        ("line ~ x", {"family": "student-t"}, "'x'"),
        ("exp ~ x", {"family": "gamma"}, "'x'"),
        ("share ~ z", {"family": "beta"}, "'z'"),
        ("of_group ~ z + (1 | g)", {}, "'z', the groups of 'g'"),
        ("slopes ~ z + (1 + x | g)", {}, "'z', the groups of 'g'"),
    ],
)
def test_the_error_names_formula_and_cause(formula, arguments, causes):
    with pytest.raises(ev.DataError) as raised:
        ev.estimate(ev.Regression(formula, **arguments), TABLE)
    message = str(raised.value)
    assert message.startswith(f"{formula}: the response is explained exactly by {causes} (")
    assert "the evidence is infinite. Leave out what the response is computed from, or " in message


@pytest.mark.parametrize("prior", ["jzs", "normal"])
def test_select_terms_names_the_smallest_model(prior):
    with pytest.raises(ev.DataError, match="^line ~ x: the response is explained exactly by 'x' "):
        ev.select_terms("line ~ x + z", TABLE, prior=prior)


def test_a_search_refuses_it():
    columns = {f"v{place}": GENERATOR.normal(size=100) for place in range(20)}
    columns["y"] = columns["v3"] - 2 * columns["v7"]
    with pytest.raises(ev.DataError, match="is explained exactly by 'v3', 'v7' "):
        ev.select_terms("y ~ " + " + ".join(f"v{place}" for place in range(20)), columns)


def test_float32_columns_are_judged_by_their_rounding():
    table = {"y": (1000 + X).astype(np.float32), "x": 1000 + X}
    with pytest.raises(ev.DataError, match="explained exactly by 'x'"):
        ev.estimate(ev.Regression("y ~ x"), table)


def test_unit_information_is_finite():
    """With R² = 1 the Bayes factor is (1 + n)^((n - 1 - p)/2)."""
    fit, null = (
        ev.estimate(ev.Regression(formula, prior="unit-information"), TABLE).log_evidence
        for formula in ("line ~ x", "line ~ 1")
    )
    assert fit - null == pytest.approx((ROWS - 2) / 2 * math.log(1 + ROWS), abs=1e-6)


def test_a_prior_that_excludes_zero_makes_it_finite():
    regression = ev.Regression("line ~ x", prior="normal", priors={"scale": dist.Uniform(0.5, 0.6)})
    assert math.isfinite(ev.estimate(regression, TABLE).log_evidence)


def test_the_rounding_of_a_nearly_perfect_fit_is_in_the_error():
    table = {"x": X, "y": X + 1e-6 * NOISE}
    with pytest.warns(ev.EvidenceWarning, match="rounding makes the log evidence uncertain by about"):
        found = ev.estimate(ev.Regression("y ~ x"), table)
    assert 0.05 < found.standard_error < 5
    assert ev.estimate(ev.Regression("e ~ x"), TABLE).standard_error == 0


def test_the_command_line_says_it(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "\n".join(f"{x},{2 * x}" for x in range(20)))
    result = CliRunner().invoke(app, ["regress", str(path), "y ~ x"])
    assert result.exit_code != 0
    assert "explained exactly by 'x'" in " ".join((result.output + str(result.exception)).split())
