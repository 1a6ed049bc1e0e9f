"""The gallery's runner: cells, outputs and pictures of a page, and pages that lack what they need."""

import ast
import runpy
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[1]
RUNNER = runpy.run_path(str(ROOT / "docs" / "site" / "gallery.py"))
PAGE = """# %% [markdown]
# # A page
#
# About it.

# %%
from matplotlib import pyplot as plt

print(1 + 1)

# %%
plt.figure(num="What is seen")
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setitem(RUNNER["write"].__globals__, "PAGES", tmp_path)
    monkeypatch.setitem(RUNNER["write"].__globals__, "BUILT", tmp_path)

    def written(program):
        (tmp_path / "page.py").write_text(program)
        RUNNER["write"]("page")
        return (tmp_path / "page.md").read_text()

    return written


def test_a_page_shows_text_code_output_and_pictures(written, tmp_path):
    page = written(PAGE)
    assert page.startswith("# A page\n\nAbout it.\n\n```python\nfrom matplotlib")
    assert "```text\n2\n```" in page and "![What is seen](page-1.png)" in page
    assert (tmp_path / "page-1.png").exists() and RUNNER["is_fresh"]("page")
    (tmp_path / "page.py").write_text(PAGE + "\n")
    assert not RUNNER["is_fresh"]("page")


def test_a_picture_without_text_is_refused(written):
    with pytest.raises(ValueError, match="no text for those who do not see it"):
        written(PAGE.replace('num="What is seen"', ""))


def test_a_page_without_a_picture_is_refused(written):
    with pytest.raises(ValueError, match="draws no figure"):
        written(PAGE[: PAGE.rindex("# %%")])


@pytest.mark.parametrize("name", RUNNER["names"]())
def test_every_page_has_a_title_a_first_sentence_and_code(name):
    cells = RUNNER["cells"]((ROOT / "examples" / "gallery" / f"{name}.py").read_text(encoding="utf-8"))
    kind, text = cells[0]
    title, about = text.split("\n\n")[:2]
    assert kind == "markdown" and title.startswith("# ") and about.rstrip().endswith(".")
    assert all(ast.parse(text) for kind, text in cells if kind == "code")


def test_there_are_ten_pages_at_least():
    assert len(RUNNER["names"]()) >= 10
