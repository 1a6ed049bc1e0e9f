"""Results that grow cell by cell on disk, so that a run that was cut goes on where it was."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import about_here


class Record:
    """A JSON file of the command, the machine and a list of cells."""

    def __init__(self, file: Path, command: str) -> None:
        self.file, self.command = file, command
        self.cells: list[dict[str, Any]] = json.loads(file.read_text())["cells"] if file.exists() else []

    def holds(self, key: dict[str, Any]) -> bool:
        return any(key.items() <= cell.items() for cell in self.cells)

    def missing(self, keys: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Those of the keys that have no cell yet, each looked up when the ones before it are done."""
        return (key for key in keys if not self.holds(key))

    def add(self, cell: dict[str, Any]) -> None:
        self.cells.append(cell)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps({"command": self.command, **about_here(), "cells": self.cells}, indent=1) + "\n")
        part.replace(self.file)
