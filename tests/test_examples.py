"""The worked examples run, and show what they say."""

import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLANETOID = ROOT.parent / "shared" / "data" / "planetoid"


@pytest.fixture
def planetoid(tmp_path):
    """A copy of the data: torch_geometric writes what it processed beside them."""
    if not (PLANETOID / "Cora" / "raw").is_dir():
        pytest.skip(f"needs Cora's raw files in {PLANETOID}")
    shutil.copytree(PLANETOID / "Cora" / "raw", tmp_path / "Cora" / "raw")
    return tmp_path


def test_replace_lstm_aggregation(planetoid, capsys):
    pytest.importorskip("torch_geometric")
    example = runpy.run_path(str(ROOT / "examples" / "replace_lstm_aggregation.py"))
    results = example["main"](["--data", str(planetoid), "--epochs", "1"])
    assert results["lstm"]["change"] > 1e-3
    assert results["janossy"]["change"] < 1e-6
    assert all(0 <= result["accuracy"] <= 1 for result in results.values())
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["aggr", "lstm", "janossy"]
