"""Columns that others determine are left out, each with its sum in a note."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError, EvidenceWarning
from evidentia.regression.collinear import aliased

GENERATOR = np.random.default_rng(0)
ROWS = 40
TABLE = pd.DataFrame(GENERATOR.normal(size=(ROWS, 4)), columns=list("yxzw"))
TABLE["g"] = np.resize(list("abc"), ROWS)
TABLE["G"] = TABLE["g"].str.upper()
TABLE["twice"] = 2 * TABLE["x"] + 1
TABLE["sum"] = TABLE["x"] - 0.5 * TABLE["z"]
TABLE["one"] = 1.0


CASES = [
    ("x + twice", ["'twice' is 2 'x' + 1"], "x"),
    ("twice + x", ["'x' is 0.5 'twice' - 0.5"], "twice"),
    ("x + z + sum", ["'sum' is 'x' - 0.5 'z'"], "x + z"),
    ("x + twice + z + sum", ["'twice' is 2 'x' + 1", "'sum' is 'x' - 0.5 'z'"], "x + z"),
    ("g + G", ["'G[T.B]' is 'g[T.b]'", "'G[T.C]' is 'g[T.c]'"], "g"),
    ("w + g + I(-w)", ["'I(-w)' is -'w'"], "w + g"),
    ("0 + g + one", ["'one' is 'g[a]' + 'g[b]' + 'g[c]'"], "0 + g"),
    ("0 + x + I(3 * x)", ["'I(3 * x)' is 3 'x'"], "0 + x"),
    ("x:z + twice:z + x + twice + z", ["'twice' is 2 'x' + 1", "'twice:z' is 'z' + 2 'x:z'"], "x + z + x:z"),
]


@pytest.mark.parametrize("terms, listed, without", CASES)
def test_what_others_determine_is_left_out_with_a_note(terms, listed, without):
    """As in R, later columns are; the evidence is that of the formula without them."""
    with pytest.warns(EvidenceWarning, match="^left out of y ~ .*, as other columns determine") as caught:
        found = ev.estimate(ev.Regression(f"y ~ {terms}"), TABLE)
    assert str(caught[0].message).endswith(
        f"determine {'it' if len(listed) == 1 else 'them'}: {'; '.join(listed)}."
    )
    assert found.diagnostics["left_out"] == "; ".join(listed)
    same = ev.estimate(ev.Regression(f"y ~ {without}"), TABLE)
    assert found.log_evidence == pytest.approx(same.log_evidence, abs=1e-9)
    assert found.posterior.keys() == same.posterior.keys()
    assert "left_out" not in same.diagnostics


@pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")
@pytest.mark.slow
@pytest.mark.parametrize("options", [{"prior": "normal"}, {"family": "student-t"}])
def test_under_other_priors_too(options):
    """Though a proper prior makes a model with both columns: its effect would have two priors."""
    found, same = (
        ev.estimate(ev.Regression(f"y ~ {terms}", **options), TABLE) for terms in ("x + twice", "x")
    )
    assert found.log_evidence == same.log_evidence
    with pytest.raises(ConfigurationError, match="'twice', which is left out, as it is 2 'x' \\+ 1"):
        ev.estimate(ev.Regression("y ~ x + twice", priors={"twice": dist.Normal(0, 1)}), TABLE)


def test_an_empty_cell_of_an_interaction():
    """No row has both, so that the interaction's column is 0, which R leaves out."""
    h = np.where(TABLE["g"] == "c", "u", np.resize(np.repeat(["u", "v", "w"], 3), ROWS))
    with pytest.warns(EvidenceWarning) as caught:
        found = ev.estimate(ev.Regression("y ~ g * h"), {**TABLE, "h": h})
    listed = "'g[T.c]:h[T.v]' is 0; 'g[T.c]:h[T.w]' is 0"
    assert str(caught[0].message) == f"left out of y ~ g * h, as other columns determine them: {listed}."
    cells = pd.Categorical([f"{one}{other}" for one, other in zip(TABLE["g"], h, strict=True)])
    same = ev.estimate(ev.Regression("y ~ cell"), {**TABLE, "cell": cells})
    assert found.log_evidence == pytest.approx(same.log_evidence, abs=1e-9)  # the same span


def test_a_nested_factor():
    """Each b lies in one a, which takes the place of one of its levels."""
    b = np.resize(np.array(["a1", "b1", "c1", "a2", "b2", "c2"]), ROWS)
    with pytest.warns(EvidenceWarning, match="determine them: .*'b\\[T.c2\\]' is"):
        found = ev.estimate(ev.Regression("y ~ g + b"), {**TABLE, "b": b})
    same = ev.estimate(ev.Regression("y ~ b"), {**TABLE, "b": b})
    assert found.log_evidence == pytest.approx(same.log_evidence, abs=1e-9)


