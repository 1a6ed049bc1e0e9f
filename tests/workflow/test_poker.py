"""examples/poker: its README's commands, run on dealt hands, and the table of hands."""

import re
import runpy
import shlex
from pathlib import Path

from pyarrow import parquet

from tests.workflow.commands import run

POKER = Path(__file__).parents[2] / "examples" / "poker"
PREPARE = runpy.run_path(str(POKER / "prepare.py"))


def test_the_walk_of_the_readme(tmp_path, monkeypatch, capsys):
    """With 400 dealt hands in the place of those that are downloaded, and of one strategy two epochs."""
    monkeypatch.chdir(tmp_path)
    text = (POKER / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert lines[:3] == [["pip", *lines[0][1:]], ["cd", "examples/poker"], ["python", "prepare.py"]]
    for line in lines[2:]:
        if line[0] == "python":
            PREPARE["main"]([*line[2:], *(["--deal", "400"] if line == lines[2] else [])])
        else:
            assert line[0] == "janossy"
            short = ("--strategy", "k1", "--max-epochs", "2") if line[1] == "fit" else ()
            assert run(*line[1:], *short) == 0
    assert "accuracy" in capsys.readouterr().out
    assert (tmp_path / "model" / "report.html").exists()
    assert parquet.read_metadata("predictions.parquet").num_rows == 10_000


def test_a_table_has_a_row_a_card():
    cards, worths = PREPARE["deal"](50, 1)
    table = PREPARE["table"](cards, worths)
    assert table.num_rows == 250 and table.column_names == ["hand", "suit", "rank", "worth"]
    assert all(len({tuple(card) for card in hand}) == 5 for hand in cards.tolist())
