"""`evidentia regress` on files, from formulas to results."""

import io
import json
import math
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.cli.regress import _comparable, _of_one_kind
from tests.evidence_factory import make_evidence
from tests.regression.attitude import ATTITUDE


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "attitude.csv"
    pd.DataFrame(ATTITUDE).to_csv(path, index=False)
    return path


def test_formulas_are_compared_as_in_python(run, table):
    formulas = "rating ~ complaints", "rating ~ complaints + learning"
    code, out, err = run("regress", table, *formulas, "--json", "--quiet")
    assert code == 0, err
    found = json.loads(out)
    for formula in formulas:
        assert (
            found["evidences"][formula]["log_evidence"]
            == ev.estimate(ev.Regression(formula), ATTITUDE).log_evidence
        )
    assert found["data"]["columns"] == ["rating", "complaints", "learning"]
    assert "improper and shared by all models" in " ".join(found["notes"])


def test_a_g_for_each_term(run, tmp_path):
    table = pd.DataFrame({"y": [1.0, 2.1, 1.4, 2.9, 2.2, 3.4], "a": list("uvuwvw")})
    table.to_csv(tmp_path / "table.csv", index=False)
    code, out, err = run("regress", tmp_path / "table.csv", "y ~ a", "--g", "per-term", "--json", "--quiet")
    assert code == 0, err
    exact = ev.estimate(ev.Regression("y ~ a", g="per-term"), table)
    assert json.loads(out)["evidences"]["y ~ a"]["log_evidence"] == exact.log_evidence


def test_frequencies_are_those_of_repeated_rows(run, tmp_path):
    table = pd.DataFrame({"y": [1.0, 2.0, 4.0, 3.0], "x": [0.0, 1.0, 2.0, 3.0], "n": [2, 0, 3, 5]})
    table.to_csv(tmp_path / "table.csv", index=False)
    code, out, err = run("regress", tmp_path / "table.csv", "y ~ x", "--weights", "n", "--json", "--quiet")
    assert code == 0, err
    found = json.loads(out)
    exact = ev.estimate(ev.Regression("y ~ x"), table.loc[np.repeat(table.index, table["n"])])
    assert found["evidences"]["y ~ x"]["log_evidence"] == exact.log_evidence
    assert found["data"]["num_rows"] == 10 and found["data"]["weights"] == "n"
    assert "Each row of the file counts as often as its number in n says." in found["notes"]


def test_one_formula_is_compared_with_the_intercept_alone(run, table, tmp_path):
    code, out, err = run("regress", table, "rating ~ complaints", "--out", tmp_path / "results")
    assert code == 0, err
    assert "rating ~ 1" in out and "12.94" in out and "Prior of the effects: jzs, scale 0.354." in out
    assert "Prior of the effects: jzs, scale 0.354." in (tmp_path / "results" / "index.html").read_text()
    assert (tmp_path / "results" / "index.html").exists()
    exact = ev.estimate(ev.Regression("rating ~ complaints"), ATTITUDE)
    loaded = ev.load(tmp_path / "results" / "evidence_rating_complaints")
    assert loaded.log_evidence == exact.log_evidence and loaded.method == exact.method
    np.testing.assert_array_equal(loaded.posterior["complaints"], exact.posterior["complaints"])


def test_coefficients_are_printed_and_in_the_report(run, table, tmp_path):
    """Of the best formula that has terms; what is aliased has a note."""
    folder = tmp_path / "results"
    formulas = "rating ~ complaints + learning + I(2 * learning + 1)", "rating ~ 1"
    code, out, err = run("regress", table, *formulas, "--out", folder, "-q")
    assert code == 0, err
    summary = ev.estimate(ev.Regression("rating ~ complaints + learning"), ATTITUDE).summary()
    lines = [line.rstrip() for line in out.splitlines()]
    assert f"Coefficients of {formulas[0]}:" in lines
    for line in repr(summary).splitlines():
        assert line in lines and len(line) <= 80
    sums = "'I(2 * learning + 1)' is 2 'learning' + 1"
    assert f"left out: {sums}" in lines and sums in err
    page = unescape((folder / "index.html").read_text())
    for cell in summary.cells()[1][1]:
        assert f">{cell}</td>" in page
    assert "BF10 is the Bayes factor of the formula against the same without the column." in page
    assert f"Left out, as others stand for them: {sums}." in page
    found = json.loads((folder / "results.json").read_text())
    assert found["coefficients"][formulas[0]]["learning"]["log_bf10"] == pytest.approx(
        summary.log_bayes_factor[2]
    )
    assert found["coefficients"][formulas[0]]["Intercept"]["bf10"] is None
    assert set(found["terms"]) == {"complaints", "learning"}  # the other stands for none of them
    code, out, _ = run("regress", table, "rating ~ 1", "-q")
    assert code == 0 and "Coefficients" not in out


