"""ANOVAs against published values, a tensor grid, and what the result must not depend on."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.bf.factors.variables import models_of
from evidentia.errors import ConfigurationError, DataError

TIMES = """49,47,46,47,48,47,41,46,43,47,46,45,48,46,47,45,49,44,44,45,42,45,45,40,
49,46,47,45,49,45,41,43,44,46,45,40,45,43,44,45,48,46,40,45,40,45,47,40"""


@pytest.fixture(scope="module")
def puzzles():
    return pd.DataFrame(
        {
            "RT": [float(time) for time in TIMES.replace("\n", "").split(",")],
            "ID": np.tile(np.arange(12), 4),
            "shape": np.repeat(["round", "square", "round", "square"], 12),
            "colour": np.repeat(["mono", "mono", "colour", "colour"], 12),
        }
    )


@pytest.fixture(scope="module")
def found(puzzles):
    return ev.bf.anova("RT ~ shape * colour + ID", puzzles, random=["ID"])


@pytest.mark.parametrize(
    ("model", "other", "bf"),
    [
        ("ID", "1", 111516.571807),
        ("shape", "ID", 2.8648407),
        ("colour + ID", "ID", 2.8648407),
        ("shape + colour", "ID", 11.8880456),
        ("shape + colour + shape:colour", "ID", 4.4362491),
        ("ID + colour:shape + colour + shape", "1", 494715.296),
    ],
)
def test_puzzles(found, model, other, bf):
    assert found.log_bf(model, other) == pytest.approx(np.log(bf), abs=1e-4)


def test_the_result_does_not_depend_on_names_or_order_of_levels_or_rows(puzzles, found):
    other = puzzles.assign(
        shape=puzzles["shape"].map({"round": "z", "square": "a"}),
        ID=puzzles["ID"].map(lambda one: f"p{97 * one % 31}"),
    ).sample(frac=1, random_state=1)
    again = ev.bf.anova("RT ~ ID + colour * shape", other, random="ID")
    for model in ("shape", "shape + colour", "shape + colour + shape:colour"):
        assert again.log_bf(model) == pytest.approx(found.log_bf(model), abs=1e-4)


def test_units_of_the_response_do_not_matter(puzzles, found):
    other = ev.bf.anova("RT ~ shape + ID", puzzles.assign(RT=1000 * puzzles["RT"] - 7), random="ID")
    assert other.log_bf("shape") == pytest.approx(found.log_bf("shape"), abs=1e-4)


def test_two_groups_are_the_t_test():
    """With orthonormal contrasts, r = 1/2 of a factor with two levels is the t test's √2/2."""
    generator = np.random.default_rng(3)
    x, y = generator.normal(0.6, 1, 14), generator.normal(0, 1, 19)
    table = {"value": [*x, *y], "group": ["x"] * 14 + ["y"] * 19}
    assert ev.bf.anova("value ~ group", table).log_bf("group") == pytest.approx(
        ev.bf.t_test(x, y).log_bf10, abs=1e-8
    )


def test_one_covariate_is_the_jzs_regression():
    generator = np.random.default_rng(4)
    x = generator.normal(size=30)
    table = pd.DataFrame({"x": x, "z": generator.normal(size=30), "y": x + generator.normal(size=30)})
    whole = ev.bf.anova("y ~ x + z", table)
    for terms in ("x", "x + z"):
        one, none = (ev.estimate(ev.Regression(f"y ~ {side}"), table) for side in (terms, "1"))
        assert whole.log_bf(terms) == pytest.approx(one.log_evidence - none.log_evidence, abs=1e-7)


def test_models_keep_marginality():
    assert models_of(["a", "b", "a:b"], 100) == [(), ("a",), ("b",), ("a", "b"), ("a", "b", "a:b")]
    assert len(models_of(["a", "b", "c", "a:b", "a:c", "b:c", "a:b:c"], 100)) == 19


