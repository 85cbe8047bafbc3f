"""The command line: correct numbers, clear error messages, and results kept after Ctrl-C."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import evidentia as ev
from evidentia.cli import main
from evidentia.cli.estimate import CONFIGURATIONS


@pytest.fixture(scope="session")
def linear(tmp_path_factory):
    """A Parquet file of a linear regression with unscaled features, and its columns."""
    data, _ = ev.models.linear_regression(2).simulate(500, seed=1)
    x = data["x"].astype(np.float64)
    path = tmp_path_factory.mktemp("linear") / "linear.parquet"
    columns = {"a": x[:, 0], "b": 50 + 20 * x[:, 1], "same": np.full(500, 0.1), "y": data["y"]}
    pa.parquet.write_table(pa.table(columns), path)
    return path, columns


def estimate(path, *words):
    return ("estimate", path, "--num-particles", "64", *words)


def exact(x, y):
    """The exact log evidence of a linear regression."""
    return ev.models.linear_regression(x.shape[1]).exact_log_evidence({"x": x.astype(np.float32), "y": y})


def test_log_evidence_of_a_file(run, linear):
    path, columns = linear
    code, out, err = run(*estimate(path, "-m", "linear", "-t", "y", "--features", "a,same", "--json"))
    assert (code, err) == (0, "")
    (evidence,) = json.loads(out)["evidences"].values()
    truth = exact(np.stack([columns["a"], columns["same"]], axis=1), columns["y"])
    assert abs(evidence["log_evidence"] - truth) < 4 * evidence["standard_error"]


def test_standardised_features_give_the_evidence_of_standardised_data(run, linear, tmp_path):
    path, columns = linear
    words = ("-m", "linear", "-t", "y", "--features", "b,same", "--standardise", "--out", tmp_path / "out")
    code, out, _ = run(*estimate(path, *words, "--json"))
    assert code == 0
    found = json.loads(out)
    raw = np.stack([columns[name] for name in ("b", "same")], axis=1)
    means, scales = raw.mean(0), np.array([raw.std(0)[0], 1.0])
    standardised = found["data"]["standardised"]
    np.testing.assert_allclose(list(standardised["means"].values()), means)
    np.testing.assert_allclose(list(standardised["scales"].values()), scales)
    assert standardised["constant"] == ["same"]
    (evidence,) = found["evidences"].values()
    truth = exact((raw - means) / scales, columns["y"])
    assert abs(evidence["log_evidence"] - truth) < 4 * evidence["standard_error"]
    # The page says so too.
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Features were standardised" in page
    assert f"b ({means[0]:.6g}, {scales[0]:.6g})" in page
    assert "Constant" in page


def test_csv_and_parquet_of_the_same_table_give_the_same_numbers(run, linear, tmp_path):
    path, columns = linear
    pa.csv.write_csv(pa.table(columns), tmp_path / "linear.csv")
    words = ("-m", "linear", "-t", "y", "--features", "a,b", "--standardise", "--json")
    outputs = [json.loads(run(*estimate(file, *words))[1]) for file in (path, tmp_path / "linear.csv")]
    values = [evidence["log_evidence"] for each in outputs for evidence in each["evidences"].values()]
    assert values[0] == values[1]
    assert len({each["data"]["observations"] for each in outputs}) == 1


def test_order_of_the_rows(run, linear, tmp_path):
    """A sorted file has the same evidence in any row order."""
    _, columns = linear
    order = np.argsort(columns["y"])
    pa.parquet.write_table(
        pa.table({name: columns[name][order] for name in ("a", "same", "y")}), tmp_path / "sorted.parquet"
    )
    truth = exact(np.stack([columns["a"], columns["same"]], axis=1), columns["y"])
    for words, seed in ((), 0), (("--in-order",), None):
        words = ("-m", "linear", "-t", "y", "--json", *words)
        found = json.loads(run(*estimate(tmp_path / "sorted.parquet", *words))[1])
        (evidence,) = found["evidences"].values()
        assert found["data"]["shuffle_seed"] == seed
        assert abs(evidence["log_evidence"] - truth) < 4 * evidence["standard_error"]


def test_what_a_person_sees(run, linear, tmp_path):
    path, _ = linear
    words = ("-m", "linear", "-t", "y", "--features", "a,b", "--standardise", "--out", tmp_path / "out")
    code, out, err = run(*estimate(path, *words))
    assert (code, err) == (0, "")
    for words in (
        "linear regression",
        "log evidence",
        "±",
        "500",
        "features were standardised",
        "index.html",
    ):
        assert words.lower() in out.lower()
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"index.html", "results.json"} <= written
    assert {file.rpartition(".")[2] for file in written} >= {"json", "csv", "parquet", "png", "html"}


def test_json_is_what_the_folder_holds(run, linear, tmp_path):
    path, _ = linear
    words = ("-m", "linear", "-t", "y", "--features", "a,b", "--standardise", "--json", "--out", tmp_path)
    code, out, _ = run(*estimate(path, *words))
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "results.json").read_text())


OWN = """
import jax.numpy as jnp
import numpyro, numpyro.distributions as dist
import evidentia as ev