@pytest.mark.slow
def test_results_of_other_rows_or_priors_are_not_compared(run, table, tmp_path):
    few = tmp_path / "few.csv"
    pd.DataFrame(ATTITUDE).iloc[::-1].replace(81, 80).to_csv(few, index=False)
    for name, file, more in (
        ("one", table, ()),
        ("other", few, ()),
        ("unit", table, ("--prior", "unit-information")),
    ):
        assert run("regress", file, "rating ~ complaints", "--out", tmp_path / name, "-q", *more)[0] == 0
    code, _, err = run("compare", tmp_path / "one", tmp_path / "other")
    assert code == 2 and "different observations" in err
    code, out, err = run("compare", tmp_path / "one", tmp_path / "unit")
    assert code == 0 and "rating ~ complaints" in out, err


def test_text_and_missing_values_of_a_file(run, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("y,k,z\n1.5,a,1\n2,b,NA\n2.5,a,3\nNA,b,2\n4,b,2\n3,,1\n5,b,0\n")
    code, out, err = run("regress", path, "y ~ k", "y ~ k + z")
    assert code == 0, err
    assert "3 of 7 rows have missing values (y 1, k 1, z 1) and were left out" in err
    assert "4 rows, columns y, k, z" in out
    code, out, err = run("regress", path, "y ~ k", "--missing", "error")
    assert (code, out) == (2, "") and "2 of 7 rows have missing values" in err


def test_text_in_another_encoding(run, tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("y,größe\n1,groß\n2,klein\n3,groß\n5,klein\n4,groß\n".encode("latin-1"))
    code, out, err = run("regress", path, "y ~ größe")
    assert (code, out) == (2, "") and "--encoding latin-1" in err
    code, out, err = run("regress", path, "y ~ größe", "--encoding", "latin-1")
    assert code == 0 and "y ~ größe" in out, err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("rating ~ complaint",), "Did you mean 'complaints'?"),
        (("rating ~ (learning",), "cannot be read"),
        (
            ("rating ~ raises", "raises ~ rating"),
            "the formulas must have the same response; they have raises, rating",
        ),
        (("rating ~ raises", "--family", "bernoulli"), "must have two values for this family"),
        (
            ("rating ~ raises", "--prior", "jzs", "--family", "poisson"),
            "prior='jzs' is for the family gaussian",
        ),
        (("rating ~ raises", "--prior-scale", "-1"), "prior_scale must be positive"),
        (("rating ~ 1", "rating ~ 0"), "Give the intercept a prior"),
        (("rating ~ raises + (1 | learning)", "--prior", "jzs"), "(--prior normal)"),
    ],
)
def test_mistakes_get_one_message(run, table, arguments, message):
    code, out, err = run("regress", table, *arguments)
    assert (code, out) == (2, "") and message in " ".join(err.split()) and "Traceback" not in err


@pytest.mark.slow
def test_a_parquet_file_of_another_family(run, tmp_path):
    generator = np.random.default_rng(0)
    x = generator.standard_normal(200)
    frame = pd.DataFrame({"x": x, "visits": generator.poisson(np.exp(0.5 + 0.7 * x))})
    frame.to_parquet(tmp_path / "visits.parquet")
    code, out, err = run("regress", tmp_path / "visits.parquet", "visits ~ x", "--family", "poisson")
    assert code == 0, err
    assert "visits ~ x has the highest log evidence" in " ".join(out.split())


def test_the_report_says_which_terms_matter(run, table, tmp_path):
    out = tmp_path / "results"
    code, _, err = run("regress", table, "rating ~ complaints + learning", "--out", out, "--quiet")
    assert code == 0, err
    page = (out / "index.html").read_text("utf-8")
    assert (
        "complaints: extreme evidence that it matters; the data are " in page
        and "How much the priors matter" in page
    )
    assert page.index("Which terms matter") < page.index("Each model")
    assert {"coefficients.png", "predictions.png", "prior_sensitivity.png"} <= {
        one.name for one in out.iterdir()
    }
    terms = json.loads((out / "results.json").read_text("utf-8"))["terms"]
    evidence = {
        formula: ev.estimate(ev.Regression(formula), ATTITUDE).log_evidence
        for formula in ("rating ~ complaints + learning", "rating ~ learning")
    }
    wanted = evidence["rating ~ complaints + learning"] - evidence["rating ~ learning"]
    assert terms["complaints"]["log_bayes_factor"] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ev.EstimationError("no mode")])