def test_inclusion_over_matched_models(found):
    value = found.log_bf10
    with_shape = np.logaddexp(value["shape + ID"], value["shape + colour + ID"])
    without = np.logaddexp(value["ID"], value["colour + ID"])
    assert found.log_inclusion_bf["shape"] == pytest.approx(with_shape - without)
    assert found.log_inclusion_bf["shape:colour"] == pytest.approx(
        value["shape + colour + shape:colour + ID"] - value["shape + colour + ID"]
    )


def test_effects_of_one_model_and_averaged(found):
    """Two equal main effects of a balanced design; two levels of each."""
    one = found.effects("shape + colour").to_pandas()
    assert one["level"].tolist() == ["round", "square", "colour", "mono"]
    assert one["mean"].tolist() == pytest.approx([0.431, -0.431, -0.431, 0.431], abs=2e-3)
    table = found.effects()
    averaged = table.to_pandas().set_index(["term", "level"])
    probability = found.to_pandas()["probability"]
    with_shape = [name for name in probability.index if name.startswith("shape")]
    assert averaged.loc[("shape", "round"), "probability"] == pytest.approx(probability[with_shape].sum())
    assert averaged.loc[("shape:colour", "round, mono"), "mean"] == pytest.approx(0, abs=1e-3)
    row = averaged.loc[("shape", "round")]
    assert row["low_95"] < row["median"] < row["high_95"] and row["sd"] == pytest.approx(0.192, abs=3e-3)
    assert "averaged over the models" in repr(table) and "shape [round]" in repr(found)
    assert found.to_dict()["effects"][0]["term"] == "shape"
    assert table.plot().get_xlabel().startswith("effect")
    plt.close("all")


def test_the_effect_of_two_groups_is_that_of_the_t_test():
    """d = (difference of levels) / σ; both posteriors of σ are narrow."""
    generator = np.random.default_rng(3)
    x, y = generator.normal(0.6, 1, 400), generator.normal(0, 1, 400)
    table = {"value": [*x, *y], "group": ["x"] * 400 + ["y"] * 400}
    effect = ev.bf.anova("value ~ group", table).effects("group").effects[0]
    test = ev.bf.t_test(x, y)
    pooled = np.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2)
    assert 2 * effect.median / pooled == pytest.approx(test.posterior.median, rel=5e-3)
    assert 2 * effect.low / pooled == pytest.approx(test.posterior.interval[0], rel=1e-2)


def test_effects_of_covariates_are_of_one_unit():
    generator = np.random.default_rng(5)
    x = 100 * generator.normal(size=80) + 7
    table = {"x": x, "y": 0.03 * x + generator.normal(size=80), "a": ["p", "q"] * 40}
    found = ev.bf.anova("y ~ x * a", table).effects("x + a + x:a").to_pandas().set_index(["term", "level"])
    assert found.loc[("x", ""), "mean"] == pytest.approx(0.03, abs=0.004)
    assert ("x:a", "p") in found.index
    with pytest.raises(ConfigurationError, match="'1' has none|1 has none"):
        ev.bf.anova("y ~ a", table).effects("1")


def test_robustness_and_participants_one_after_the_other(puzzles, found):
    curves = found.robustness([0.5, 1.0])
    wide = ev.bf.anova("RT ~ shape * colour + ID", puzzles, random="ID", scale="ultrawide")
    for term, curve in curves.by_question.items():
        assert curve.log_bf10 == pytest.approx(
            [found.log_inclusion_bf[term], wide.log_inclusion_bf[term]], abs=1e-4
        )
        assert set(curve.marked) == {"medium", "wide", "ultrawide"}
    steps = found.sequential(3)
    first = ev.bf.anova("RT ~ shape * colour + ID", puzzles[puzzles["ID"] < 7], random="ID")
    curve = steps.by_question["shape"]
    assert curve.num_observations.tolist() == [8, 28, 48]
    assert curve.log_bf10[1:] == pytest.approx(
        [first.log_inclusion_bf["shape"], found.log_inclusion_bf["shape"]], abs=1e-9
    )
    assert set(steps.to_pandas()["question"]) == {"shape", "colour", "shape:colour"}
    for each in (curves, steps):
        assert len(each.plot().get_legend().get_texts()) == 3
    plt.close("all")


