"""Frequencies: a row with weight k is k equal rows."""

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError, EvidenceWarning
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.frequencies import repeated_in_blocks
from evidentia.regression.streamed import Streamed

GENERATOR = np.random.default_rng(4)
ROWS = 40
TABLE = pd.DataFrame(
    {
        "y": GENERATOR.standard_normal(ROWS),
        "c": GENERATOR.poisson(2, ROWS),
        "x": GENERATOR.standard_normal(ROWS),
        "k": np.where(np.arange(ROWS) == 7, "unseen", GENERATOR.choice(["ash", "elm", "oak"], ROWS)),
        "n": np.where(np.arange(ROWS) == 7, 0, GENERATOR.integers(0, 4, ROWS)),
    }
)
REPEATED = TABLE.loc[np.repeat(TABLE.index, TABLE["n"])].reset_index(drop=True)


def estimate(formula, table, **arguments):
    return ev.estimate(ev.Regression(formula, **arguments), table)


def in_files(table, folder):
    table.to_csv(folder / "table.csv", index=False)
    table.to_parquet(folder / "table.parquet", row_group_size=11)
    return ev.read_csv(folder / "table.csv"), ev.read_parquet(folder / "table.parquet")


def same(found, exact):
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-10)
    assert found.num_observations == exact.num_observations == TABLE["n"].sum()
    assert found.fingerprints == exact.fingerprints and list(found.posterior) == list(exact.posterior)


@pytest.mark.parametrize("rows_at_once", [1, 16, 1000])
def test_rows_are_repeated_in_blocks(rows_at_once):
    blocks = list(repeated_in_blocks(TABLE, TABLE["n"].to_numpy(), rows_at_once))
    assert max(map(len, blocks)) <= rows_at_once
    pd.testing.assert_frame_equal(pd.concat(blocks, ignore_index=True), REPEATED)


@pytest.mark.parametrize(
    "formula, arguments",
    [
        ("y ~ x * k", {}),
        ("y ~ 0 + x", {}),
        ("scale(y) ~ bs(x, df=4) + poly(c, 2) + offset(n)", {"prior": "unit-information"}),
    ],
)
def test_exact_evidences_are_those_of_repeated_rows(tmp_path, formula, arguments):
    """In memory and in files; what is learnt of all rows, such as knots, too."""
    exact = estimate(formula, REPEATED, **arguments)
    for table in (TABLE, *in_files(TABLE, tmp_path)):
        same(estimate(formula, table, weights="n", **arguments), exact)


@pytest.mark.parametrize(
    "formula, family",
    [
        ("c ~ x + k", "poisson"),
        ("y ~ x + (x | k)", "gaussian"),
        ("c ~ x + offset(y)", "ordinal"),
        ("k ~ bs(x, df=4)", "categorical"),
        ("c | I(c + n) ~ scale(x)", "binomial"),
        ("cbind(c, n) ~ x", "binomial"),
        ("Surv(exp(y), c > 1) ~ x", "weibull"),
        ("y | se(exp(x)) ~ k", "gaussian"),
        ("c ~ x", "hurdle-negative-binomial"),
    ],
)
def test_a_model_has_the_arrays_of_repeated_rows(tmp_path, formula, family):
    """In memory and in files, bit for bit: what is estimated of them is the same."""

    def prepared(regression, data):
        table = regression.rows_of(data)
        table = table.in_memory() if isinstance(table, Streamed) else table
        return regression.prepared(frame_of(parse(formula), table), table, None)

    exact = prepared(ev.Regression(formula, family), REPEATED)
    for data in (TABLE, *in_files(TABLE, tmp_path)):
        found = prepared(ev.Regression(formula, family, weights="n"), data)
        assert (
            found.response.location == exact.response.location and found.arrays.keys() == exact.arrays.keys()
        )
        for name, array in exact.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], array)


