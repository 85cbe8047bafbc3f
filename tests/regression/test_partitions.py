"""Formulas on partitions: the numbers of the same table in memory."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.cluster.over_executor import OverExecutor
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.streamed import spread

RNG = np.random.default_rng(4)
ROWS = 60
TABLE = pd.DataFrame(
    {"x": RNG.normal(size=ROWS), "g": np.resize(list("cba"), ROWS), "k": np.arange(ROWS) % 4}
)
TABLE.loc[50:, "g"] = "d"  # in the last partition only
TABLE["y"] = TABLE["x"] + RNG.normal(size=ROWS)
PARTS = [TABLE[:20], TABLE[20:20], TABLE[20:45], TABLE[45:]]


class Remote:
    """Threads that get and return what processes would: pickled."""

    def submit(self, function, *args):
        def call(sent):
            called, *given = pickle.loads(sent)
            return pickle.loads(pickle.dumps(called(*given)))

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call, pickle.dumps((function, *args)))


def over(parts):
    return OverExecutor(Remote(), parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "formula", ["y ~ x + g", "y ~ x * g + C(k)", "y ~ bs(x, df=4)", "y ~ I((x - x.mean())**2) + log(k + 1)"]
)
def test_the_sums_are_those_of_the_table(formula):
    parsed = parse(formula)
    whole, found = (
        frame_of(parsed, TABLE),
        frame_of(parsed, spread(over(PARTS), parsed.variables, "drop", None)),
    )
    assert found.names == whole.names and found.fingerprints == whole.fingerprints
    assert found.num_rows == ROWS
    np.testing.assert_allclose(found.moments.products, whole.moments.products, rtol=1e-9, atol=1e-9)


def test_arrays_by_name_are_partitions_too():
    parts = [{name: part[name].to_numpy() for name in ("x", "y")} for part in PARTS]
    found = ev.estimate(ev.Regression("y ~ x"), spread(over(parts), ["y", "x"], "drop", None))
    assert found.log_evidence == pytest.approx(ev.estimate(ev.Regression("y ~ x"), TABLE).log_evidence)


def test_missing_values_and_weights_of_all_partitions():
    table = TABLE.assign(x=TABLE["x"].where(TABLE.index % 9 > 0))
    parts = [table[:30], table[30:]]
    with pytest.warns(ev.EvidenceWarning, match=r"7 of 60 rows have missing values \(x 7\)"):
        rows = spread(over(parts), ["y", "x"], "drop", "k")
    with pytest.warns(ev.EvidenceWarning):
        whole = ev.estimate(ev.Regression("y ~ x", weights="k"), table)
    assert ev.estimate(ev.Regression("y ~ x"), rows).log_evidence == pytest.approx(whole.log_evidence)


@pytest.mark.parametrize(
    "parts, message",
    [
        ([TABLE, TABLE.drop(columns="x")], "partition 1: the table has no column 'x'"),
        ([TABLE, TABLE.assign(x="a")], "column 'x' holds text in some partitions, and numbers in others"),
        ([[1.0]], "data of a formula must be a table: a Dask data frame, or a Ray dataset"),
        ([TABLE[:0]], "no rows without missing values"),
    ],
)
def test_partitions_that_cannot_be_used(parts, message):
    with pytest.raises(ev.DataError, match=message):
        spread(over(parts), ["y", "x"], "drop", None)


@pytest.mark.cluster
def test_a_dask_data_frame(small_sample):
    frames, distributed = pytest.importorskip("dask.dataframe"), pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=1, dashboard_address=":0"):  # a free port
        table = pd.concat(4 * [TABLE], ignore_index=True)
        far = frames.from_pandas(table, npartitions=3)
        for regression in ev.Regression("y ~ x + g"), ev.Regression("k ~ x", "poisson"):
            found = ev.estimate(regression, far)
            whole = ev.estimate(regression, table)
            error = np.hypot(found.standard_error, whole.standard_error)
            assert abs(found.log_evidence - whole.log_evidence) <= 4 * error + 1e-6
