"""Copies of the graph data sets' files, if they exist here. No test may download them."""

import shutil
from pathlib import Path
from urllib.error import URLError

import pytest

from studies.paper.graphs.datasets import BY_GENE, FOLDERS, GRAPHS, NAMES

SHARED = Path(__file__).parents[4] / "shared" / "data"


def unplug(monkeypatch) -> None:
    """Removes the network for torch_geometric."""
    pytest.importorskip("torch_geometric")

    def refuse(*_, **__):
        raise URLError("no network")

    monkeypatch.setattr("torch_geometric.io.fs.cp", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)


OURS = {"ppi": (BY_GENE, GRAPHS), "ppi-go": (GRAPHS,)}
"""The data sets that are read from our own files."""


def copied(name, folder) -> Path:
    """Returns a copy of the data set's files below the folder, because torch_geometric writes beside them."""
    parts = [SHARED / FOLDERS[name] / part for part in OURS.get(name, ("raw",))]
    if not all(part.exists() for part in parts):
        pytest.skip(f"needs {NAMES[name]} as {', '.join(map(str, parts))}")
    for source in parts if name in OURS else parts[0].iterdir():
        to = folder / source.relative_to(SHARED)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)
    return folder
