"""The page of a prediction that was killed fifty times is that of its record."""

import json

from studies.experiments.scale import kills


def test_the_page_of_kills_is_that_of_its_record():
    cells = json.loads(kills.PAGE.with_suffix(".json").read_text())["cells"]
    assert len(cells) == kills.NUM_KILLS and [cell["kill"] for cell in cells] == list(range(kills.NUM_KILLS))
    assert kills.PAGE.read_text() == kills.page(cells)
    assert all(cell["lost_or_rewritten"] == cell["unlike_the_whole_run"] == 0 for cell in cells)
    assert sum(0 < cell["parts_after"] < cell["of"] for cell in cells) > kills.NUM_KILLS / 2
