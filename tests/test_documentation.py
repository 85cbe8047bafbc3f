"""README.md and the site: code blocks run, commands and links exist, the reference is complete."""

import os
import pydoc
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import pytest
import typer
from jax.experimental.compilation_cache import compilation_cache

import evidentia as ev
from evidentia.cli import app
from evidentia.cli.estimate import CONFIGURATIONS
from experiments.catalogue import EXPERIMENTS

REPOSITORY = Path(__file__).resolve().parents[1]
ALIKE = (
    "README.md",
    "docs/index.md",
    "docs/start.md",
)  # in sequence, as they compile the same programs
PAGES = [
    *ALIKE,
    *sorted({str(p.relative_to(REPOSITORY)) for p in REPOSITORY.glob("docs/**/*.md")} - {*ALIKE}),
]


class Block(NamedTuple):
    """A block of code on a page, and the line number where it begins."""

    language: str
    code: str
    line: int


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[Block]:
    text = text_of(page)
    found = re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", text, flags=re.MULTILINE)
    every = [Block(one[1], one[2], text.count("\n", 0, one.start(2))) for one in found]
    return [block for block in every if not languages or block.language in languages]


def pages_with(language: str) -> list[str]:
    return [page for page in PAGES if blocks(page, language)]


def pages_with_examples() -> list[str]:
    """Pages with Python code, without the gallery, whose scripts have their own tests."""
    return [page for page in pages_with("python") if not page.startswith("docs/gallery/")]


@pytest.fixture
def folder_of_a_reader(tmp_path, monkeypatch):
    """A folder to work in, with a file that grows; compiled programs use the tests' cache."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sensor.csv").write_text("pressure,flow\n1.0,0.2\n1.1,0.3\n")
    kept = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    monkeypatch.setattr("evidentia.system.compilation._user_cache", lambda: kept)
    options = [name for name in jax.config.values if "cache" in name]
    before = {name: jax.config.values[name] for name in options}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def is_program(page: str) -> bool:
    """Whether the blocks of a page start processes, so that they must be run as a program."""
    return any('if __name__ == "__main__"' in block.code for block in blocks(page, "python"))


QUICK = {"docs/architecture.md", "README.md", "docs/index.md", "docs/start.md"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page in QUICK else pytest.mark.reference)
        for page in pages_with_examples()
        if not is_program(page)
    ],
)
def test_examples_run(page, folder_of_a_reader, capsys):
    """Run the blocks of a page in order, as a reader does, on 600 rows instead of thousands.

    A block marked text is the output of the one above it.
    """
    namespace, printed = {"__name__": "example"}, ""
    for block in blocks(page, "python", "text"):
        if block.language == "text":
            assert printed == block.code, f"{page}, line {block.line}"
            continue
        code = re.sub(r"\b\d+_000\b", "600", block.code)
        exec(compile("\n" * block.line + code, page, "exec"), namespace)
        printed = capsys.readouterr().out


@pytest.mark.cluster
@pytest.mark.parametrize("page", [page for page in pages_with_examples() if is_program(page)])
def test_programs_run(page, tmp_path):
    """Run the blocks of a page as one program, as they stand."""
    pytest.importorskip("dask")
    pytest.importorskip("ray")
    program = tmp_path / "program.py"
    program.write_text("\n".join(block.code for block in blocks(page, "python")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.count("nats for") == len(blocks(page, "python"))


def test_every_block_is_of_a_kind_that_is_tested():
    for page in [*PAGES, "CONTRIBUTING.md"]:
        languages = [block.language for block in blocks(page)]
        assert set(languages) <= {"python", "text", "sh"}, page
        assert len(languages) == len(re.findall("^```", text_of(page), flags=re.MULTILINE)) / 2, page
        for before, language in zip(["", *languages], languages, strict=False):
            assert language != "text" or before == "python", f"{page}: text that no example prints"


COMMAND_END = r'\n|\|(?=(?:[^"\n]*"[^"\n]*")*[^"\n]*(?:\n|$))'  # a bar within quotes is in a formula


@pytest.mark.parametrize("page", [*pages_with("sh"), "CONTRIBUTING.md"])
def test_commands_exist(page):
    """Subcommands and options of evidentia parse; targets of make and scripts exist."""
    targets = re.findall(r"^([a-z-]+):", text_of("Makefile"), flags=re.MULTILINE)
    for block in blocks(page, "sh"):
        for command in re.split(COMMAND_END, block.code):
            program, *words = shlex.split(command, comments=True) or [""]
            match Path(program).name:
                case "evidentia":
                    parse(words)
                case "make":
                    assert words[0] in targets, command
                case "python" if words[0] == "-m":
                    assert words[1] in ("pip", "pytest") or pydoc.locate(words[1]), command
                case "python":
                    assert (REPOSITORY / words[0]).is_file(), command
                case name:
                    of_readers = "", "producer", "mpiexec", "systemctl", "podman"
                    assert name in of_readers, command


def parse(words: list[str]) -> None:
    """Fail for words that the command line rejects; of a synopsis (…), only the subcommand."""
    group = typer.main.get_command(app)
    if words[0].startswith("-"):
        assert words[0] in {name for parameter in group.params for name in parameter.opts}
    elif "…" not in words:
        group.commands[words[0]].make_context(words[0], words[1:])
    assert words[0].startswith("-") or words[0] in group.commands


def test_links_lead_somewhere():
    for page in [*PAGES, "CONTRIBUTING.md"]:
        text = re.sub(r"<!--.*?-->", "", text_of(page), flags=re.DOTALL)
        for path, place in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
            if "://" in path or path.startswith("downloads/"):  # which `make docs` writes: test_gallery.py
                continue
            target = (REPOSITORY / page).parent / path if path else REPOSITORY / page
            assert target.exists(), f"{page} links to {path}"
            if place:
                assert place in headings(target), f"{page} links to {path}#{place}"


def headings(page: Path) -> list[str]:
    """The anchors of a page's headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in found]


