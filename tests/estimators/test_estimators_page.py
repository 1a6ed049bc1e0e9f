"""The code of docs/estimators.md and docs/fit.md runs, in order, as one program per page."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str) -> dict[str, object]:
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    for block in blocks:
        quick = block if "max_epochs" in block else block.replace("random_state=0)", "random_state=0, max_epochs=10)")
        exec(compile(quick, f"docs/{page}", "exec"), names)
    return names


@pytest.mark.only_all
def test_the_page_of_the_estimators_runs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names = run("estimators.md")
    assert names["model"].score(names["hands"][300:], names["has_pair"][300:]) > 0.8
    assert {"found", "interval", "again"} <= names.keys()


def test_the_page_of_fit_runs():
    names = run("fit.md")
    assert list(names["forest"][0].get_feature_names_out()[:3]) == ["size", "log size", "distinct values of x0"]
