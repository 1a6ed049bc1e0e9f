"""The pages on layers run, each as one program, and their links lead to headings that exist."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


EXPORTING = pytest.param("exporting", marks=pytest.mark.only_all)


NEEDS = {
    "pyg": "torch_geometric",
    "exporting": "onnx",
    "with-accelerate": "accelerate",
    "with-lightning": "lightning",
}
"""The package that a page imports beside torch."""


@pytest.mark.parametrize(
    "page", ["layers", "ragged", "transforms", "encoders", "pyg", EXPORTING, "with-accelerate", "with-lightning"]
)
def test_the_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip(NEEDS.get(page, "torch"), reason=f"needs {NEEDS.get(page)}, which no extra installs")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert program
    exec(compile(program, f"docs/{page}.md", "exec"), {"__name__": page})


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_headings_exist(page):
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        other = page.parent / link if link else page
        assert anchor in anchors(other), f"{page.name}: {link}#{anchor}"
