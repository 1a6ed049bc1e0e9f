"""examples/poker: its README's commands, run on dealt hands, and the table of hands."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pyarrow import parquet

from tests.cli.commands import run

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


@pytest.mark.only_all
def test_it_runs_as_a_program_anywhere(tmp_path):
    """The studies, which it imports, are not installed."""
    command = [sys.executable, POKER / "prepare.py", "--deal", "10", "--out", "new.parquet"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert parquet.read_metadata(tmp_path / "new.parquet").num_rows == 50


def test_the_file_is_downloaded(tmp_path, monkeypatch, capsys):
    """From a server of this machine's own, in the place of UCI's; an error of it leaves no table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "hands.data").write_text("1,10,1,11,1,13,1,12,1,1,9\n1,2,2,2,3,5,4,6,1,9,1\n\n")
    handler = partial(QuietHandler, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        prepare = PREPARE["main"]
        for name in ("hands.data", "none.data"):
            monkeypatch.setitem(prepare.__globals__, "URL", f"http://127.0.0.1:{server.server_port}/{name}")
            monkeypatch.setenv("TORCH_HOME", str(tmp_path / name))
            if name == "none.data":
                with pytest.raises(SystemExit):
                    prepare(["--out", "none.parquet"])
            else:
                prepare([])
        server.shutdown()
    said = capsys.readouterr()
    assert "wrote 2 hands to hands.parquet" in said.out and not Path("none.parquet").exists()
    assert re.search(r"could not be downloaded from http://127.*404", said.err) and said.err.count("\n") == 1
    found = parquet.read_table("hands.parquet").to_pydict()
    assert found["hand"] == [0] * 5 + [1] * 5 and found["worth"] == ["royal flush"] * 5 + ["one pair"] * 5
    assert found["suit"][:2] == ["hearts", "hearts"] and found["rank"] == [10, 11, 13, 12, 1, 2, 2, 5, 6, 9]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):
        pass


def test_a_table_has_a_row_a_card():
    cards, worths = PREPARE["deal"](50, 1)
    table = PREPARE["table"](cards, worths)
    assert table.num_rows == 250 and table.column_names == ["hand", "suit", "rank", "worth"]
    assert all(len({tuple(card) for card in hand}) == 5 for hand in cards.tolist())