def robust(x, y):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.StudentT(4.0, x @ weights, 1.0), obs=y)

def log_likelihood(params, batch):
    return dist.Normal(params["mean"], 1.0).log_prob(batch["y"]).sum(-1)

normal = ev.Model({"mean": dist.Normal(0, 1).expand([2]).to_event(1)}, log_likelihood, name="normal")
number = 3
class Thing: pass
def impossible(x, y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("y", dist.Uniform(mean + 1e9, mean + 2e9), obs=y)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [("robust", ["-t", "y"]), ("normal", [])])
def test_a_model_of_ones_own(run, linear, own, name, target):
    words = (
        "-m",
        f"{own}:{name}",
        *target,
        "--features",
        "a,b",
        "--standardise",
        "--method",
        "laplace",
        "--json",
    )
    code, out, err = run(*estimate(linear[0], *words))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found["evidences"]) == [name]
    assert math.isfinite(found["evidences"][name]["log_evidence"])


@pytest.mark.slow
def test_published_method(run, linear):
    words = ("-m", "linear", "-t", "y", "--features", "a,same", "--method", "sgais-published", "--json")
    code, out, _ = run("estimate", linear[0], *words)
    assert code == 0
    (evidence,) = json.loads(out)["evidences"].values()
    assert evidence["num_particles"] == 10


def test_every_estimator_has_a_name():
    named = {type(make()) for make in CONFIGURATIONS.values()}
    assert named == {getattr(ev, name) for name in ev.__all__ if hasattr(getattr(ev, name), "run")}


def test_another_method(run, linear):
    words = ("-m", "linear", "-t", "y", "--features", "a,same", "--method", "laplace", "--json")
    code, out, err = run("estimate", linear[0], *words)
    assert (code, err) == (0, "")
    (evidence,) = json.loads(out)["evidences"].values()
    assert evidence["method"]["type"] == "Laplace" and evidence["standard_error"] < 0.1


@pytest.mark.slow
def test_real_data(run, shared_data):
    words = ("-m", "softmax", "-t", "skin", "--standardise", "--num-particles", "32", "--json")
    code, out, err = run("estimate", shared_data / "skin.parquet", *words)
    assert (code, err) == (0, "")
    found = json.loads(out)
    (evidence,) = found["evidences"].values()
    assert evidence["num_observations"] == 245_057
    share = 50_859 / 245_057
    guess = share * math.log(share) + (1 - share) * math.log(1 - share)
    assert guess < evidence["log_evidence_per_observation"] < 0  # better than class frequencies alone


# Comparing results
# -----------------------------------------------------------------------------------------------


