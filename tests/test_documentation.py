"""The Python examples of README.md and docs/ run as they stand, on fewer rows."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/index.md", "docs/start.md", "docs/models.md"]


def examples(page: str) -> str:
    """The Python blocks of a page, one after the other as a reader runs them; thousands of rows become 2,000."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\b\d+_000\b", "2_000", "\n".join(blocks))


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = examples(page)
    assert "import evidentia as ev" in code
    exec(compile(code, page, "exec"), {"__name__": "example"})


def test_links_lead_somewhere():
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target and "…" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(REPOSITORY)} links to {target}"