def test_a_sequence_of_rows_starts_where_it_can():
    table = {"y": [1.0, 2.0, 4.0, 3.0, 7.0, 5.0, 6.0, 9.0], "a": list("ppppqqqq")}
    curve = ev.bf.anova("y ~ a", table).sequential().by_question["a"]
    assert np.isnan(curve.log_bf10[0]) and np.isfinite(curve.log_bf10[-1])


def test_what_is_printed_and_compared(found):
    shown = repr(found)
    assert "BF against ID" in shown and "11.89" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert found.conclusion.startswith("The best model is shape + colour + ID: BF = 11.89 against ID, strong")
    assert ev.compare(found).best == "shape + colour + ID"
    assert found.to_pandas().index[0] == "shape + colour + ID"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda table: ev.bf.anova("RT ~ log(ID)", table),
            ConfigurationError,
            "must be columns of the table",
        ),
        (
            lambda table: ev.bf.anova("RT ~ shape", table, random=["ID"]),
            ConfigurationError,
            "'ID' is not in it",
        ),
        (lambda table: ev.bf.anova("RT ~ shape + (1 | ID)", table), ConfigurationError, "random="),
        (lambda table: ev.bf.anova("RT ~ shape", table, models="some"), ConfigurationError, "'top-down'"),
        (
            lambda table: ev.bf.anova("RT ~ shape", table[table["shape"] == "round"]),
            DataError,
            "has one level",
        ),
        (lambda table: ev.bf.anova("RT ~ shape", table.assign(RT=1.0)), DataError, "must vary"),
        (lambda table: ev.bf.anova("shape ~ colour", table), DataError, "must hold numbers"),
        (
            lambda table: ev.bf.anova("RT ~ shape", table).log_bf("colour"),
            ConfigurationError,
            "model must be one of",
        ),
    ],
)
def test_bad_input_gets_one_message(puzzles, call, error, words):
    with pytest.raises(error) as caught:
        call(puzzles)
    assert words in str(caught.value)


def test_crossed_random_factors():
    """Centred indicators sum to zero; their rounding, times a large g, was a negative pivot."""
    generator = np.random.default_rng(0)
    subject, item = np.repeat(range(8), 6), np.tile(range(6), 8)
    y = generator.normal(size=8)[subject] + generator.normal(size=6)[item] + generator.normal(size=48)
    found = ev.bf.anova("y ~ s + it", {"y": y, "s": subject, "it": item}, random=["s", "it"])
    assert found.log_bf("s + it", "1") == pytest.approx(8.98687, abs=1e-4)  # on a fine grid of both


def test_random_slopes_of_a_covariate_leave_its_effect():
    generator = np.random.default_rng(1)
    who, x = np.repeat(range(12), 10), generator.normal(size=120)
    y = 2 * x + generator.normal(size=12)[who] + generator.normal(size=120)
    found = ev.bf.anova("y ~ x * who", {"y": y, "x": x, "who": who}, random="who")
    assert found.log_bf("x") > 5
    assert found.log_inclusion_bf["x"] == pytest.approx(found.log_bf("x"))


def test_many_terms():
    generator = np.random.default_rng(2)
    table = {name: generator.choice(["p", "q"], 64) for name in "abcde"} | {"y": generator.normal(size=64)}
    with pytest.raises(ConfigurationError, match="more than 2,000 models"):
        ev.bf.anova("y ~ a * b * c * d * e", table)
    top = ev.bf.anova("y ~ a * b", table, models="top-down")
    assert set(top.log_bf10) == {"1", "a + b", "a + a:b", "b + a:b", "a + b + a:b"}