@pytest.fixture
def results(run, linear, tmp_path):
    """Folders with results of two models for the same rows, and of one for another target."""
    runs = {"both": ("a,b", "y"), "one": ("b,same", "y"), "other": ("b,same", "a")}
    for name, (features, target) in runs.items():
        words = (
            "-m",
            "linear",
            "-t",
            target,
            "--features",
            features,
            "--standardise",
            "--out",
            tmp_path / name,
        )
        assert run(*estimate(linear[0], *words, "--quiet"))[0] == 0
    return tmp_path


def test_compare_folders_and_files(run, results):
    code, out, err = run("compare", results / "one", results / "both" / "results.json")
    assert (code, err) == (0, "")
    assert out.index("both") < out.index("one")
    assert "both has the highest log evidence" in out
    code, out, _ = run("compare", results / "one", results / "both", "--json")
    assert code == 0
    found = json.loads(out)["models"]
    assert found["both"]["log_bayes_factor"] == 0 > found["one"]["log_bayes_factor"]


def test_names_of_folders_with_a_dot(run, results):
    for name, place in (("one", "price-0.1"), ("both", "price-0.2")):
        (results / name).rename(results / place)
    code, out, _ = run("compare", results / "price-0.1", results / "price-0.2" / "results.json", "--json")
    assert code == 0
    assert set(json.loads(out)["models"]) == {"price-0.1", "price-0.2"}


def test_compare_refuses_other_observations(run, results):
    code, _, err = run("compare", results / "one", results / "other")
    assert code == 2
    assert "different observations" in err
    assert "y of linear.parquet" in err