@pytest.mark.slow
def test_an_estimate_is_that_of_repeated_rows():
    found = estimate("c ~ x + k", TABLE, family="poisson", weights="n")
    same(found, estimate("c ~ x + k", REPEATED, family="poisson"))


def test_terms_are_selected_on_repeated_rows(tmp_path):
    exact = ev.select_terms("y ~ x + k", REPEATED)
    for table in (TABLE, in_files(TABLE, tmp_path)[1]):
        found = ev.select_terms("y ~ x + k", table, weights="n")
        np.testing.assert_allclose(found.log_bayes_factor, exact.log_bayes_factor, atol=1e-10)
        assert found.num_observations == exact.num_observations


@pytest.mark.reference
def test_groups_are_those_of_repeated_rows():
    regression = ev.Regression("y ~ 1 + (1 | k)", weights="n")
    found = ev.group_effects(regression, ev.estimate(regression, TABLE), TABLE)
    plain = ev.Regression("y ~ 1 + (1 | k)")
    exact = ev.group_effects(plain, ev.estimate(plain, REPEATED), REPEATED)
    pd.testing.assert_frame_equal(found, exact)


def test_missing_values_in_rows_that_count_are_counted(tmp_path):
    table = TABLE.assign(
        x=TABLE["x"].where(~TABLE.index.isin([7, 8])), n=TABLE["n"].where(TABLE.index != 8, 2)
    )
    kept = table.drop([7, 8])
    exact = estimate("y ~ x", kept.loc[np.repeat(kept.index, kept["n"])])
    with pytest.warns(EvidenceWarning, match=r"1 of 40 rows have missing values \(x 1\)"):
        assert estimate("y ~ x", table, weights="n").log_evidence == exact.log_evidence
    for source in in_files(table, tmp_path):
        with pytest.warns(EvidenceWarning, match="of 40 rows have missing values"):
            found = estimate("y ~ x", source, weights="n")
        assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-10)


@pytest.mark.parametrize(
    "weight, words",
    [
        (
            0.5,
            r"frequencies, whole numbers of at least 0; column 'n' has others in 1 of 40 rows: .*, row {}, has 0\.5",
        ),
        (-1, "row {}, has -1. A row with the weight 0 is left out"),
        (np.nan, "row {}, has no value"),
        (np.inf, "row {}, has inf"),
    ],
)
def test_weights_that_are_no_frequencies_are_refused(tmp_path, weight, words):
    table = TABLE.assign(n=np.where(np.arange(ROWS) == 3, weight, TABLE["n"]))
    with pytest.raises(DataError, match=words.format(3)):
        estimate("y ~ x", table, weights="n")
    for source in in_files(table, tmp_path):
        with pytest.raises(DataError, match=r"table\.\w+: weights .*|.*" + words.format(4)):
            estimate("y ~ x", source, weights="n")


def test_weights_that_sum_to_nothing_or_to_too_much(tmp_path):
    for table in (TABLE.assign(n=0), *in_files(TABLE.assign(n=0), tmp_path)):
        with pytest.raises(DataError, match="the weights in column 'n' are 0 in all rows"):
            estimate("y ~ x", table, weights="n")
    with pytest.raises(
        ConfigurationError, match=r"weights='n' would need .* for the 40,000,000,000,000 rows"
    ):
        estimate("y ~ x", TABLE.assign(n=10**12), weights="n")


def test_weights_are_a_column_of_numbers():
    for given in (3, TABLE["n"].tolist(), ""):
        with pytest.raises(ConfigurationError, match="weights must be the name of a column of the table"):
            ev.Regression("y ~ x", weights=given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="the table has no column 'm'"):
        estimate("y ~ x", TABLE, weights="m")
    with pytest.raises(DataError, match="weights must be whole numbers; column 'k' has"):
        estimate("y ~ x", TABLE, weights="k")
    assert ev.Regression("y ~ x", weights="n").variables == ["y", "x", "n"]