def test_functions_of_the_response_and_categories_as_numbers():
    generator = np.random.default_rng(3)
    codes, y = np.tile([1, 2, 3], 8), generator.normal(size=24)
    names = np.array(["one", "two", "three"])[codes - 1]
    table = {"y": y, "z": np.exp(y), "code": codes, "name": names}
    by_name = ev.bf.anova("y ~ name", table).log_bf("name")
    assert ev.bf.anova("log(z) ~ C(code)", table).log_bf("C(code)") == pytest.approx(by_name, abs=1e-9)
    assert ev.bf.anova("y ~ name", table | {"y": 1e200 * y}).log_bf("name") == pytest.approx(
        by_name, abs=1e-9
    )


def test_what_has_no_bound_or_cannot_be_told_is_refused():
    with pytest.raises(DataError, match="explain the response y exactly"):
        ev.bf.anova("y ~ a", {"y": [1.0, 2.0] * 12, "a": ["p", "q"] * 12})
    y = np.random.default_rng(4).normal(size=20)
    with pytest.raises(DataError, match="one row in each level"):
        ev.bf.anova("y ~ a + who", {"y": y, "a": list("pq") * 10, "who": range(20)}, random="who")


def test_no_random_factor_is_none_of_them(puzzles):
    assert (
        ev.bf.anova("RT ~ shape", puzzles, random=None).log_bf10
        == ev.bf.anova("RT ~ shape", puzzles).log_bf10
    )


def test_identifiers_that_are_digits_are_levels(puzzles):
    as_text = puzzles.assign(ID=puzzles["ID"].astype(str).str.zfill(3))
    as_numbers = ev.bf.anova("RT ~ shape + ID", puzzles, random="ID")
    assert ev.bf.anova("RT ~ shape + ID", as_text, random="ID").log_bf10 == pytest.approx(as_numbers.log_bf10)
    fixed = ev.bf.anova("RT ~ ID", as_text)
    assert "ID is a factor, as it holds text; convert it to numbers" in repr(fixed)
    assert fixed.log_bf("ID") == pytest.approx(ev.bf.anova("RT ~ C(ID)", puzzles).log_bf("C(ID)"))


def test_a_note_on_numbers_that_may_be_categories():
    table = {"y": np.random.default_rng(8).normal(size=24), "week": np.tile([1, 2, 3, 4], 6)}
    found = ev.bf.anova("y ~ week", table)
    assert found.notes == ("week is a covariate, as it holds numbers (4 values); as a factor it is C(week).",)
    assert not ev.bf.anova("y ~ C(week)", table).notes


@pytest.mark.parametrize(
    ("term", "given"), [("g", {}), ("C(k)", {}), ("who", {"random": "who"}), ("is_odd", {})]
)
def test_a_note_on_levels_with_one_row(term, given):
    table = {
        "y": np.random.default_rng(10).normal(size=12),
        "g": ["a"] * 6 + ["b"] * 5 + ["B"],
        "k": [1] * 6 + [2] * 5 + [3],
        "who": [7, 7, 7, 8, 8, 8, 9, 9, 9, 9, 10, 11],
        "is_odd": [False] * 11 + [True],
    }
    (note,) = ev.bf.anova(f"y ~ {term}", table, **given).notes
    if term == "who":
        assert note == "2 of the 5 levels of who have one row each, such as '10'."
    else:
        assert note.startswith("The level ") and " has one row, on which its effect rests" in note
    twice = {name: [*column, *column] for name, column in table.items()}
    assert not ev.bf.anova(f"y ~ {term}", twice, **given).notes


def test_columns_with_a_colon_in_their_names():
    generator = np.random.default_rng(9)
    table = {"y": generator.normal(size=24), "a:b": list("pq") * 12, "c": list("rrss") * 6}
    found = ev.bf.anova("y ~ `a:b` + c", table)
    plain = ev.bf.anova("y ~ a + c", {**table, "a": table["a:b"]})
    assert sorted(found.log_bf10.values()) == pytest.approx(sorted(plain.log_bf10.values()))