def test_a_constant_column_that_is_a_term_is_an_error():
    with pytest.raises(DataError, match="'one' has the same value in all 40 rows used"):
        ev.estimate(ev.Regression("y ~ x + one"), TABLE)


@pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")
@pytest.mark.parametrize("options", [{}, {"prior": "unit-information"}])
def test_a_selection_counts_an_aliased_term_once(options):
    found = ev.select_terms("y ~ x + twice + z + sum + x:z", TABLE, **options)
    same = ev.select_terms("y ~ x * z", TABLE, **options)
    assert found.terms == same.terms == ("x", "z", "x:z")
    np.testing.assert_allclose(found.probability, same.probability)
    np.testing.assert_allclose(found.predict(TABLE), same.predict(TABLE))


@pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")
@pytest.mark.parametrize(
    "terms, message",
    [
        (
            "g + b",
            r"cannot leave out columns of 'b' \('b\[T.*' is .*\): models without 'g' need them\. Compare",
        ),
        (
            "x + twice + twice:z",
            r"leaves 'twice' out, as 'twice' is 2 'x' \+ 1, and 'twice:z' needs it\. Write",
        ),
    ],
)
def test_a_selection_says_what_it_cannot_leave_out(terms, message):
    b = np.resize(np.array(["a1", "b1", "c1", "a2", "b2", "c2"]), ROWS)
    with pytest.raises(ConfigurationError, match=message):
        ev.select_terms(f"y ~ {terms}", {**TABLE, "b": b})


@pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")
def test_a_selection_keeps_interactions_with_empty_cells():
    h = np.where(TABLE["g"] == "c", "u", np.resize(np.repeat(["u", "v", "w"], 3), ROWS))
    found = ev.select_terms("y ~ g * h", {**TABLE, "h": h})
    assert found.terms == ("g", "h", "g:h")
    whole = ev.estimate(ev.Regression("y ~ g * h"), {**TABLE, "h": h})
    none = ev.estimate(ev.Regression("y ~ 1"), TABLE)
    factor = found.log_bayes_factor[found.included.all(axis=1)][0]
    assert factor == pytest.approx(whole.log_evidence - none.log_evidence, abs=1e-9)


def test_many_columns_are_counted():
    copies = {f"c{i}": TABLE["x"] * (i + 2) for i in range(12)}
    with pytest.warns(EvidenceWarning, match=r"'c7' is 9 'x'; and 4 more\.$"):
        ev.estimate(ev.Regression(f"y ~ x + {' + '.join(copies)}"), {**TABLE, **copies})


def test_of_files_and_large_factors(tmp_path):
    """The note comes once, and levels without an effect of their own are no indices."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: TABLE[name] for name in ("y", "x", "twice", "g")}), tmp_path / "a.parquet")
    with pytest.warns(EvidenceWarning) as caught:
        found = ev.estimate(ev.Regression("y ~ x + g + twice"), ev.read_parquet(str(tmp_path / "*.parquet")))
    assert len(caught) == 1
    same = ev.estimate(ev.Regression("y ~ x + g"), TABLE)
    assert found.log_evidence == pytest.approx(same.log_evidence, abs=1e-9)


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_coefficients_give_the_column_again(size, extra, seed):
    generator = np.random.default_rng(seed)
    free = generator.normal(size=(100, size))
    columns = np.column_stack([free, free @ generator.normal(size=(size, extra))])
    columns = columns[:, generator.permutation(size + extra)]
    columns /= np.sqrt(np.mean(columns**2, axis=0))
    found = aliased(columns.T @ columns / 100, 1e-9 * (size + extra))
    assert len(found) == extra
    for place, effects in found.items():
        assert not effects[place:].any()
        np.testing.assert_allclose(columns @ effects, columns[:, place], atol=1e-4)


def test_a_chain_of_columns_each_near_the_one_before_names_one():
    """What is left of each, given those before, is above the tolerance: the least is named."""
    generator = np.random.default_rng(1)
    columns = generator.normal(size=(500, 1)) + 3e-5 * np.cumsum(generator.normal(size=(500, 6)), axis=1)
    columns /= np.sqrt(np.mean(columns**2, axis=0))
    correlations = columns.T @ columns / 500
    assert len(aliased(correlations, 1e-12)) == 1


def test_the_note_says_what_is_left_of_a_column_that_is_nearly_another():
    """The rest may be all that matters: here the response is the difference."""
    x, rest = np.random.default_rng(0).normal(size=(2, 50))
    table = {"x": x, "z": x + 1e-5 * rest, "twice": 2 * x, "y": rest}
    with pytest.warns(ev.EvidenceWarning, match="as other columns determine them"):
        found = ev.estimate(ev.Regression("y ~ x + z + twice"), table).diagnostics["left_out"]
    assert "but for 1e-05 of its deviation (write their difference if it matters); 'twice' is 2 'x'" in found
    assert found.endswith("'twice' is 2 'x'")
