"""The places that fits write to, and names that are printed escaped."""

from pathlib import Path

import pytest
from rich.console import Console

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.fitting import _move, _place
from janossy.cli.workflow.inspecting import printable
from janossy.files.atomic import claimed


def test_the_second_fit_to_a_place_says_so_before_it_trains(tmp_path):
    out = tmp_path / "model"
    with claimed(out):
        with pytest.raises(BadArgument, match="another janossy fit is writing to"), _place(out, True):
            pass
        with _place(out, False):  # another process of the same fit
            pass
    with _place(out, True) as part:
        assert part.is_dir()
    assert not list(tmp_path.iterdir())


def test_what_came_meanwhile_stays_and_the_model_is_kept_beside_it(tmp_path, capsys):
    (tmp_path / "part").mkdir()
    (tmp_path / "model").write_text("another")
    assert _move(tmp_path / "part", tmp_path / "model", Console(width=200)) == Path(tmp_path / "model-2")
    assert "has come into being meanwhile" in capsys.readouterr().out
    assert {each.name for each in tmp_path.iterdir()} == {"model", "model-2"}


def test_escape_sequences_are_escaped():
    assert printable("a\x1b[31mb\r\u202e é") == "a\\x1b[31mb\\r\\u202e é"
