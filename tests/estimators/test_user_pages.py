"""The pages for users of scikit-learn, of frames and of awkward arrays run, in order, as programs; trained for less."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["with-scikit-learn", "with-frames", "with-awkward"])
def test_the_page_runs(page):
    blocks = re.findall(
        r"^```python\n(.*?)^```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) >= 3
    program = "".join(blocks)
    quick = re.sub(r"time_budget=\d+", "validation=0.2, max_epochs=3", program)
    assert quick != program
    names: dict[str, object] = {}
    exec(compile(quick, f"docs/{page}.md", "exec"), names)
    assert names["model"].get_params()["max_epochs"] == 3
