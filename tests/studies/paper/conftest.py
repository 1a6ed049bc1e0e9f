"""Cora, for the tests of several files."""

import pytest

from studies.paper.graphs.datasets import load
from tests.studies.paper.graph_files import copied


@pytest.fixture(scope="module")
def cora(tmp_path_factory):
    """Gives a folder with Cora's raw files, and the data read from it."""
    pytest.importorskip("torch_geometric")
    folder = copied("cora", tmp_path_factory.mktemp("cora"))
    return folder, load("cora", folder)
