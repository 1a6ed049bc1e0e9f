"""The code of docs/estimators.md runs, in order, as one program."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text(encoding="utf-8")


def test_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 6 and "random_state=0)" in blocks[0]
    names: dict[str, object] = {}
    for block in blocks:
        quick = block if "max_epochs" in block else block.replace("random_state=0)", "random_state=0, max_epochs=10)")
        exec(compile(quick, "docs/estimators.md", "exec"), names)
    assert names["model"].score(names["hands"][300:], names["has_pair"][300:]) > 0.8