@pytest.mark.slow
def test_compare_tells_the_rows_of_a_pattern_from_others(run, linear, tmp_path):
    path, columns = linear
    table = pa.table(columns)
    for name, rows in (("parts", table), ("others", table.take(np.arange(table.num_rows)[::-1] // 2))):
        (tmp_path / name).mkdir()
        pa.parquet.write_table(rows.slice(0, 150), tmp_path / name / "1.parquet")
        pa.parquet.write_table(rows.slice(150), tmp_path / name / "2.parquet")
    words = ("-m", "linear", "-t", "y", "--features", "a,b", "--quiet", "--out")
    for file, folder in ((path, "one"), (tmp_path / "parts", "folder"), (tmp_path / "others", "other")):
        assert run(*estimate(file, *words, tmp_path / "results" / folder))[0] == 0
    stream = "stream", tmp_path / "parts" / "*.parquet", *words, tmp_path / "results" / "stream"
    assert run(*stream)[0] == 0
    same = [tmp_path / "results" / name for name in ("one", "folder", "stream")]
    code, _, err = run("compare", *same)
    assert (code, err) == (0, "")
    code, _, err = run("compare", same[0], tmp_path / "results" / "other")
    assert code == 2 and "different observations" in err


def test_compare_says_that_it_cannot_tell(run, results):
    file = results / "one" / "results.json"
    known = json.loads(file.read_text())
    del known["data"]["observations"]
    for evidence in known["evidences"].values():
        del evidence["fingerprints"]
    file.write_text(json.dumps(known))
    code, _, err = run("compare", results / "both", results / "one")
    assert code == 0
    assert "cannot be told" in err and "fingerprint" in err


def test_compare_refuses_what_is_no_result(run, tmp_path, results):
    (tmp_path / "wrong.json").write_text('{"a": 1}')
    (tmp_path / "text.json").write_text("hello")
    (tmp_path / "empty").mkdir()
    for name, message in {
        "wrong.json": "holds no evidentia results",
        "text.json": "cannot be read as JSON",
        "empty": "this folder holds no results.json",
        "missing": "there is no such file or folder",
    }.items():
        code, out, err = run("compare", tmp_path / name)
        assert (code, out) == (2, "")
        assert message in err
    code, _, err = run("compare", results / "one", results / "one")
    assert code == 2
    assert "have the same names" in err


# Mistakes
# -----------------------------------------------------------------------------------------------

TABLES = {
    "good": {"x": [0.5, 1.5, 2.5], "label": [0, 1, 2], "real": [0.5, 1.0, 2.0], "signed": [-1, 1, 1]},
    "nan": {"x": [0.5, math.nan, 2.5], "label": [0, 1, 2]},
    "missing": {"x": [0.5, None, 2.5], "label": [0, 1, None]},
    "infinite": {"x": [0.5, math.inf, 2.5], "label": [0, 1, 2]},
    "text": {"x": [0.5, 1.5, 2.5], "town": ["Ulm", "Rom", "Bern"], "label": [0, 1, 2]},
    "empty": {"x": pa.array([], pa.float64()), "label": pa.array([], pa.int64())},
    "single": {"x": [0.5], "label": [1]},
    "huge": {"x": [0.5, 1e300, 2.5], "label": [0, 1, 2]},
    "large labels": {"x": [0.5, 1.5, 2.5], "label": [0.0, 1.0, 3e9]},
    "only": {"label": [0, 1, 2]},
    "one class": {"x": [0.5, 1.5, 2.5], "label": [0, 0, 0]},
}
LABEL = ("--model", "softmax", "--target", "label")


@pytest.fixture
def table(tmp_path):
    def write(name):
        path = tmp_path / f"{name}.parquet"
        pa.parquet.write_table(pa.table(TABLES[name]), path)
        return path

    return write


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (
            "nan",
            LABEL,
            "has missing values in 1 of the 3 rows from data row 1 on (the first is data row 2), in 'x'",
        ),
        (
            "missing",
            LABEL,
            "has missing values in 2 of the 3 rows from data row 1 on (the first is data row 2), in 'x', 'label'",
        ),
        ("infinite", LABEL, "has infinite values of 'x' in 1 rows (the first is data row 2)"),
        ("text", LABEL, "has columns that cannot be used: 'town' holds text. Encode"),
        ("text", ("--model", "softmax", "--target", "town"), "'town' holds text"),
        ("empty", LABEL, "has columns but no rows"),
        ("huge", LABEL, "'x' has values beyond 3e38"),
        ("large labels", LABEL, "as whole numbers 0, 1, 2, ...; it holds 3e+09."),
        ("only", LABEL, "has no column left for a feature"),
        (
            "one class",
            LABEL,
            "must hold at least two classes numbered 0, 1, 2, ... without gaps; it holds 0.",
        ),
        (
            "good",
            ("--model", "softmax", "--target", "lable"),
            "no column 'lable' for --target. Did you mean 'label'?",
        ),
        ("good", ("--model", "softmax", "--target", "real"), "must hold the classes as whole numbers"),
        ("good", ("--model", "softmax", "--target", "signed"), "it holds -1, 1."),
        ("good", (*LABEL, "--num-classes", "2"), "must hold classes from 0 to 1 (--num-classes 2)"),
        ("good", (*LABEL, "--num-classes", "1"), "num_classes must be an integer of at least 2; got 1"),
        ("good", (*LABEL, "--features", "x,z"), "has no column 'z'"),
        ("good", (*LABEL, "--features", "x,"), "must be column names separated by commas"),
        ("good", (*LABEL, "--features", "x,x"), "--features names x more than once"),
        ("good", (*LABEL, "--features", "x,label"), "--features must not name the target"),
        ("good", (*LABEL, "--num-particles", "1"), "num_particles must be an integer of at least 2; got 1"),
        ("good", (*LABEL, "--seed", "-1"), "--seed must be an integer from 0 to"),
        ("good", (*LABEL, "--noise-scale", "2"), "--noise-scale belongs to --model linear"),
        ("good", (*LABEL, "--method", "nested"), "nested"),
        (
            "good",
            ("--model", "linear", "-t", "real", "--noise-scale", "0"),
            "noise_scale must be a positive number; got 0.0",
        ),
        ("good", ("--model", "softmax"), "--model softmax needs --target"),
        ("good", ("--model", "mixture", "-t", "label"), "--model mixture has no target"),
        (
            "good",
            ("--model", "mixture", "--num-components", "0"),
            "num_components must be an integer of at least 1",
        ),
        (
            "good",
            ("--model", "sofmax", "-t", "label"),
            "must be one of linear, softmax, mixture; got 'sofmax'",
        ),
        ("good", ("--model", "own.py", "-t", "label"), "Write own.py:name"),
        ("good", (), "--model"),
        ("good", ("--model", "mixture", "--max-seconds", "0"), "--max-seconds must be positive; got 0.0"),
        (
            "good",
            ("--model", "mixture", "--max-seconds", "1e-9"),
            "time was over (max_seconds=1e-09) before SGAIS() had a log evidence",
        ),
    ],
)
def test_mistakes_get_one_message_and_exit_code_2(run, table, tmp_path, name, words, message):
    code, out, err = run("estimate", table(name), *words, "--json")
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_no_classes_given_means_those_in_the_target(run, table):
    code, out, _ = run(*estimate(table("good"), *LABEL, "--features", "x", "--method", "laplace", "--json"))
    assert code == 0
    assert json.loads(out)["evidences"]["softmax regression"]["num_observations"] == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.parquet", "x,label\n1,0\n", "is not a Parquet file"),
        ("table.csv", b"PAR1\0\0", "is a Parquet file"),
        ("table.doc", "x,label\n1,0\n", "must end in .parquet, .csv"),
        ("table.csv", "", "is empty"),
        ("table.csv", "x;label\n1;0\n", "separated by semicolons"),
    ],
)
def test_files_that_are_not_what_they_say(run, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run("estimate", path, *LABEL)
    assert (code, out) == (2, "")
    assert message in err
    assert "does not exist" in run("estimate", tmp_path / "other.csv", *LABEL)[2]


def test_standard_input_is_for_stream(run):
    message = "Error: estimate reads files; for rows on standard input use evidentia stream -.\n"
    assert run("estimate", "-", *LABEL) == (2, "", message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own.py:robbust", "defines no 'robbust'. Did you mean 'robust'?"),
        ("own.py:number", "must be an evidentia.Model or a NumPyro function; number is of type int"),
        ("own.py:Thing", "Thing is the class Thing"),
        ("other.py:robust", "there is no Python file"),
        ("broken.py:robust", "line 2 of "),
        ("broken.py:robust", "broken.py cannot be run: ZeroDivisionError: division by zero"),
        ("syntax.py:robust", "syntax.py cannot be run: SyntaxError"),
        ("stops.py:robust", "cannot be run: SystemExit"),
        ("own.py:impossible", "-inf at all 64 particles"),
    ],
)
def test_models_that_are_none(run, linear, own, name, message):
    own.with_name("broken.py").write_text("\nx = 1 / 0\n")
    own.with_name("syntax.py").write_text("def f(:\n")
    own.with_name("stops.py").write_text("raise SystemExit(3)\n")
    code, out, err = run(*estimate(linear[0], "-m", own.parent / name, "-t", "y", "--features", "a"))
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        ("dist.Normal(params['mean'], 1.0).log_prob(batch['y']).sum()", "log_likelihood"),
        ("dist.Normal(params['men'], 1.0).log_prob(batch['y'])", "men"),
        ("jnp.exp(params['mean'] - 1e4) + 0 * batch['y']", "log-likelihood is constant"),
        ("jnp.sqrt(-1.0 - params['mean'] ** 2) + 0 * batch['y']", "NaN"),
    ],
)
def test_likelihoods_that_are_none(run, linear, tmp_path, likelihood, message):
    """A scalar, an unknown parameter, what underflows, NaN: the messages of Python."""
    path = tmp_path / "own.py"
    path.write_text(
        "import jax.numpy as jnp, evidentia as ev, numpyro.distributions as dist\n"
        f"model = ev.Model({{'mean': dist.Normal(0, 1)}}, lambda params, batch: {likelihood})\n"
    )
    code, out, err = run(*estimate(linear[0], "-m", f"{path}:model", "-t", "y", "--features", "a"))
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_folder_that_cannot_be_written_is_found_before_the_work(run, linear, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run(*estimate(linear[0], "-m", "linear", "-t", "y", "--out", tmp_path / "file"))
    assert code == 2
    assert "cannot write to this folder" in err


@pytest.mark.parametrize("words", [("demo",), ("estimate",), ("compare",), ("stream",), ("reproduce",), ()])
def test_help_fits_80_columns(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert f"evidentia {' '.join(words)}" in shown.partition("Options")[2]  # an example


def test_version_and_no_command(run):
    assert run("--version") == (0, f"evidentia {ev.__version__}\n", "")
    code, *shown = run()
    assert code in (0, 2)  # typer's releases differ
    assert "estimate" in "".join(shown)
    code, _, err = run("estimat")
    assert code == 2
    assert "estimate" in err


def test_completion_of_the_shell(run, monkeypatch):
    """The script that --install-completion installs, and its completions."""
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    code, script, err = run("--show-completion")
    assert (code, err) == (0, "")
    assert "_EVIDENTIA_COMPLETE=complete_bash" in script and script.rstrip().endswith("evidentia")
    monkeypatch.setenv("_EVIDENTIA_COMPLETE", "complete_bash")
    for words, wanted in [("evidentia com", "compare"), ("evidentia estimate --method jarz", "jarzynski")]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        assert run() == (0, f"{wanted}\n", "")


# Stopping
# -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Enough rows to keep the published method busy for many seconds."""
    data, _ = ev.models.linear_regression(1).simulate(1_000_000, seed=0)
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    pa.parquet.write_table(pa.table({"x": data["x"][:, 0], "y": data["y"]}), path)
    return path


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_writes_the_results_so_far(large, tmp_path):
    """On a terminal, Ctrl-C during the progress bar still writes the results."""
    words = (
        "estimate",
        large,
        "-m",
        "linear",
        "-t",
        "y",
        "--method",
        "sgais-published",
        "--out",
        tmp_path / "out",
    )
    terminal, child = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "evidentia", *map(str, words), "--json"],
        stdout=subprocess.PIPE,
        stderr=child,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(child)
    shown = [read_until(terminal, b" rows ")]
    # Keep reading: a terminal that nobody reads blocks the process that writes to it.
    rest = threading.Thread(target=lambda: shown.append(read_until(terminal, None)), daemon=True)
    rest.start()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    rest.join(timeout=10)
    assert process.returncode == 130, b"".join(shown).decode()
    (evidence,) = json.loads(out)["evidences"].values()
    assert not evidence["completed"]
    assert 0 < evidence["num_observations"] < 1_000_000
    assert json.loads(out) == json.loads((tmp_path / "out" / "results.json").read_text())
    assert (tmp_path / "out" / "index.html").exists()


def read_until(terminal, words):
    """Read until some words are shown, or, if None, until the terminal is closed."""
    shown = b""
    with contextlib.suppress(OSError):
        while words is None or words not in shown:
            shown += os.read(terminal, 1024)
    return shown


def test_ctrl_c_before_the_first_chunk_leaves_nothing_to_write(run, linear, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("evidentia.cli.run.estimate", interrupted)
    words = ("-m", "linear", "-t", "y", "--out", tmp_path / "out")
    code, out, _ = run(*estimate(linear[0], *words))
    assert (code, out) == (130, "")
    assert not list((tmp_path / "out").iterdir())


def test_an_error_in_a_later_chunk_writes_the_results_before_it(run, linear, tmp_path, monkeypatch):
    from evidentia.cli import run as module

    complete = module.estimate

    def failing(*arguments, **options):
        error = ev.EstimationError("the log-likelihood of rows 500 to 999 is NaN")
        error.evidence = replace(complete(*arguments, **options), completed=False)
        raise error

    monkeypatch.setattr(module, "estimate", failing)
    words = ("-m", "linear", "-t", "y", "--features", "a,same", "--out", tmp_path / "out")
    code, out, err = run(*estimate(linear[0], *words))
    assert code == 2
    assert "stopped early" in out
    assert "Note: Rows are numbered in random order" in err
    assert err.endswith("Error: the log-likelihood of rows 500 to 999 is NaN\n")
    assert (tmp_path / "out" / "results.json").exists()


def test_an_empty_folder_name_is_refused(run, linear):
    code, out, err = run(*estimate(linear[0], "-m", "linear", "-t", "y", "--out", ""))
    assert (code, out) == (2, "") and "the name of a folder is empty" in err


def test_files_of_others_are_not_replaced(run, linear, tmp_path):
    (tmp_path / "results.json").write_text('{"mine": 1}')
    code, out, err = run(*estimate(linear[0], "-m", "linear", "-t", "y", "--out", tmp_path))
    assert (code, out) == (2, "") and "results.json there was not written by evidentia" in err
    assert (tmp_path / "results.json").read_text() == '{"mine": 1}'
    other = tmp_path / "out" / "evidence_linear"
    other.mkdir(parents=True)
    (other / "notes.txt").touch()
    code, out, err = run(*estimate(linear[0], "-m", "linear", "-t", "y", "--out", tmp_path / "out"))
    assert (code, out) == (2, "") and "evidence_linear/notes.txt there was not written by evidentia" in err


@pytest.mark.slow
def test_a_header_in_another_encoding_is_named(run, tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("größe,y\n1,2\n2,3\n".encode("latin-1"))
    code, out, err = run(*estimate(path, "-m", "linear", "-t", "y"))
    assert (code, out) == (2, "") and "is not UTF-8 text: its header has the byte 0xf6" in err
    code, out, err = run(*estimate(path, "-m", "linear", "-t", "y", "--encoding", "latin-1"))
    assert code == 0 and "1 features: größe" in out


@pytest.mark.slow
def test_control_characters_of_a_file_do_not_reach_the_terminal(run, tmp_path):
    path = tmp_path / "red.csv"
    path.write_text("a\x1b[31mb,y\n1,2\n2,3\n3,5\n")
    code, out, err = run(*estimate(path, "-m", "linear", "-t", "y"))
    assert code == 0 and "a[31mb" in out and "\x1b" not in out + err


@pytest.mark.parametrize(
    "name, message",
    [
        ("~nobody-of-this-name/x.csv", "there is no user 'nobody-of-this-name'"),
        ("a" * 5000 + ".csv", "File name too long"),
        (":smile:.csv", ":smile:.csv does not exist"),
    ],
)
def test_odd_names_of_files_are_named_in_one_message(run, name, message):
    code, out, err = run(*estimate(name, "-m", "linear", "-t", "y"))
    assert (code, out) == (2, "") and message in err and len(err) < 1000


def test_too_many_particles_for_the_memory_say_so(run, linear):
    code, out, err = run(*estimate(linear[0], "-m", "linear", "-t", "y", "--num-particles", 10**12))
    assert (code, out) == (2, "") and "num_particles=1,000,000,000,000 would need 14,901 GiB" in err


def test_an_array_that_does_not_fit_says_so(monkeypatch, linear):
    def run(self, model, rows, key):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 73014445060 bytes.")
        yield

    monkeypatch.setattr(ev.Laplace, "run", run)
    with pytest.raises(ev.EstimationError, match=r"not enough memory: an array of 68\.0 GiB was asked for"):
        ev.estimate(
            ev.models.linear_regression(1), {"x": np.zeros((3, 1)), "y": np.zeros(3)}, method=ev.Laplace()
        )


@pytest.mark.slow
@pytest.mark.parametrize("stdout, needed", [("ascii", b"+-"), ("utf-8", "±".encode())])
def test_every_encoding_of_the_terminal_is_written(linear, stdout, needed):
    words = [sys.executable, "-m", "evidentia", *map(str, estimate(linear[0], "-m", "linear", "-t", "y"))]
    done = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONIOENCODING": stdout})
    assert done.returncode == 0 and needed in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_results_are_kept_if_standard_output_is_full(linear, tmp_path):
    words = [sys.executable, "-m", "evidentia", *map(str, estimate(linear[0], "-m", "linear", "-t", "y"))]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*words, "--out", str(tmp_path)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and "standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "results.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such file names")
def test_file_names_that_are_not_utf_8(run, linear, tmp_path):
    name = os.fsdecode(b"caf\xe9")
    path, model, out = tmp_path / f"{name}.csv", tmp_path / f"{name}.py", tmp_path / "out"
    with path.open("wb") as file:
        pa.csv.write_csv(pa.parquet.read_table(linear[0]), file)
    model.write_text("import evidentia as ev\nmine = ev.models.linear_regression(1)\n")
    words = ("-m", f"{model}:mine", "-t", "y", "--features", "a", "--out", out)
    code, _, err = run(*estimate(path, *words))
    assert (code, err) == (0, "")
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert results["data"]["file"] == "caf\ufffd.csv"
    path.rename(path.with_suffix(".parquet"))
    code, _, err = run(*estimate(path.with_suffix(".parquet"), *words))
    assert code == 2 and "caf\ufffd.parquet: a Parquet file needs a name that is UTF-8 text" in err
    code, _, err = run(*estimate(path, *words[:-1], tmp_path / name))
    assert code == 2 and "the name is not UTF-8 text" in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["pipe", "pipe.csv"])
@pytest.mark.parametrize("command", ["estimate", "stream"])
def test_a_pipe_is_refused_at_once(run, tmp_path, command, name):
    os.mkfifo(tmp_path / name)
    code, out, err = run(command, tmp_path / name, "-m", "linear", "-t", "y")
    assert (code, out) == (2, "") and f"{name} is a named pipe" in err and "evidentia stream -" in err


@pytest.mark.slow
def test_a_failed_estimate_ends_with_exit_code_3(tmp_path, capsys):
    """Its results are printed and written all the same, and their comparison ends so, too."""
    table = tmp_path / "table.csv"
    rows = np.random.default_rng(0).normal(size=(50, 2))
    table.write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in rows) + "\n")
    words = ["estimate", str(table), "-m", "linear", "-t", "y", "--method", "harmonic-mean", "--quiet"]
    out = tmp_path / "out"
    assert main([*words, "--num-particles", "64", "--out", str(out), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["evidences"]["linear regression"]["verdict"]["word"] == "failed"
    assert main(["compare", str(out)]) == 3
    assert "failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("estimate", "{file}", "-m", "linear", "-t", "y"), "posterior_of_mine.png"),
        (("regress", "{file}", "y ~ a"), "predictions.png"),
        (("stream", "{file}", "-m", "linear", "-t", "y"), "updates.jsonl"),
        (("demo",), "stopped/index.html"),
        (("reproduce", "error-model", "--quick"), "error-model.json"),
    ],
)
@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_of_others_stops_the_command_before_its_work(run, linear, tmp_path, words, name, is_link):
    mine, out = tmp_path / "mine", tmp_path / "out"
    mine.write_text('{"my": "own"}')
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(mine) if is_link else (out / name).write_text('{"my": "own"}')
    code, shown, err = run(*(word.format(file=linear[0]) for word in words), "--out", out)
    assert (code, shown) == (2, "")
    assert f"{Path(name).name} there was not written by evidentia and would be replaced" in err
    assert (out / name).read_text() == mine.read_text() == '{"my": "own"}'
    assert (out / name).is_symlink() == is_link


@pytest.mark.parametrize("problem", [ev.ConfigurationError("no more room"), OSError(28, "no more room")])
def test_numbers_that_cannot_be_written_are_printed(run, linear, tmp_path, monkeypatch, problem):
    def failing(*words, **options):
        raise problem

    monkeypatch.setattr("evidentia.cli.results.write_results", failing)
    code, out, err = run("regress", linear[0], "y ~ a", "--out", tmp_path / "out")
    assert code == 2 and "no more room" in err and "log BF" in out and "Written to" not in out
