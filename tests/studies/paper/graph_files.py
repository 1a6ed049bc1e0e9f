"""The files of the graph data sets, copied from where they are at hand; no test may fetch them."""

import shutil
from pathlib import Path
from urllib.error import URLError

import pytest

from studies.paper.graphs.datasets import FOLDERS, NAMES

SHARED = Path(__file__).parents[4] / "shared" / "data"


def unplug(monkeypatch) -> None:
    """No network for torch_geometric."""
    pytest.importorskip("torch_geometric")

    def refuse(*_, **__):
        raise URLError("no network")

    monkeypatch.setattr("torch_geometric.io.fs.cp", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)


def copied(name, folder) -> Path:
    """A copy of the data set's files below the folder: torch_geometric writes what it processed beside them."""
    part = f"{FOLDERS[name]}/ppi.npz" if name == "ppi-go" else f"{FOLDERS[name]}/raw"
    if not (SHARED / part).exists():
        pytest.skip(f"needs {NAMES[name]} as {SHARED / part}")
    for source in [SHARED / part] if name == "ppi-go" else (SHARED / part).iterdir():
        to = folder / source.relative_to(SHARED)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)
    return folder