def test_a_report_that_fails_leaves_the_results(run, table, tmp_path, monkeypatch, problem):
    def fail(*_):
        raise problem

    monkeypatch.setattr("evidentia.report.regression.prior_sensitivity", fail)
    out = tmp_path / "results"
    code, printed, _ = run("regress", table, "rating ~ complaints", "--out", out, "--quiet")
    assert code != 0 and "12.94" in printed
    assert "12.94" in (out / "index.html").read_text("utf-8")


@pytest.mark.reference
def test_what_varies_by_group_stays_without_the_terms(run, tmp_path):
    path = tmp_path / "counts.csv"
    rows = np.arange(24)
    pd.DataFrame({"y": rows % 7, "x": rows % 5, "g": rows % 4}).to_csv(path, index=False)
    code, out, err = run("regress", path, "y ~ x + (1 | g)", "--family", "poisson", "--json", "--quiet")
    assert code == 0, err
    assert list(json.loads(out)["evidences"]) == ["y ~ x + (1 | g)", "y ~ 1 + (1 | g)"]


def test_formulas_with_and_without_groups_have_one_prior(capsys):
    formulas = "y ~ x + (1 | g)", "y ~ x"
    found = _of_one_kind({formula: ev.Regression(formula) for formula in formulas})
    assert [one.prior for one in found.values()] == ["normal", "normal"]
    assert "--prior normal is used for all" in " ".join(capsys.readouterr().err.split())
    for same in ("y ~ x", "y ~ 1"), ("y ~ x + (1 | g)", "y ~ 1 + (1 | g)"):
        found = _of_one_kind({formula: ev.Regression(formula) for formula in same})
        assert [one.prior for one in found.values()] == [None, None]
    assert not capsys.readouterr().err


