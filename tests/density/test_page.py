"""The page on densities runs, in order, as one program."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "density.md"


def test_the_page_runs():
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, PAGE.name, "exec"), names)
    assert names["exact"].exact.all() and not names["bound"].exact[torch.tensor(names["sets"].sizes[:20]) > 3].any()
    assert names["more"].sets.sizes == (3, 4)
    assert (names["bound"].log_prob <= names["exact"].log_prob + 1).all()
