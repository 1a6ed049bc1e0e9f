"""The committed tables of the experiments are those of the committed numbers."""

import json
from pathlib import Path

import pytest

from studies.experiments import record
from studies.experiments.record import Record
from studies.experiments.sampling import (
    control,
    covariance,
    coverage,
    objectives,
    rao_blackwell,
    small,
    stopping,
    variance,
)
from studies.experiments.sampling.designs import FILE, SIZES

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "sampling"


@pytest.mark.parametrize("module", [covariance, coverage, rao_blackwell, small, stopping, variance])
def test_tables(module):
    name = module.__name__.rpartition(".")[2]
    data = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert data["command"] == f"python -m {module.__name__}"
    assert module.table(data["cells"]) == (RESULTS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", [control, objectives])
def test_tables_of_several_parts(module):
    name = module.__name__.rpartition(".")[2]
    data = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert module.tables(data) == (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def test_a_record_goes_on_where_it_was(tmp_path):
    file = tmp_path / "deep" / "record.json"
    first = Record(file, "the command")
    first.add({"task": "range", "seed": 0, "value": 1.5})
    again = Record(file, "the command")
    assert again.holds({"task": "range", "seed": 0}) and not again.holds({"task": "range", "seed": 1})
    again.add({"task": "range", "seed": 1, "value": 2.5})
    assert [cell["value"] for cell in json.loads(file.read_text())["cells"]] == [1.5, 2.5]


def test_cells_of_another_machine_say_so(tmp_path, monkeypatch):
    file = tmp_path / "record.json"
    of_before = {"command": "old", "finished": "2026", "machine": {"cpu": "A"}, "versions": {"torch": "1"}}
    file.write_text(json.dumps({**of_before, "cells": [{"seed": 0}]}))
    for cpu in ("B", "C"):
        monkeypatch.setattr(record, "about_here", lambda cpu=cpu: {"machine": {"cpu": cpu}, "versions": {"torch": "2"}})
        Record(file, "new").add({"seed": cpu})
    found = json.loads(file.read_text())
    assert found == {
        **of_before,
        "command": "new",
        "cells": [
            {"seed": 0},
            {"seed": "B", "machine": {"cpu": "B"}, "versions": {"torch": "2"}},
            {"seed": "C", "machine": {"cpu": "C"}, "versions": {"torch": "2"}},
        ],
    }
    assert Record(file, "new").holds({"seed": 0}) and Record(file, "new").holds({"seed": "B"})


def test_the_designs_are_in_the_package():
    designs = json.loads(FILE.read_text())
    assert sorted(map(int, designs)) == list(range(2, 17))
    assert all(sorted(map(int, sizes)) == list(SIZES) for sizes in designs.values())
