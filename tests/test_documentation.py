"""The Python examples of README.md and docs/ run as they stand, on fewer rows; links lead somewhere."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "docs/index.md",
    "docs/start.md",
    "docs/models.md",
    "docs/streaming.md",
    "docs/change-and-averaging.md",
    "docs/methods/reference-estimators.md",
]


def examples(page: str) -> str:
    """The blocks marked python (not py), one after the other as a reader runs them; thousands of rows become 600."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\b\d+_000\b", "600", "\n".join(blocks))


def test_examples_run(tmp_path, monkeypatch):
    """All pages in one test: they share models, and so the compiled programs."""
    monkeypatch.chdir(tmp_path)
    for page in PAGES:
        code = examples(page)
        assert "import evidentia as ev" in code
        exec(compile(code, page, "exec"), {"__name__": "example"})


def test_links_lead_somewhere():
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]:
        text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(REPOSITORY)} links to {target}"
