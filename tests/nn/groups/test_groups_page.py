"""The page on groups runs, in order, as one program."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "groups.md"


def test_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    exec(compile("".join(blocks), "docs/groups.md", "exec"), names)
    assert names["found"].shape == (2, 32) and names["energies"].shape == (3, 32)
