"""The benchmark harness, and that both sides of a row do the same work."""

import json

import pytest
import torch

from benchmarks.harness import Row, measure, record, table
from benchmarks.run import BENCHMARKS, RESULTS

torch.manual_seed(0)
ROWS = {f"{name}: {row.name}": row for name, benchmark in BENCHMARKS.items() for row in benchmark.rows()}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_both_sides_agree(row):
    ours, reference = row.ours(), row.reference()
    assert ours.shape == reference.shape
    if not row.agree:  # different work: the same function of sets of other sizes
        assert ours.isfinite().all() and reference.isfinite().all()
        return
    if "permutation" in row.name:  # each draws its own: the same mean over 128 sets, to a few standard errors
        spread = (ours.std() + reference.std()) / len(ours) ** 0.5
        assert (ours - reference).mean().abs() < 5 * spread
    else:
        tolerance = {"rtol": 0, "atol": 1e-4} if "tolerance 1e-04" in row.name else {}
        torch.testing.assert_close(ours, reference, **tolerance)


def test_sides_take_turns_and_medians_are_reported():
    calls = []
    row = Row("a row", lambda: calls.append("ours"), lambda: calls.append("reference"))
    (timing,) = measure([row], num_pairs=6, seconds=60.0)
    assert timing.num_pairs == 6 and len(calls) == 4 + 2 * 2 * 6
    timed = calls[5::2]  # each call is timed after one of its own side that is not
    assert calls[4::2] == timed
    assert all({timed[i], timed[i + 1]} == {"ours", "reference"} for i in range(0, 12, 2))
    assert timed[0] == timed[3] == "ours"
    assert timing.ours_quartiles[0] <= timing.ours <= timing.ours_quartiles[1]
    data = record([timing], "about this", "the command")
    assert json.loads(json.dumps(data))["machine"]["cores"]
    text = table(data)
    assert "about this" in text and "| a row |" in text and "the command" in text


@pytest.mark.parametrize("name", BENCHMARKS)
def test_committed_tables_have_todays_rows(name):
    data = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in data["rows"]] == [row.name for row in BENCHMARKS[name].rows()]
    assert (RESULTS / f"{name}.md").read_text(encoding="utf-8") == table(data)
