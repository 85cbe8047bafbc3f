"""`evidentia test` on files and on the numbers of a paper."""

import json

import numpy as np
import pandas as pd
import pytest

import evidentia as ev

DRUG1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


@pytest.fixture
def sleep(tmp_path):
    path = tmp_path / "sleep.csv"
    pd.DataFrame({"drug1": DRUG1, "drug2": DRUG2, "group": list("ab") * 5}).to_csv(path, index=False)
    return path


def found(run, *words):
    code, out, err = run("test", *words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_t_tests(run, sleep):
    paired = found(run, "t", sleep, "--x", "drug2", "--y", "drug1", "--paired", "--alternative", "greater")
    assert paired["bf10"] == pytest.approx(34.416936, rel=1e-7)
    groups = found(run, "t", sleep, "--x", "drug1", "--by", "group", "--scale", "0.5")
    assert groups["log_bf10"] == ev.bf.t_test(DRUG1[::2], DRUG1[1::2], scale=0.5).log_bf10
    paper = found(run, "t", "--t", "3.5", "--n", "20", "--n-other", "20")
    assert paper["log_bf10"] == ev.bf.t_test(t=3.5, n=20, n_other=20).log_bf10


def test_the_others(run, sleep, tmp_path):
    correlation = found(run, "correlation", sleep, "--x", "drug1", "--y", "drug2", "--method", "kendall")
    assert correlation["log_bf10"] == ev.bf.correlation(DRUG1, DRUG2, "kendall").log_bf10
    assert found(run, "proportion", 15, 25)["bf10"] == pytest.approx(0.65987245, rel=1e-7)
    dolls = tmp_path / "dolls.csv"
    cells = (
        [("same", "white")] * 50
        + [("other", "white")] * 21
        + [("same", "black")] * 48
        + [("other", "black")] * 41
    )
    pd.DataFrame(cells, columns=["doll", "group"]).to_csv(dolls, index=False)
    plan = "--sampling", "independent multinomial", "--fixed", "columns"
    table = found(run, "contingency", dolls, "--rows", "doll", "--columns", "group", *plan)
    assert table["bf10"] == pytest.approx(1.81485574, rel=1e-8)
    anova = found(run, "anova", sleep, "drug1 ~ group + drug2")
    assert "group + drug2" in anova["models"]


def test_studies(run, tmp_path):
    path = tmp_path / "studies.csv"
    pd.DataFrame({"t": [2.1, 1.4], "n": [30, 25], "d": [0.4, 0.2], "se": [0.2, 0.1]}).to_csv(
        path, index=False
    )
    together = found(run, "meta", path, "--t", "t", "--n", "n")
    assert together["log_bf10"] == ev.bf.meta_t_test([2.1, 1.4], [30, 25]).log_bf10
    effects = found(run, "meta", path, "--effects", "d", "--errors", "se")
    assert effects["log_bf_effect"] == ev.bf.meta_analysis([0.4, 0.2], [0.2, 0.1]).log_bf_effect
    code, _, err = run("test", "meta", path, "--t", "t")
    assert code == 2 and "--t and --n" in err


@pytest.mark.slow
def test_the_folder(run, sleep, tmp_path):
    out = tmp_path / "results"
    words = "t", sleep, "--x", "drug2", "--y", "drug1", "--paired", "--out", out
    for _ in range(2):  # its own files are replaced
        code, shown, err = run("test", *words)
        assert code == 0, err
    assert "BF10 = 17.26: strong evidence" in shown and max(map(len, shown.splitlines()[:5])) <= 80
    assert sorted(path.name for path in out.iterdir()) == [
        "effect.png",
        "results.json",
        "robustness.png",
        "sequential.png",
    ]
    (out / "effect.png").write_text("mine")
    code, _, err = run("test", *words)
    assert code == 2 and "effect.png" in err and (out / "effect.png").read_text() == "mine"


def test_bad_input_is_one_message(run, sleep):
    for words, message in [
        (("t", sleep, "--x", "drugs"), "no column 'drugs'"),
        (("t", sleep), "needs --x"),
        (("t",), "both t and n"),
        (("t", sleep, "--x", "drug1", "--by", "drug2"), "two groups; drug2 has 10"),
        (("t", sleep, "--x", "group"), "must hold numbers"),
        (("correlation", sleep, "--x", "drug1"), "needs --x and --y"),
        (("anova", sleep, "drug1 ~ group", "--random", "who"), "'who' is not in it"),
        (("proportion", 5, 3), "from 0 to trials"),
        (("t", "--t", "2", "--n", "9", "--scale", "huge"), "'ultrawide' (1.414)"),
    ]:
        code, _, err = run("test", *words)
        assert code == 2 and message in err.replace("\n", " "), (words, err)


def test_models_of_an_anova_are_drawn(run, tmp_path):
    generator = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    table = pd.DataFrame({"y": generator.normal(size=40), "a": list("uv") * 20, "id": list("klmn") * 10})
    table.to_csv(path, index=False)
    code, out, err = run("test", "anova", path, "y ~ a + id", "--random", "id", "--out", tmp_path / "results")
    assert code == 0, err
    assert "BF against id" in out and (tmp_path / "results" / "models.png").exists()


def test_designs(run, tmp_path):
    out = tmp_path / "plan"
    words = 0.5, "--n-max", 40, "--step", 5, "--upper", 6, "--runs", 500
    code, shown, err = run("test", "design", *words, "--out", out)
    assert code == 0, err
    assert "design of a t test, two samples: n = 20 to 40 per sample" in shown
    assert {path.name for path in out.iterdir()} >= {"results.json", "design.png"}
    planned = ev.bf.design(0.5, n_max=40, step=5, upper=6, num_runs=500)
    assert json.loads((out / "results.json").read_text())["conclusion"] == planned.conclusion
    inside = found(run, "design", 0.5, "--n", 30, "--null", -0.1, 0.1, "--runs", 200)
    assert inside["H0"]["claim"] == "δ in -0.1 to 0.1"
    code, _, err = run("test", "design", 0.5)
    assert code == 2 and "n_max" in err


def test_folders_of_anovas_and_studies_have_all_their_pictures(run, sleep, tmp_path):
    code, shown, err = run("test", "anova", sleep, "drug1 ~ group", "--out", tmp_path / "anova")
    assert code == 0 and "group [a]" in shown, err
    pictures = {path.name for path in (tmp_path / "anova").iterdir()}
    assert pictures == {"results.json", "models.png", "effects.png", "robustness.png", "sequential.png"}
    path = tmp_path / "studies.csv"
    pd.DataFrame({"d": [0.4, 0.2, 0.5], "se": [0.2, 0.1, 0.2]}).to_csv(path, index=False)
    words = "meta", path, "--effects", "d", "--errors", "se", "--out", tmp_path / "meta"
    assert run("test", *words)[0] == 0
    pictures = {path.name for path in (tmp_path / "meta").iterdir()}
    assert pictures == {"results.json", "models.png", "robustness.png", "sequential.png"}