def test_navigation_has_every_page():
    listed = re.findall(r": (\S+\.md)$", text_of("mkdocs.yml"), flags=re.MULTILINE)
    assert sorted(f"docs/{page}" for page in listed) == sorted(set(PAGES) - {"README.md"})


def test_the_site_needs_no_network():
    """Scripts and styles are files of the site; links to other sites are not affected."""
    config = text_of("mkdocs.yml")
    loaded = re.findall(r"^  - (\S+\.(?:js|css))$", config, flags=re.MULTILINE)
    assert len(loaded) >= 4
    assert all((REPOSITORY / "docs" / file).is_file() for file in loaded)
    assert re.search("^  font: false$", config, flags=re.MULTILINE)  # else the theme loads Google's


def test_reference_has_every_public_name():
    """By itself, or in the module that defines it."""
    named = re.findall(r"^::: (\S+)$", text_of("docs/reference.md"), flags=re.MULTILINE)
    for name in ev.__all__:
        home = getattr(getattr(ev, name), "__module__", None) or getattr(ev, name).__name__
        assert home in named or any(one.endswith(f".{name}") for one in named), name


def test_command_line_has_every_command_and_estimator():
    names = [*typer.main.get_command(app).commands, *CONFIGURATIONS]
    missing = [
        name for name in names if not re.search(rf"(`|evidentia ){name}\b", text_of("docs/command-line.md"))
    ]
    assert not missing, f"docs/command-line.md does not mention {', '.join(missing)}"


def test_diagnostics_has_every_sign():
    """Names of signs are the keys with spaces in the diagnoses of the estimators."""
    sources = [
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "src/evidentia/evidence").rglob("*.py")
    ]
    names = set(re.findall(r'[{\[ ]"([A-Za-z]+(?:[ -][a-z]+)+)"(?::|\] =)', "\n".join(sources)))
    assert len(names) >= 10
    missing = [name for name in names if f"| {name} |" not in text_of("docs/diagnostics.md")]
    assert not missing, f"docs/diagnostics.md does not mention {', '.join(missing)}"


def test_reproduce_has_every_experiment():
    missing = [name for name in EXPERIMENTS if f"`{name}`" not in text_of("docs/reproduce.md")]
    assert not missing, f"docs/reproduce.md does not mention {', '.join(missing)}"
