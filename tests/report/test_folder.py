"""The report: everything that it should hold, nothing from elsewhere."""

import json
import os
import re
import threading
from html.parser import HTMLParser

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from evidentia.errors import CheckpointError
from evidentia.report import folder as folder_module
from evidentia.report import results_dict, write_results
from evidentia.report.file_names import file_names
from evidentia.results.comparing import compare
from evidentia.results.loading import load
from tests.evidence_factory import make_evidence

EVIDENCES = {
    "all <features>": make_evidence(-1000.0, 0.2, model_name="softmax"),
    "two/missing": make_evidence(-1100.0, 0.3, seed=1),
}
ABOUT = {"title": "Which features matter?", "notes": ["1,000 rows & one label."], "data": {"seed": 0}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    write_results(path / "new", EVIDENCES, compare(EVIDENCES), **ABOUT)
    return path / "new"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def test_the_folder_holds_numbers_trajectories_pictures_and_the_page(folder):
    assert {file.name for file in folder.iterdir()} == {
        "results.json",
        "index.html",
        "comparison.png",
        *(
            f"{stem}_{name}.{ending}"
            for name in ("all_features", "two_missing")
            for stem, endings in (
                ("trajectory", ("csv", "parquet")),
                ("evidence", ("png",)),
                ("posterior", ("png",)),
            )
            for ending in endings
        ),
        *("evidence_all_features", "evidence_two_missing"),
    }


def test_evidences_can_be_loaded(folder):
    loaded = load(folder / "evidence_two_missing")
    assert loaded.to_dict() == {**EVIDENCES["two/missing"].to_dict(), "method": loaded.method}


def test_the_numbers_are_those_of_the_evidences(folder):
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert found == json.loads(json.dumps(results_dict(EVIDENCES, compare(EVIDENCES), **ABOUT)))
    assert found["evidences"]["all <features>"]["log_evidence"] == -1000.0
    assert found["comparison"]["best"] == "all <features>"
    assert found["notes"] == ABOUT["notes"] and found["data"] == ABOUT["data"]


def test_trajectories_can_be_read_back(folder):
    path = EVIDENCES["two/missing"].trajectory
    for table in (
        pyarrow.csv.read_csv(folder / "trajectory_two_missing.csv"),
        pyarrow.parquet.read_table(folder / "trajectory_two_missing.parquet"),
    ):
        assert table.column_names == list(path.columns)
        np.testing.assert_allclose(table["log_evidence"].to_numpy(), path.log_evidence)


def test_pictures_are_png(folder):
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in folder.glob("*.png"))


def test_the_page_is_well_formed_and_self_contained(page, folder):
    assert page.open == []
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    assert page.all("link") == [{"rel": "icon", "href": "data:,"}]
    assert not any("src" in script for script in page.all("script"))
    assert not re.search(r"https?://|url\(", (folder / "index.html").read_text(encoding="utf-8"))


def test_every_picture_has_words_that_stand_in_for_it(page):
    alternatives = [image["alt"] for image in page.all("img")]
    assert len(alternatives) == 5 == len(set(alternatives))
    assert all(len(words) > 40 for words in alternatives)


def test_the_answer_comes_first_and_names_are_escaped(page):
    words = " ".join(" ".join(page.words).split())
    assert "100.00 ± 0.36 nats log Bayes factor of all <features> against two/missing" in words
    assert compare(EVIDENCES).conclusion in words
    assert ABOUT["notes"][0] in words


def test_the_table_can_be_sorted_by_number(page):
    keys = [float(cell["data-key"]) for cell in page.all("td")[1::6]]
    assert keys == [-1000.0, -1100.0]


def test_settings_are_on_the_page(page):
    words = " ".join(page.words)
    for expected in (
        "Method(num_particles=64, kernel=Kernel(step_size=0.1))",
        "Seed",
        "Num moves",
        "evidentia",
    ):
        assert expected in words


def test_one_model_alone_has_a_page(tmp_path):
    alone = {"softmax": make_evidence(-1234.5, 0.12)}
    write_results(tmp_path, alone, compare(alone), title="One model")
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    words = " ".join(" ".join(page.words).split())
    assert "-1,234.50 ± 0.12 nats log evidence, from 1,000 observations" in words
    assert len(page.all("img")) == 2


def test_a_run_that_was_stopped_says_so(tmp_path):
    stopped = {"softmax": make_evidence(completed=False)}
    write_results(tmp_path, stopped, compare(stopped), title="Stopped")
    assert "Stopped before the end of the data: softmax." in (tmp_path / "index.html").read_text(
        encoding="utf-8"
    )


def test_names_that_would_share_a_file_are_kept_apart(tmp_path):
    names = ["a b", "A_b", "a*b", "x", "x.png", "long " * 100, "long " * 100 + "2"]
    evidences = {name: make_evidence(-float(place)) for place, name in enumerate(names)}
    write_results(tmp_path, evidences, compare(evidences), title="many")
    stems = file_names(names)
    for place, name in enumerate(names):
        assert load(tmp_path / f"evidence_{stems[name]}").log_evidence == -place
        assert (tmp_path / f"evidence_{stems[name]}.png").is_file()
    write_results(tmp_path, evidences, compare(evidences), title="again")  # all files are ours


