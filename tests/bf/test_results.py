"""What the results of all tests have in common, and their data in order."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError

DOLLS = [("same", "white")] * 50 + [("other", "white")] * 21 + [("same", "black")] * 48
DOLLS += [("other", "black")] * 41


@pytest.fixture(scope="module")
def results():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 12))
    prior = {"b": generator.normal(size=4000)}
    posterior = {"b": 0.5 * generator.normal(size=4000) + 0.2}
    return {
        "t": ev.bf.t_test(x, y),
        "correlation": ev.bf.correlation(x, y),
        "Kendall": ev.bf.correlation(x, y, "kendall"),
        "proportion": ev.bf.proportion(x > 0),
        "equal proportions": ev.bf.proportion([x > 0, y > 0], null="equal"),
        "table": ev.bf.contingency({"a": x > 0, "b": y > 0}),
        "larger table": ev.bf.contingency([[10, 3, 4], [2, 8, 5]]),
        "studies": ev.bf.meta_t_test([2.1, 1.4], [30, 25]),
        "effects": ev.bf.meta_analysis([0.4, 0.2], [0.15, 0.1]),
        "ANOVA": ev.bf.anova("y ~ a", {"y": x, "a": list("pq") * 6}),
        "order": ev.bf.order("b > 0", posterior, prior),
        "Savage-Dickey": ev.bf.savage_dickey(posterior, "b", 0.0, prior),
    }


def test_all_have_the_same_face(results, tmp_path):
    for name, found in results.items():
        bf10 = found.bf10 if name != "ANOVA" else found.bf10["a"]
        log_bf10 = found.log_bf10 if name != "ANOVA" else found.log_bf10["a"]
        bf01 = found.bf01 if name != "ANOVA" else found.bf01["a"]
        assert np.log(bf10) == pytest.approx(log_bf10) and bf10 * bf01 == pytest.approx(1)
        assert found.error is not None and found.conclusion
        assert len(found.to_pandas())
        found.save(tmp_path / "found.json")
        assert json.loads((tmp_path / "found.json").read_text()) == json.loads(json.dumps(found.to_dict()))
        assert len(ev.compare(found).probability) >= 2
        assert found.plot().get_xlabel()
        plt.close("all")


def test_sequences_end_with_the_whole(results):
    for name in ("t", "correlation", "Kendall", "proportion", "equal proportions", "table", "studies"):
        curve = results[name].sequential()
        assert curve.log_bf10[-1] == pytest.approx(results[name].log_bf10, abs=1e-12)
        assert curve.num_observations[0] < curve.num_observations[-1]
    for name in ("order", "Savage-Dickey", "larger table"):
        with pytest.raises(ConfigurationError, match="of summary statistics, or of draws"):
            results[name].sequential()


def test_draws_have_no_prior_whose_width_can_be_varied(results):
    for name, words in (("order", "order of parameters"), ("Savage-Dickey", "Savage-Dickey ratio")):
        with pytest.raises(
            ConfigurationError, match=f"which this {words} does not have; its prior is the mod"
        ):
            results[name].robustness()


@pytest.mark.parametrize(
    ("plan", "fixed"),
    [
        ("independent multinomial", "columns"),
        ("independent multinomial", "rows"),
        ("joint multinomial", None),
        ("poisson", None),
        ("hypergeometric", None),
    ],
)
def test_columns_of_categories_are_counted(plan, fixed):
    rows = pd.DataFrame(DOLLS, columns=["doll", "group"]).sample(frac=1, random_state=0)
    counts = pd.crosstab(rows["doll"], rows["group"])
    for given in (rows, {name: column.tolist() for name, column in rows.items()}):
        found = ev.bf.contingency(given, plan, fixed)
        assert found.log_bf10 == ev.bf.contingency(counts, plan, fixed).log_bf10
    first = pd.crosstab(rows["doll"][:40], rows["group"][:40])
    curve = found.sequential(160)
    assert curve.num_observations.tolist() == list(range(1, 161))
    assert curve.log_bf10[39] == pytest.approx(ev.bf.contingency(first, plan, fixed).log_bf10, abs=1e-12)


def test_outcomes_are_counted_and_missing_ones_left_out():
    outcomes = [1, 0, 1, 1, None, 0, 1]
    found = ev.bf.proportion(outcomes)
    assert found.log_bf10 == ev.bf.proportion(4, 6).log_bf10
    assert found.notes == ("left out as values are missing: 1 rows of successes.",)
    assert found.sequential().log_bf10[2] == pytest.approx(ev.bf.proportion(2, 3).log_bf10, abs=1e-12)
    batches = ev.bf.proportion([7, 8], [12, 13]).sequential()
    assert batches.log_bf10[0] == pytest.approx(ev.bf.proportion(7, 12).log_bf10, abs=1e-12)
    groups = ev.bf.proportion({"a": outcomes, "b": [0, 0, 1]}, null="equal")
    assert groups.log_bf10 == ev.bf.proportion([4, 1], [6, 3], null="equal").log_bf10
    rows = ev.bf.contingency({"a": ["x", "y", None], "b": [True, False, True]})
    assert rows.notes == ("left out as values are missing: 1 rows.",)


def test_the_savage_dickey_ratio_has_an_effect(results):
    found = results["Savage-Dickey"]
    low, high = found.posterior.interval
    assert (low, found.posterior.median, high) == pytest.approx([-0.78, 0.2, 1.18], abs=0.06)
    zero = np.zeros(1)
    ratio = found.posterior.prior_density(zero) / found.posterior.density(zero)
    assert ratio[0] == pytest.approx(found.bf10, rel=0.01)
    values = np.linspace(-3, 3, 601)
    assert np.trapezoid(found.posterior.density(values), values) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ev.bf.proportion(5), "a column of zeros and ones; got 5. Of counts, give trials"),
        (lambda: ev.bf.proportion([1, 2]), "zeros and ones; got [1, 2]"),
        (lambda: ev.bf.proportion([[0, 1], [2, 1]], null="equal"), "successes of group 2 without trials"),
        (lambda: ev.bf.proportion(3, null="equal"), "columns of zeros and ones, by group; got 3"),
        (
            lambda: ev.bf.contingency({"a": [1, 2]}),
            "two columns of categories, with as many rows; got a of 2",
        ),
        (lambda: ev.bf.contingency({"a": "xy", "b": "x"}), "got a of 2, b of 1"),
        (
            lambda: ev.bf.contingency({"a": "xx", "b": "xy"}),
            "two rows and two columns or more; got shape (1, 2)",
        ),
    ],
)
def test_bad_input_gets_one_message(call, words):
    with pytest.raises(DataError) as caught:
        call()
    assert words in str(caught.value)
