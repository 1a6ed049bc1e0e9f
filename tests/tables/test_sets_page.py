"""The code of docs/sets.md runs, in order, as one program, and prints what it says."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "sets.md").read_text(encoding="utf-8")


def test_the_page_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/sets.md", "exec"), names)
        told = re.findall(r"^print\(.*?\)  # (.*(?:\n# .*)*)", block, re.MULTILINE)
        expected = " ".join(line.strip("# ") for text in told for line in text.split("\n"))
        assert capsys.readouterr().out.split() == expected.split()