@pytest.mark.slow
@pytest.mark.parametrize("fails_at", range(1, 11))
def test_a_write_that_fails_leaves_each_file_old_or_new(tmp_path, monkeypatch, fails_at):
    old, new = {"one": make_evidence(-1.0)}, {"one": make_evidence(-3.0)}
    write_results(tmp_path, old, compare(old), title="old")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    whole = tmp_path / "whole"
    write_results(whole, new, compare(new), title="new")
    calls, replace = 0, os.replace

    def full(source, target):
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises((OSError, CheckpointError), match="No space"):
        write_results(tmp_path, new, compare(new), title="new")
    monkeypatch.undo()
    assert load(tmp_path / "evidence_one").log_evidence == (-1.0 if fails_at < 6 else -3.0)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert set(found) == set(before)  # nothing half-written is left
    changed = [name for name in found if found[name] != before[name]]
    assert len(changed) <= fails_at - 1
    # The page has the time at which it was made.
    assert all(found[name] == (whole / name).read_bytes() for name in changed if name != "index.html")


def test_files_of_others_are_known(tmp_path):
    assert folder_module.not_ours(tmp_path) is None
    (tmp_path / "index.html").write_text("<html>mine</html>")
    assert folder_module.not_ours(tmp_path) == tmp_path / "index.html"
    (tmp_path / "index.html").unlink()
    evidences = {"one": make_evidence(-1.0)}
    write_results(tmp_path, evidences, compare(evidences), title="one")
    assert folder_module.not_ours(tmp_path) is None
    for content in ('{"mine": 1}', "[]", "not JSON", "[" * 100_000):
        (tmp_path / "results.json").write_text(content)
        assert folder_module.not_ours(tmp_path) == tmp_path / "results.json"


def test_a_folder_of_evidence_with_files_of_others_is_known(tmp_path):
    evidences = {"one": make_evidence(-1.0)}
    write_results(tmp_path, evidences, compare(evidences), title="one")
    (tmp_path / "evidence_one" / "notes.txt").write_text("mine")
    assert folder_module.not_ours(tmp_path) == tmp_path / "evidence_one" / "notes.txt"
    with pytest.raises(CheckpointError, match=r"notes\.txt was not written by Evidence\.save"):
        write_results(tmp_path, evidences, compare(evidences), title="one")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["$\\frac{$", "a$b$c", "漢字"])
def test_names_are_not_mathematics(tmp_path, recwarn, name):
    evidences = {name: make_evidence(-1.0), "other": make_evidence(-2.0)}
    write_results(tmp_path, evidences, compare(evidences), title=name)
    assert (tmp_path / "index.html").exists() and not recwarn.list


OWN = ["comparison.png", "predictions.png", "posterior_mine.png", "trajectory_mine.csv", "updates.jsonl"]
OWN += ["trajectory_mine.parquet", "evidence_mine.png", "coefficients.png", "results.json", "index.html"]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("kind", ["file", "link", "broken link", "folder"])
def test_each_file_of_others_that_could_be_replaced_is_known(tmp_path, name, kind):
    evidences = {"one": make_evidence(-1.0)}
    out, mine = tmp_path / "out", tmp_path / "mine"
    write_results(out, evidences, compare(evidences), title="one")
    (out / name).unlink(missing_ok=True)
    if kind == "folder":
        (out / name).mkdir()
    elif kind == "file":
        (out / name).write_text("mine\n")
    else:
        (out / name).symlink_to(mine)
        if kind == "link":
            mine.write_bytes((out / "posterior_one.png").read_bytes())
    assert folder_module.not_ours(out) == out / name
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        CheckpointError, match=f"{re.escape(name)} was not written by evidentia. Name another"
    ):
        write_results(out, evidences, compare(evidences), title="two")
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_links_under_temporary_names_are_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    for name in ("results.json.new", ".results.json.new", "index.html.new", "comparison.png.new"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "mine")
    evidences = {"one": make_evidence(-1.0)}
    write_results(tmp_path / "out", evidences, compare(evidences), title="one")
    assert (tmp_path / "mine").read_text() == "mine"


def test_two_that_write_into_one_folder_leave_the_results_of_one(tmp_path):
    both = [{"one": make_evidence(-1.0 - place)} for place in range(2)]

    def write(evidences):
        for _ in range(2):
            write_results(tmp_path, evidences, compare(evidences), title="one")

    threads = [threading.Thread(target=write, args=(evidences,)) for evidences in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = json.loads((tmp_path / "results.json").read_bytes())
    assert found["evidences"]["one"]["log_evidence"] == load(tmp_path / "evidence_one").log_evidence
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "lock"))]