@pytest.mark.slow
def test_whether_groups_differ(run, tmp_path):
    """The command compares formulas with and without groups, and the report has a row for them."""
    generator = np.random.default_rng(4)
    group = np.repeat(np.arange(8), 8)
    x = generator.normal(size=64)
    y = x + generator.normal(size=8)[group] + 0.5 * generator.normal(size=64)
    data = pd.DataFrame({"y": y, "x": x, "g": [f"g{one}" for one in group]})
    data.to_csv(tmp_path / "table.csv", index=False)
    formulas = "y ~ x + (1 | g)", "y ~ x"
    code, out, err = run(
        "regress", tmp_path / "table.csv", *formulas, "--out", tmp_path / "out", "--json", "--quiet"
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["comparison"]["best"] == formulas[0]
    own = found["evidences"][formulas[0]]["log_evidence"] - found["evidences"][formulas[1]]["log_evidence"]
    errors = [found["evidences"][formula]["standard_error"] for formula in formulas]
    term = found["terms"]["(1 | g)"]
    assert term["log_bayes_factor"] == pytest.approx(
        own, abs=4 * np.hypot(term["standard_error"], max(errors))
    )
    assert term["standard_error"] < 0.1
    assert "(1 | g)" in unescape((tmp_path / "out" / "index.html").read_text(encoding="utf-8"))


def test_a_formula_given_twice_is_one(run, table):
    code, out, err = run("regress", table, "rating ~ complaints", "rating ~ complaints", "--quiet")
    assert code == 0 and "rating ~ 1" in out, err


def test_formulas_that_were_stopped_are_left_out_of_the_comparison(capsys):
    whole, part = make_evidence(-10.0), replace(make_evidence(-3.0), completed=False)
    assert _comparable({"y ~ a": whole, "y ~ b": part}) == {"y ~ a": whole}
    assert "y ~ b was stopped before all rows, and is left out." in " ".join(capsys.readouterr().err.split())
    assert _comparable({"y ~ b": part}) == {"y ~ b": part}


@pytest.mark.parametrize("prior", ["jzs", "normal"])
def test_a_response_that_the_columns_explain_exactly_ends_with_an_error(run, tmp_path, prior):
    path = tmp_path / "line.csv"
    pd.DataFrame({"x": np.arange(20), "y": 2 * np.arange(20) + 1}).to_csv(path, index=False)
    code, _, err = run("regress", path, "y ~ x", "--prior", prior)
    assert code == 2
    assert "y ~ x: the response is explained exactly by 'x'" in " ".join(err.split())


@pytest.mark.slow
def test_a_formula_without_intercept_has_a_report(run, tmp_path):
    """The report leaves its only term out, which leaves a model without parameters."""
    path = tmp_path / "line.csv"
    generator = np.random.default_rng(0)
    x = 1 + generator.standard_normal(30)
    pd.DataFrame({"x": x, "y": generator.poisson(np.exp(0.5 * x))}).to_csv(path, index=False)
    words = ("regress", path, "y ~ 0 + x", "y ~ 0", "--family", "poisson", "--json", "--quiet")
    code, out, err = run(*words, "--out", tmp_path / "results")
    assert code == 0, err
    y = pd.read_csv(path)["y"]
    exact = -len(y) - sum(math.lgamma(1 + value) for value in y)  # with a mean of 1
    assert json.loads(out)["evidences"]["y ~ 0"]["log_evidence"] == pytest.approx(exact, rel=1e-6)


def test_quoted_names_are_columns_on_the_command_line(run, tmp_path):
    rows = pd.DataFrame(ATTITUDE)[["rating", "complaints", "learning"]]
    path = tmp_path / "odd.csv"
    rows.set_axis(["the ~ rating", "log(x)", "a:b"], axis=1).to_csv(path, index=False)
    code, out, err = run("regress", path, "`the ~ rating` ~ `log(x)` + `a:b`", "--json", "--quiet")
    assert code == 0, err
    found = json.loads(out)["evidences"]
    assert list(found) == ["`the ~ rating` ~ `log(x)` + `a:b`", "`the ~ rating` ~ 1"]
    expected = ev.estimate(ev.Regression("rating ~ complaints + learning"), rows).log_evidence
    assert found["`the ~ rating` ~ `log(x)` + `a:b`"]["log_evidence"] == expected


def test_text_of_other_forms(run, tmp_path):
    table = pd.DataFrame(
        {"y": [1.5, 2.0, 4.5, 3.0, 2.0], "size": ["small", "large", "medium", "small", "large"]}
    )
    table.to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
    given = "--sep", ";", "--decimal", ",", "--json", "--quiet"
    code, out, err = run("regress", tmp_path / "a.csv", "y ~ size", *given)
    assert code == 0, err
    alone = ev.estimate(ev.Regression("y ~ size"), table)
    assert json.loads(out)["evidences"]["y ~ size"]["log_evidence"] == alone.log_evidence
    code, out, err = run(
        "regress", tmp_path / "a.csv", "y ~ size", *given, "--levels", "size=small,medium,large"
    )
    assert code == 0, err
    assert "size[T.medium]" in out and "size[T.small]" not in out
    for levels, message in (
        ("size=small,large", "holds 'medium' in data row 3, which is none of --levels"),
        ("colour=a,b", "--levels must read COLUMN=FIRST,SECOND"),
    ):
        code, _, err = run("regress", tmp_path / "a.csv", "y ~ size", *given, "--levels", levels)
        assert code == 2 and message in " ".join(err.split())


def test_several_files_are_streamed(run, tmp_path, monkeypatch):
    table = pd.DataFrame(ATTITUDE)
    for place, part in enumerate((table[:11], table[11:])):
        part.to_parquet(tmp_path / f"part-{place}.parquet")
    monkeypatch.setattr("evidentia.data.tables.read_columns", lambda *given: pytest.fail("read as a whole"))
    words = "rating ~ complaints", "rating ~ 1", "--quiet", "--json"
    code, out, err = run("regress", f"{tmp_path}/part-*.parquet", *words, "--out", tmp_path / "out")
    assert code == 0, err
    found = json.loads(out)
    whole = ev.estimate(ev.Regression("rating ~ complaints"), table)
    assert found["evidences"]["rating ~ complaints"]["log_evidence"] == pytest.approx(whole.log_evidence)
    assert found["data"]["num_rows"] == 30
    assert found["data"]["observations"] == whole.fingerprints["rating"]
    assert (tmp_path / "out" / "index.html").exists()


def test_a_table_on_standard_input(run, monkeypatch):
    text = "x;y\n" + "".join(f"{row};{row * row % 7}\n" for row in range(12))

    def regress(given, *arguments):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        return run("regress", "-", "y ~ x", *arguments)

    for code, out, err in regress(text.replace(";", ",")), regress(text, "--sep", ";"):
        assert code == 0, err
        assert "-: 12 rows, columns y, x" in out
    code, _, err = regress("x,z\n1,2\n")
    assert code == 2 and "standard input has no column 'y'" in err
