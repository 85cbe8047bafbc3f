"""The gallery: pages match their scripts, and scripts run with public names only."""

import ast
import bz2
import json
import re
import sys
import urllib.request
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import evidentia as ev

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = REPOSITORY / "docs" / "gallery"
SCRIPTS = sorted((REPOSITORY / "gallery").glob("*.py"))
every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


def cells(script: Path) -> list[tuple[str, str]]:
    """The cells of a script in the percent format: header and text, Markdown without `# `."""
    _, *parts = re.split(r"^# %%(.*)\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        if kind.strip() == "[markdown]":
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        found.append((kind.strip(), text.strip()))
    return found


def without_blank_lines(text: str) -> str:
    return re.sub(r"\n\n+", "\n", text).strip()


def page_of(script: Path) -> str:
    return (PAGES / f"{script.stem}.md").read_text(encoding="utf-8")


def test_there_are_eleven_examples_with_a_page_each():
    pages = {page.stem for page in PAGES.glob("*.md")} - {"index"}
    assert len(SCRIPTS) == 11
    assert pages == {script.stem for script in SCRIPTS}


@every_script
def test_page_holds_the_script_as_it_stands(script):
    """Prose and code match exactly; only output, pictures and footer come from the run."""
    page, _, footer = page_of(script).rpartition("\n---\n")
    assert f"`gallery/{script.name}`" in footer
    links = re.findall(r"\]\((.*?)\)", footer)  # `make docs` writes these files
    assert links == [f"downloads/{script.stem}.ipynb", f"downloads/{script.name}"]
    page = re.sub(r"^```text\n.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"^!\[.*\]\(images/.*\)$", "", page, flags=re.MULTILINE)
    parts = [text if kind == "[markdown]" else f"```python\n{text}\n```" for kind, text in cells(script)]
    assert without_blank_lines(page) == without_blank_lines("\n".join(parts)), "run `make gallery`"


@every_script
def test_page_shows_every_picture_with_the_text_that_its_cell_gives(script):
    shown = re.findall(r"^!\[(.*)\]\((.*)\)$", page_of(script), flags=re.MULTILINE)
    given = [kind.removeprefix('alt="').removesuffix('"') for kind, _ in cells(script) if "alt=" in kind]
    assert given and [text for text, _ in shown] == given
    named = {PAGES / target for _, target in shown}
    assert named == set((PAGES / "images").glob(f"{script.stem}_*.png"))


@every_script
def test_page_comes_from_a_run_without_errors_or_warnings(script):
    printed = re.findall(r"^```text\n(.*?)^```$", page_of(script), flags=re.MULTILINE | re.DOTALL)
    assert printed
    for words in ("Traceback", "Warning", "/tmp", "ipykernel", r"\bnan\b"):
        assert not any(re.search(words, text) for text in printed), words


@every_script
def test_script_uses_public_names_only(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    public = {"evidentia": ev.__all__, "evidentia.display.plots": ["COLORS", "LINE_STYLES"]}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evidentia"):
            assert {alias.name for alias in node.names} <= set(public[node.module])
        elif isinstance(node, ast.Import):
            assert {alias.name for alias in node.names if alias.name.startswith("evidentia")} <= {"evidentia"}
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")
            if isinstance(node.value, ast.Name) and node.value.id == "ev":
                assert node.attr in ev.__all__


@every_script
def test_script_reads_like_an_article(script):
    """A title, the question, one section on what could mislead, and prose at the end."""
    prose = [text for kind, text in cells(script) if kind == "[markdown]"]
    assert re.match(r"# .+\n\n\*\*The question\.\*\*", prose[0])
    assert sum("## What could mislead here" in text for text in prose) == 1
    assert cells(script)[-1][0] == "[markdown]"
    assert len(script.read_text(encoding="utf-8").splitlines()) < 170


def test_index_lists_every_page():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    navigation = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    for script in SCRIPTS:
        assert index.count(f"({script.stem}.md)") == 1
        assert navigation.count(f"gallery/{script.stem}.md") == 1


# The first code cell of a script reads the data, from a folder or else from their origin.

SERIES = {
    "series": [{"raw": [2.0, 2.5, 2.0, 3.0, 3.5, 3.0]}],
    "time": {"raw": [str(year) for year in range(2000, 2006)]},
}
ANNOTATIONS = {"nile": {"6": [3], "7": []}}


def first_code_cell(stem):
    code = next(text for kind, text in cells(REPOSITORY / "gallery" / f"{stem}.py") if kind != "[markdown]")
    names = {"__name__": "example"}
    exec(compile(code, stem, "exec"), names)
    return names


@pytest.mark.parametrize(
    "stem, file", [("change_in_a_series", "nile"), ("model_averaging", "unemployment_nl"), ("noise_model", "usd_isk")]
)  # fmt: skip
def test_series_are_the_same_from_folder_and_origin(stem, file, tmp_path, monkeypatch):
    (tmp_path / "tcpd").mkdir()
    contents = {f"{file}.json": SERIES, "annotations.json": ANNOTATIONS}
    for name, content in contents.items():
        (tmp_path / "tcpd" / name).write_text(json.dumps(content))

    def urlopen(address):
        assert address.startswith("https://raw.githubusercontent.com/alan-turing-institute/TCPD/master/")
        return BytesIO(json.dumps(contents[address.rpartition("/")[2]]).encode())

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setenv("EVIDENTIA_DATA", str(tmp_path))
    local = first_code_cell(stem)
    monkeypatch.delenv("EVIDENTIA_DATA")
    fetched = first_code_cell(stem)
    assert fetched["series"] == local["series"] == SERIES


def test_large_table_is_the_same_from_folder_and_origin(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    columns = np.zeros((6, 22), np.float32)
    columns[np.arange(6), np.arange(6)] = 1
    columns[:, 12] = np.arange(6) / 8
    label = np.array([0, 1, 0, 0, 1, 1])
    table = {f"f{i + 1}": columns[:, i] for i in range(22)} | {"label": label}
    pa.parquet.write_table(pa.table(table), tmp_path / "ijcnn1.parquet")

    def urlopen(address):
        rows = range(4) if address.endswith("/ijcnn1.bz2") else range(4, 6)
        lines = [
            f"{2 * label[row] - 1} " + " ".join(f"{i + 1}:{columns[row, i]}" for i in np.flatnonzero(columns[row]))
            for row in rows
        ]  # fmt: skip
        return BytesIO(bz2.compress(("\n".join(lines) + "\n").encode()))

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setenv("EVIDENTIA_DATA", str(tmp_path))
    local = first_code_cell("variable_selection")
    monkeypatch.delenv("EVIDENTIA_DATA")
    fetched = first_code_cell("variable_selection")
    for found in (local, fetched):
        np.testing.assert_array_equal(found["columns"], columns)
        np.testing.assert_array_equal(found["label"], label)


def test_breast_cancer_table_is_the_same_from_folder_and_origin(tmp_path, monkeypatch):
    grades = np.random.default_rng(0).integers(1, 11, (5, 9)).astype(float)
    grades[2, 5] = np.nan
    classes = [2, 4, 2, 4, 4]
    rows = [
        [1000 + row, *("?" if np.isnan(grade) else int(grade) for grade in grades[row]), classes[row]]
        for row in range(5)
    ]
    text = "\n".join(",".join(str(entry) for entry in row) for row in rows)
    (tmp_path / "breast-cancer-wisconsin.data").write_text(text + "\n")

    def fetch_openml(name, **_):
        assert name == "breast-w"
        return grades, np.array(["malignant" if number == 4 else "benign" for number in classes])

    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "sklearn.datasets", SimpleNamespace(fetch_openml=fetch_openml))
    monkeypatch.setenv("EVIDENTIA_DATA", str(tmp_path))
    local = first_code_cell("latent_variables")
    monkeypatch.delenv("EVIDENTIA_DATA")
    fetched = first_code_cell("latent_variables")
    for found in (local, fetched):
        assert found["y"].tolist() == [0, 1, 1, 1]
        assert found["x"].shape == (4, 9)
    np.testing.assert_array_equal(local["x"], fetched["x"])


@pytest.mark.parametrize("stem, file", [("diamond_prices", "diamonds.parquet"), ("penguins", "penguins.csv")])
def test_tables_are_the_same_from_folder_and_origin(stem, file, tmp_path, monkeypatch):
    table = pd.DataFrame(
        {"cut": ["Fair", "Ideal"], "price": [3, 4], "carat": [0.5, 0.4], "sex": ["male", None]}
    )
    (tmp_path / "tables").mkdir()
    table.to_parquet(tmp_path / "tables" / "diamonds.parquet")
    table.to_csv(tmp_path / "tables" / "penguins.csv", index=False)

    def urlopen(address):
        assert address.startswith("https://raw.githubusercontent.com/")
        return BytesIO(table.to_csv(index=False).encode())

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setenv("EVIDENTIA_DATA", str(tmp_path))
    name = file.partition(".")[0]
    local = first_code_cell(stem)[name]
    monkeypatch.delenv("EVIDENTIA_DATA")
    fetched = first_code_cell(stem)[name]
    assert len(local) == 2
    pd.testing.assert_frame_equal(local, fetched)


@pytest.mark.gallery
@every_script
def test_script_runs(script, request, monkeypatch, capsys):
    """The output is not compared: another machine or version may change a last digit."""
    code = script.read_text(encoding="utf-8")
    if "EVIDENTIA_DATA" in code:
        monkeypatch.setenv("EVIDENTIA_DATA", str(request.getfixturevalue("shared_data")))
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    with plt.rc_context():
        exec(compile(code, str(script), "exec"), {"__name__": "__main__"})
    assert "nats" in capsys.readouterr().out
