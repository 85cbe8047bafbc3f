"""Formulas on rows that stay on a cluster or in files: the evidence of a table in memory."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.cluster.over_executor import OverExecutor
from evidentia.regression import streamed
from evidentia.regression.families import FAMILIES
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.streamed import spread

RNG = np.random.default_rng(3)
ROWS = 400
PREDICTOR = RNG.normal(size=ROWS)
TABLE = pd.DataFrame({"x": PREDICTOR, "g": np.resize(list("abc"), ROWS)})
TABLE["count"] = RNG.poisson(np.exp(PREDICTOR))
TABLE["real"] = 7 + PREDICTOR + RNG.standard_t(4, size=ROWS)
TABLE["positive"] = np.exp(PREDICTOR + RNG.normal(size=ROWS))
TABLE["share"] = 1 / (1 + np.exp(-TABLE["real"] + 7))
TABLE["ends"] = TABLE["share"].where(TABLE.index % 7 > 0, 0.0).where(TABLE.index % 11 > 0, 1.0)
TABLE["word"] = np.where(TABLE["x"] + RNG.normal(size=ROWS) > 0, "yes", "no")
TABLE["word"] = TABLE["word"].where(TABLE.index > 390, "no")  # the other one in the last rows only
TABLE["kind"] = np.where(TABLE.index % 3 > 0, TABLE["word"], "perhaps")
TABLE["level"] = RNG.integers(0, 4, ROWS)
TABLE["trials"], TABLE["successes"] = 5, RNG.binomial(5, 1 / (1 + np.exp(-PREDICTOR)))
TABLE["status"] = 1 + (TABLE.index % 3 > 0)  # 1 and 2, as in R
TABLE.loc[:150, "status"] = 1
TABLE["error"] = 0.5 + RNG.uniform(size=ROWS)
LEFT = {
    "gaussian": "real",
    "student-t": "real",
    "bernoulli": "word",
    "binomial": "successes | trials",
    "beta": "share",
    "gamma": "positive",
    "categorical": "kind",
    "ordinal": "level",
    "zero-inflated-beta": "I(ends * (ends < 1))",
    "zero-one-inflated-beta": "ends",
    **dict.fromkeys(("exponential", "weibull", "lognormal"), "Surv(positive, status)"),
}


class Remote:
    """Threads that get and return what processes would: pickled; and the largest answer."""

    def __init__(self):
        self.largest = 0

    def submit(self, function, *args):
        def call(sent):
            called, *given = cloudpickle.loads(sent)
            answer = cloudpickle.dumps(called(*given))
            self.largest = max(self.largest, len(answer))
            return cloudpickle.loads(answer)

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call, cloudpickle.dumps((function, *args)))


def far(regression, table=TABLE, stops=(150, 150, 390, ROWS), remote=None):
    parts = [table[start:stop] for start, stop in pairwise((0, *stops))]  # of which one has no rows
    return spread(OverExecutor(remote or Remote(), parts), regression.variables, "drop", None)  # type: ignore[arg-type]


def arrays_in(engine):
    found = [batch.arrays for task in engine.submit(_batches) for batch in task.result()]
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def _batches(partition):
    return list(partition.batches())


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("name", [*FAMILIES, "known errors"])
def test_model_and_arrays_are_those_of_the_table(name, has_intercept):
    left = "real | se(error)" if name == "known errors" else LEFT.get(name, "count")
    formula = f"{left} ~ x + g + offset(x){'' if has_intercept else ' - 1'}"
    formula = formula.replace(" + offset(x)", "") if name == "categorical" else formula
    regression = ev.Regression(formula, "gaussian" if name == "known errors" else name, prior="normal")
    parsed, law = parse(formula), regression.law
    here, there = regression.rows_of(TABLE), far(regression)
    with ev.errors.quietly():
        whole, parts = (regression.prepared(frame_of(parsed, one, law), one, None) for one in (here, there))
    for field in "location", "scale", "log_jacobian", "information":
        expected = getattr(whole.response, field)
        assert getattr(parts.response, field) == (expected and pytest.approx(expected, rel=1e-9))
    assert parts.response.levels == whole.response.levels
    found = arrays_in(parts.arrays)
    assert list(found) == list(whole.arrays)
    for name, values in whole.arrays.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_the_rows_stay_where_they_are(small_sample):
    regression, remote = ev.Regression("count ~ x + g", "poisson"), Remote()
    table = pd.concat(40 * [TABLE], ignore_index=True)
    there = far(regression, table, (5000, 16_000), remote)
    remote.largest = 0
    found, whole = ev.estimate(regression, there), ev.estimate(regression, table)
    error = np.hypot(found.standard_error, whole.standard_error)
    assert abs(found.log_evidence - whole.log_evidence) < 4 * error
    assert found.completed and found.num_observations == len(table)
    assert found.fingerprints == whole.fingerprints
    assert remote.largest < 4 * 5000  # bytes: less than one column of the smaller partition


@pytest.mark.slow
def test_coefficients_and_other_widths_come_from_looks(small_sample):
    regression = ev.Regression("word ~ x", "bernoulli")
    found, whole = ev.estimate(regression, far(regression)), ev.estimate(regression, TABLE)
    ours, theirs = (one.summary().to_dict()["x"]["log_bf10"] for one in (found, whole))
    assert ours == pytest.approx(theirs, abs=0.1)  # errors are below 0.02
    assert found.predict(TABLE[:3])["word"].shape[1] == 3
    widths = [ev.prior_sensitivity(one, factors=[100.0]) for one in (found, whole)]  # new runs
    assert widths[0].change == pytest.approx(widths[1].change, abs=0.1)  # errors are below 0.02


@pytest.mark.slow
def test_separated_categories_are_noticed(small_sample):
    table = TABLE.assign(word=np.where(TABLE["x"] > 0, "yes", "no"))
    regression = ev.Regression("word ~ x", "bernoulli")
    with pytest.warns(ev.EvidenceWarning, match="the columns separate the categories"):
        ev.estimate(regression, far(regression, table))


@pytest.mark.parametrize(
    "formula, name, message",
    [
        ("bad ~ x", "poisson", "partition 2: the response bad must hold counts"),
        ("I(2 * x) ~ x", "student-t", "the response is explained exactly by 'x'"),
        ("Surv(exp(x), status) ~ x", "weibull", "the times of all events are explained exactly by 'x'"),
        ("x ~ g", "ordinal", "the response x must have 2 to 1,000 categories; it has 2,000"),
    ],
)
def test_what_is_refused(formula, name, message):
    table = TABLE.assign(bad=TABLE["count"].where(TABLE.index != 200, -1), status=1)
    if name == "ordinal":
        table = pd.DataFrame({"x": np.arange(2000.0), "g": "a b".split() * 1000})
    regression = ev.Regression(formula, name)
    with pytest.raises(ev.DataError, match=message):
        ev.estimate(regression, far(regression, table, (150, 150, len(table))))


def test_other_methods_need_the_rows_here():
    regression = ev.Regression("count ~ x", "poisson")
    with pytest.raises(
        ev.ConfigurationError, match=r"method must be one of SGAIS\(\) and Laplace\(\) for rows"
    ):
        ev.estimate(regression, far(regression), method=ev.SMC())


@pytest.mark.slow
def test_files_larger_than_memory_are_read_for_each_look(tmp_path, monkeypatch, small_sample):
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    regression, source = ev.Regression("count ~ x + g", "poisson"), ev.read_csv(str(tmp_path / "rows.csv"))
    whole = ev.estimate(regression, source)
    monkeypatch.setattr(streamed, "memory", lambda: 0.0)
    found = ev.estimate(regression, source)
    error = np.hypot(found.standard_error, whole.standard_error)
    assert abs(found.log_evidence - whole.log_evidence) < 4 * error
